"""The file formats by name, and how to detect a file's format.

    messages      JSON Lines, one message per line (`jsonl`)
    slack         a Slack export, zip or folder (`slack_export`)
    discord       a channel from DiscordChatExporter, JSON (`discord_export`)
    mattermost    a Mattermost bulk export (`mattermost_export`)
    zulip         a Zulip export, tar.gz or folder (`zulip_export`)
    matrix        Matrix events, JSON (`matrix_export`)
    telegram      Telegram Desktop's result.json (`telegram_export`)
    whatsapp      WhatsApp's "Export chat", text or zip (`whatsapp_export`)
    teams         Microsoft Teams messages from the Graph API (`teams_export`)
    mbox          mail (`mbox`)
    irc           logs of irssi, WeeChat and ZNC (`irc_logs`)
    locomo        LoCoMo conversations (`locomo`)
    realtalk      a REALTALK chat (`realtalk`)
    evermembench  an EverMemBench-Dynamic dialogue file (`evermembench`)

Call `check_file` when a command starts: it reports what is wrong with the file as a whole, in one line,
before anything runs.
"""

from __future__ import annotations

import re
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import tzinfo
from pathlib import Path
from types import MappingProxyType

import orjson

from backscroll.connectors.files.base import jsonl
from backscroll.connectors.files.base.archives import is_tar, is_zip, member_names
from backscroll.connectors.files.base.format import (
    BOM,
    NEEDS_TIME_ZONE,
    Format,
    FormatError,
    Head,
    Skipped,
    StrPath,
    file_name,
    open_file,
)
from backscroll.connectors.files.datasets import evermembench, locomo, realtalk
from backscroll.connectors.files.exports import discord as discord_export
from backscroll.connectors.files.exports import irc as irc_logs
from backscroll.connectors.files.exports import matrix as matrix_export
from backscroll.connectors.files.exports import mattermost as mattermost_export
from backscroll.connectors.files.exports import mbox
from backscroll.connectors.files.exports import slack as slack_export
from backscroll.connectors.files.exports import teams as teams_export
from backscroll.connectors.files.exports import telegram as telegram_export
from backscroll.connectors.files.exports import whatsapp as whatsapp_export
from backscroll.connectors.files.exports import zulip as zulip_export
from backscroll.operators.messages import Received

__all__ = ["FORMATS", "SKIPPED", "FormatError", "check_file", "detect_format", "read_file"]

SKIPPED = "skipped: "  # prefix of the reason in the counters
_HEAD_BYTES = 64 * 1024
# JSON escapes quotes inside a text, so these match only keys, never what someone wrote.
_SIGNS = (
    ("locomo", (rb'"conversation"\s*:\s*\{|"session_[0-9]+_date_time"\s*:',)),
    ("locomo", (rb'^\s*(\[\s*)?\{\s*"qa"\s*:\s*\[', rb'"evidence"\s*:')),  # questions fill the head
    ("realtalk", (rb'"session_[0-9]+"\s*:\s*\[', rb'"clean_text"\s*:')),
    ("evermembench", (rb'"dialogues"\s*:\s*\{', rb'"date"\s*:')),
)
_CUT_MESSAGE = (rb"^\s*\{", rb'"channel"\s*:', rb'"(ts|id|text)"\s*:')


def _has_message(head: Head) -> bool:
    if head.members:
        return False
    if not head.start.strip():
        return True
    lines = head.start.split(b"\n")
    if any(_is_message(line) for line in (lines if head.whole else lines[:-1])):
        return True
    return not head.whole and len(lines) == 1 and _all_match(_CUT_MESSAGE, head.start)


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


def _dataset(name: str, read: Callable[[StrPath], Iterator[Received]]) -> Format:
    """A JSON data set, recognised by any of its signs."""
    signs = [patterns for known, patterns in _SIGNS if known == name]

    return Format(lambda path, _: read(path), lambda head: any(map(head.is_json_with, signs)))


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "messages": Format(lambda path, _: jsonl.read(path), _has_message),
        "slack": slack_export.FORMAT,
        "discord": discord_export.FORMAT,
        "mattermost": mattermost_export.FORMAT,
        "zulip": zulip_export.FORMAT,
        "matrix": matrix_export.FORMAT,
        "telegram": telegram_export.FORMAT,
        "whatsapp": whatsapp_export.FORMAT,
        "teams": teams_export.FORMAT,
        "mbox": mbox.FORMAT,
        "irc": irc_logs.FORMAT,
        "locomo": _dataset("locomo", locomo.read),
        "realtalk": _dataset("realtalk", realtalk.read),
        "evermembench": _dataset("evermembench", evermembench.read),
    }
)


