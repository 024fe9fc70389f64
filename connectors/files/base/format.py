"""The base of every file reader: `Format`, `FormatError`, and functions to open files and read entries.

A reader yields one `Received` per entry. A damaged entry becomes a `Received` whose value is a
`MessageError`, so the other entries are unaffected. An entry that is neither a message nor damaged, such
as a notice that somebody joined, becomes a `Skipped`, which is counted by its reason. A reader raises
only a `FormatError`, and only if the file as a whole is not in its format.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path, PurePath
from typing import Any, BinaryIO, TypeAlias

import orjson

from backscroll.operators.errors import BackscrollError
from backscroll.operators.messages import MessageError, Received

__all__ = [
    "BOM",
    "CHANGED",
    "DELETED",
    "EMPTY",
    "NEEDS_TIME_ZONE",
    "NOTICE",
    "Format",
    "FormatError",
    "Head",
    "ReadFile",
    "ReadItem",
    "Skipped",
    "StrPath",
    "attempted",
    "entry_object",
    "entry_received",
    "file_name",
    "load_json",
    "open_file",
    "stem",
    "text_field",
    "text_with_caption",
]

BOM = b"\xef\xbb\xbf"
StrPath: TypeAlias = str | os.PathLike[str]


class FormatError(BackscrollError):
    """A file cannot be read as chat. The message is one line: the file, the problem, what is expected."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """An entry that is left out on purpose; `reason` describes such entries, in the plural."""

    reason: str


NOTICE = Skipped("notices and reactions: joins, leaves, topics, pins, calls")
DELETED = Skipped("deleted messages")
CHANGED = Skipped("edits and deletions of other messages")
NEEDS_TIME_ZONE = "its times have no time zone: set one, such as --tz Europe/Berlin"
EMPTY = Skipped("messages without their own text: media, stickers, quotations")

ReadItem: TypeAlias = Received | Skipped

ReadFile: TypeAlias = Callable[[StrPath, tzinfo | None], Iterator[ReadItem]]


@dataclass(frozen=True, slots=True)
class Head:
    """What a format is recognised from: the path, the first bytes, the members of an archive or folder.

    `whole` is true if `start` is the whole file.
    """

    path: StrPath
    start: bytes = b""
    whole: bool = True
    members: tuple[str, ...] = ()

    def is_json_with(self, signs: Iterable[bytes]) -> bool:
        """Whether it starts like JSON and each of the patterns occurs in it."""
        is_json = self.start.lstrip().startswith((b"{", b"["))
        return is_json and all(re.search(sign, self.start) for sign in signs)


@dataclass(frozen=True, slots=True)
class Format:
    """How to recognise and read a file format.

    `local_times` says whether a file's times need a time zone; `again` is true if the file is read more
    than once, so that it cannot be a pipe.
    """

    read: ReadFile
    recognises: Callable[[Head], bool]
    local_times: Callable[[Head], bool] = lambda _: False
    again: bool = False


def file_name(path: StrPath) -> str:
    """The path as text that JSON can hold; bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def open_file(path: StrPath) -> BinaryIO:
    """Open a file for reading bytes.

    Raises:
        FormatError: the file is missing, a directory or not readable.
    """
    try:
        return Path(path).open("rb")
    except (OSError, ValueError) as err:  # ValueError: a NUL character in the path
        raise FormatError(f"{file_name(path)}: cannot be read: {_reason(err)}") from err


def load_json(path: StrPath, *, expected: str) -> Any:
    """Load the whole file as one JSON document; `expected` describes it in error messages.

    Raises:
        FormatError: the file cannot be read or is not one JSON document.
    """
    with open_file(path) as file:
        try:
            return orjson.loads(file.read().removeprefix(BOM))
        except orjson.JSONDecodeError as err:
            msg = f"{file_name(path)}: not one JSON document ({err}): expected {expected}"
            raise FormatError(msg) from err
        except OSError as err:
            raise FormatError(f"{file_name(path)}: cannot be read: {_reason(err)}") from err


def entry_received(
    path: StrPath, place: str, entry: object, value: Mapping[str, Any] | MessageError
) -> Received:
    """Wrap an entry's message or error, with its place in the file and its raw bytes or JSON."""
    try:
        raw = entry if isinstance(entry, bytes) else orjson.dumps(entry)
    except orjson.JSONEncodeError:  # nested too deeply for orjson to write: do without its raw JSON
        raw = b""
    if isinstance(value, MessageError):
        value = value.with_traceback(None)  # it would keep the whole document alive
    return Received(value, (("file", file_name(path)), ("entry", place)), raw)


def attempted(
    path: StrPath, place: str, entry: object, message: Callable[[], Mapping[str, Any] | Skipped]
) -> ReadItem:
    """Call `message` for an entry and wrap the result: a message, something to skip, or an error."""
    try:
        value = message()
    except MessageError as err:
        return entry_received(path, place, entry, err)
    return value if isinstance(value, Skipped) else entry_received(path, place, entry, value)


def stem(path: StrPath) -> str:
    """The file's name without its folder and last suffix."""
    return PurePath(file_name(path)).stem


def entry_object(entry: object) -> dict[str, Any]:
    """The entry as a JSON object.

    Raises:
        MessageError: it is something else.
    """
    if not isinstance(entry, dict):
        raise MessageError(f"a message must be an object, not {type(entry).__name__}")
    return entry


def text_field(entry: Mapping[str, Any], name: str, *, empty: bool = False) -> str:
    """A text field of an entry, which must not be blank unless `empty`.

    Raises:
        MessageError: the field is missing, not a string, or blank.
    """
    value = entry.get(name)
    if value is None:
        raise MessageError(f"{name} is missing")
    if not isinstance(value, str):
        raise MessageError(f"{name} must be a string, not {type(value).__name__}")
    if not empty and not value.strip():
        raise MessageError(f"{name} is empty")
    return value


def text_with_caption(entry: Mapping[str, Any], name: str) -> str:
    """The text, followed by the caption of a shared image, which LoCoMo and REALTALK store separately.

    The caption is appended as ` [shares image: CAPTION]`; it stands alone if the text is empty or missing.
    It is kept because later messages often talk about what an image shows.
    """
    if entry.get("blip_caption") is None:
        return text_field(entry, name, empty=True)
    caption = text_field(entry, "blip_caption", empty=True)
    text = "" if entry.get(name) is None else text_field(entry, name, empty=True)
    if not caption.strip():
        return text
    shared = f"[shares image: {caption}]"
    return f"{text} {shared}" if text.strip() else shared


def _reason(err: OSError | ValueError) -> str:
    return (isinstance(err, OSError) and err.strerror) or str(err)
