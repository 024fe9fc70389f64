"""The file formats by name, and which of them a file is in.

    messages      JSON Lines, one message a line (`jsonl`)
    locomo        LoCoMo conversations (`locomo`)
    realtalk      a REALTALK chat (`realtalk`)
    evermembench  an EverMemBench-Dynamic dialogue file (`evermembench`)

`check_file` is for the moment a command starts: whatever is wrong with the file as a whole is said
there, in one line, before anything runs.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import orjson

from connectors import evermembench, jsonl, locomo, realtalk
from connectors.files import BOM, FormatError, StrPath, file_name, open_file
from operators.messages import Received

__all__ = ["FORMATS", "FormatError", "Reader", "check_file", "detect_format", "read_file"]

Reader: TypeAlias = Callable[[StrPath], Iterator[Received]]
FORMATS: Mapping[str, Reader] = MappingProxyType(
    {
        "messages": jsonl.read,
        "locomo": locomo.read,
        "realtalk": realtalk.read,
        "evermembench": evermembench.read,
    }
)

_HEAD_BYTES = 64 * 1024
# In JSON a quote inside a text is escaped, so these match keys only, never what someone wrote.
_SIGNS = (
    ("locomo", (rb'"conversation"\s*:\s*\{|"session_[0-9]+_date_time"\s*:',)),
    ("locomo", (rb'^\s*(\[\s*)?\{\s*"qa"\s*:\s*\[', rb'"evidence"\s*:')),  # questions fill the head
    ("realtalk", (rb'"session_[0-9]+"\s*:\s*\[', rb'"clean_text"\s*:')),
    ("evermembench", (rb'"dialogues"\s*:\s*\{', rb'"date"\s*:')),
)
_CUT_MESSAGE = (rb"^\s*\{", rb'"channel"\s*:', rb'"(ts|id|text)"\s*:')


def check_file(path: StrPath, format: str = "auto") -> str:
    """The format to read a file in, told from its head where `format` is `auto`.

    A pipe cannot be looked at first and read later, so its format has to be named.

    Raises:
        FormatError: the file is missing, a directory or not readable, or its format is unknown.
    """
    if format != "auto" and format not in FORMATS:
        raise FormatError(f"format {format!r} is unknown: use auto, {', '.join(FORMATS)}")
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError as err:
        raise FormatError(f"{file_name(path)}: no such file") from err
    except (OSError, ValueError):
        mode = stat.S_IFREG  # opening it says why
    if stat.S_ISDIR(mode):
        raise FormatError(f"{file_name(path)}: is a directory: name a file in it")
    if not stat.S_ISREG(mode):
        if format == "auto":
            raise FormatError(f"{file_name(path)}: is not a regular file: name its format, --format messages")
        return format
    if format == "auto":
        return detect_format(path)
    open_file(path).close()
    return format


def read_file(path: StrPath, format: str = "auto") -> Iterator[Received]:
    """Yield what a file holds; `check_file` runs at the call, reading begins with the first item.

    Raises:
        FormatError: as `check_file`; while reading, where the file as a whole is not of the format.
    """
    return FORMATS[check_file(path, format)](path)


def detect_format(path: StrPath) -> str:
    """Tell the format from the first 64 KiB; an empty file is `messages` with nothing in it.

    One whole line with a message on it makes a file `messages`, whatever stands on other lines.

    Raises:
        FormatError: the file cannot be read, or it is in none of the formats.
    """
    with open_file(path) as file:
        try:
            head = file.read(_HEAD_BYTES)
        except OSError as err:
            raise FormatError(f"{file_name(path)}: cannot be read: {err.strerror}") from err
    whole = len(head) < _HEAD_BYTES
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FormatError(f"{file_name(path)}: is UTF-16 text: save it as UTF-8")
    head = head.removeprefix(BOM)
    if not head.strip():
        return "messages"
    lines = head.split(b"\n")
    if any(_is_message(line) for line in (lines if whole else lines[:-1])):
        return "messages"
    if not whole and len(lines) == 1 and _all_match(_CUT_MESSAGE, head):
        return "messages"
    for name, signs in _SIGNS:
        if head.lstrip().startswith((b"[", b"{")) and _all_match(signs, head):
            return name
    raise FormatError(
        f"{file_name(path)}: format not recognised: expected one JSON message a line "
        '({"channel", "id", "ts", "author", "text"}) or a LoCoMo, REALTALK or EverMemBench JSON file; '
        f"a format can be named: {', '.join(FORMATS)}"
    )


def _is_message(line: bytes) -> bool:
    if b'"channel"' not in line:
        return False
    try:
        message = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(message, dict) and "channel" in message and "ts" in message


def _all_match(patterns: tuple[bytes, ...], head: bytes) -> bool:
    return all(re.search(pattern, head) for pattern in patterns)