def check_file(path: StrPath, format: str = "auto", tz: tzinfo | None = None) -> str:
    """Check that a file can be read, and return its format; `auto` detects it from the file's head.

    A pipe can be read only once, so you must name its format, and the format must not need a second pass.
    `tz` is the time zone of times that have none.

    Raises:
        FormatError: the file is missing or not readable, is a folder but not an export, is in an unknown
            format, or needs a time zone.
    """
    if format != "auto" and format not in FORMATS:
        raise FormatError(f"format {format!r} is unknown: use auto, {', '.join(FORMATS)}")
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError as err:
        raise FormatError(f"{file_name(path)}: no such file") from err
    except (OSError, ValueError):
        mode = stat.S_IFREG  # opening it below raises the error
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return _check_pipe(path, format, tz)
    head = _head(path, is_folder=stat.S_ISDIR(mode))
    names = FORMATS if format == "auto" else (format,)
    is_export = bool(head.members) and any(FORMATS[name].recognises(head) for name in names)
    if stat.S_ISDIR(mode) and not is_export:
        raise FormatError(f"{file_name(path)}: is a directory, but not an export: name a file in it")
    format = _detected(head) if format == "auto" else format
    if tz is None and FORMATS[format].local_times(head):
        raise FormatError(f"{file_name(path)}: {NEEDS_TIME_ZONE}")
    return format


def read_file(
    path: StrPath, format: str = "auto", *, tz: tzinfo | None = None, counters: Counter[str] | None = None
) -> Iterator[Received]:
    """Yield the items of a file. `check_file` runs at once; reading starts with the first item.

    Args:
        path: a file, or the folder of an export.
        format: one of `FORMATS`, or `auto`.
        tz: the time zone of times that have none.
        counters: counts skipped entries; the key is `SKIPPED` and the reason.

    Raises:
        FormatError: as `check_file`; while reading, if the file as a whole is not in the format.
    """
    items = FORMATS[check_file(path, format, tz)].read(path, tz)
    return _without_skipped(items, Counter() if counters is None else counters)


def detect_format(path: StrPath) -> str:
    """Detect the format from the first 64 KiB; an empty file is `messages`.

    A file with at least one complete line that is a message is `messages`, whatever the other lines are.

    Raises:
        FormatError: the file cannot be read, or its format is not recognised.
    """
    return _detected(_head(path, is_folder=Path(path).is_dir()))


def _without_skipped(items: Iterator[Received | Skipped], counters: Counter[str]) -> Iterator[Received]:
    for item in items:
        if isinstance(item, Skipped):
            counters[SKIPPED + item.reason] += 1
        else:
            yield item


def _check_pipe(path: StrPath, format: str, tz: tzinfo | None) -> str:
    if format == "auto":
        raise FormatError(
            f"{file_name(path)}: is not a regular file: name its format, such as --format messages"
        )
    if FORMATS[format].again:
        raise FormatError(
            f"{file_name(path)}: is not a regular file, but {format} is read twice: save it to a file first"
        )
    if tz is None and FORMATS[format].local_times(Head(path)):
        raise FormatError(f"{file_name(path)}: {NEEDS_TIME_ZONE}")
    return format


def _head(path: StrPath, *, is_folder: bool) -> Head:
    if is_folder:
        return Head(path, members=member_names(path))
    with open_file(path) as file:
        try:
            start = file.read(_HEAD_BYTES)
        except OSError as err:
            raise FormatError(f"{file_name(path)}: cannot be read: {err.strerror}") from err
    members: tuple[str, ...] = ()
    if is_zip(start) or is_tar(start):
        with suppress(FormatError):  # the first bytes may be misleading
            members = member_names(path)
    return Head(path, start.removeprefix(BOM), len(start) < _HEAD_BYTES, members)


def _detected(head: Head) -> str:
    if head.start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FormatError(f"{file_name(head.path)}: is UTF-16 text: save it as UTF-8")
    for name, format in FORMATS.items():
        if format.recognises(head):
            return name
    raise FormatError(
        f"{file_name(head.path)}: format not recognised: expected one JSON message per line "
        '({"channel", "id", "ts", "author", "text"}) or an export listed in docs/readers.md; '
        f"you can also name the format: {', '.join(FORMATS)}"
    )
