"""Format `whatsapp`: WhatsApp's "Export chat", as the text file or as the zip that holds it.

    [02/03/2026, 10:00:05] Ana: hi                      iOS
    02/03/26, 10:00 - Ana: hi                           Android
    and the message goes on

Dates follow the phone's region. The reader picks the order of day, month and year in which all dates of
the file exist, move forward and lie closest together. Times are local to the phone, so you must set a
time zone. Messages have no ids; ids are derived from time, author and text, so a later export gives the
same ids. WhatsApp's own notices have a mark on iOS and no author on Android; the two notices that have
neither are recognised in several languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from backscroll.connectors.files.base.archives import is_zip, open_archive, open_member
from backscroll.connectors.files.base.content_ids import ContentIds
from backscroll.connectors.files.base.format import (
    DELETED,
    EMPTY,
    NEEDS_TIME_ZONE,
    NOTICE,
    Format,
    FormatError,
    Head,
    ReadItem,
    Skipped,
    StrPath,
    attempted,
    entry_received,
    file_name,
    open_file,
    stem,
)
from backscroll.connectors.files.base.jsonl import read_lines
from backscroll.connectors.files.exports.whatsapp_dates import DateOrder, Numbers, date_order, dated
from backscroll.connectors.files.exports.whatsapp_notices import (
    AFTERNOON,
    DELETED_WORDS,
    EDITED_WORDS,
    MORNING,
    TITLE,
)
from backscroll.operators.messages import MessageError, Received, format_time

__all__ = ["FORMAT"]

_MARK = "\u200e"
_DIRECTIONS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
_MARKS = re.compile(f"[{_DIRECTIONS}]")
_DATE = r"(\d{1,4})\s?[./\-年년]\s?(\d{1,2})\s?[./\-月월]\s?(\d{1,4})\s?[.日일]?"
_HALF = r"[^\d\s\]\-–,:][^\d\]\-–,:]{0,12}?"  # AM or PM, also as p. m.
_TIME = (
    r"(?P<before>\D{0,12}?)\s?(?P<hour>\d{1,2})[:.](?P<minute>\d{2})"
    rf"(?:[:.](?P<second>\d{{2}}))?\s?(?P<after>{_HALF})?"
)
_HEADERS = (
    re.compile(rf"\[{_DATE}[,،]?\s{_TIME}\]\s(?P<rest>.*)", re.DOTALL),
    re.compile(rf"{_DATE}[,،]?\s{_TIME}\s[-–]\s(?P<rest>.*)", re.DOTALL),
    re.compile(rf"{_DATE}\s{_TIME},\s(?P<rest>.*)", re.DOTALL),  # Korean
)
_AUTHOR = re.compile(r"(?P<author>[^:\n\"“”„«»]{1,80}?)\s?: ?(?P<text>.*)", re.DOTALL)
_MARKED_EDITED = re.compile(rf"\s*<(?:{'|'.join(EDITED_WORDS)})[.。]?>$", re.IGNORECASE)
_OMITTED = re.compile(r"<[^<>\n]{3,60}>|null")
_ATTACHED = (
    re.compile(r"<[^<>\n:]{2,40}: ?([^<>\n]+)>"),
    re.compile(r"(\S[^\n]*\.\w{2,5}) \([^()\n]{3,40}\)(?=\n|$)"),
)
_MOST_LINES = 5000  # per message


@dataclass(slots=True)
class _Begun:
    """A message with the lines read so far; `line` is the number of the first, `last` of the last."""

    header: re.Match[str]
    line: int
    last: int
    raw: list[bytes]
    lines: list[str]


@dataclass(frozen=True, slots=True)
class _Chat:
    """What all messages of a file have in common."""

    channel: str
    order: DateOrder
    tz: tzinfo
    made: ContentIds


def _read(path: StrPath, tz: tzinfo | None) -> Iterator[ReadItem]:
    """Yield one item per message, in file order; `origin` names the file and the message's first line.

    Raises:
        FormatError: the file cannot be read or has no messages, or `tz` is missing.
    """
    if tz is None:
        raise FormatError(f"{file_name(path)}: {NEEDS_TIME_ZONE}")
    first = next((match for line in _lines(path) if (match := _header(_text(line)))), None)
    if first is None:
        raise FormatError(
            f"{file_name(path)}: not a WhatsApp chat: expected lines like '02/03/2026, 10:00 - Ana: hi'"
        )
    dates = (_numbers(match) for line in _lines(path) if (match := _header(_text(line), first.re)))
    order = date_order((date for date, _ in groupby(dates)), twelve_hours=_half(first) != "")
    chat = _Chat(_channel(path), order, tz, ContentIds())
    for item in _messages(path, first.re):
        if isinstance(item, _Begun):
            yield attempted(path, f"line {item.line}", b"\n".join(item.raw), partial(_message, item, chat))
        else:
            yield item


def _recognises(head: Head) -> bool:
    if head.members:
        return any(map(_is_chat, head.members))
    lines = head.start.decode("utf-8", "replace").splitlines()[:40]
    found = [match for line in lines if (match := _header(line))]
    return any(_AUTHOR.fullmatch(match["rest"]) for match in found)


def _is_chat(name: str) -> bool:
    return name == "_chat.txt" or (name.endswith(".txt") and bool(TITLE.match(name)))


def _lines(path: StrPath) -> Iterator[Received]:
    """The lines of the text, or of the text in the zip; a damaged zip adds a last line with the error."""
    name = file_name(path)
    with open_file(path) as file:
        if not is_zip(file.read(4)):
            file.seek(0)
            yield from read_lines(file, name)
            return
    with open_archive(path, _is_chat) as archive:
        number = 0
        try:
            for member in archive.names[:1]:
                with open_member(archive, member) as text:
                    for line in read_lines(text, name):
                        number = int(line.origin[1][1])
                        yield line
        except MessageError as err:
            yield Received(err.with_traceback(None), (("file", name), ("line", number + 1)))


def _text(line: Received) -> str:
    return line.raw.decode("utf-8", "replace")


def _header(line: str, form: re.Pattern[str] | None = None) -> re.Match[str] | None:
    """Match the header that starts a message, ignoring text direction marks; `form` is the file's pattern."""
    ends = [end + len(sign) for sign in ("] ", "]\u202f", " - ", " – ") if 0 < (end := line.find(sign)) < 60]
    head = min(ends, default=len(line) - len(line.lstrip(_DIRECTIONS)))
    line = _MARKS.sub("", line[:head]) + line[head:]
    for header in _HEADERS if form is None else (form,):
        if match := header.fullmatch(line):
            return match
    return None


def _messages(path: StrPath, form: re.Pattern[str]) -> Iterator[_Begun | ReadItem]:
    """The messages with all their lines; a line that belongs to no message is an error."""
    begun: _Begun | None = None
    for line in _lines(path):
        text, number = _text(line), int(line.origin[1][1])
        damage = line.value if isinstance(line.value, MessageError) else None
        header = None if damage else _header(text, form)
        if begun is not None and (damage or header):
            yield begun
            begun = None
        if header:
            begun = _Begun(header, number, number, [line.raw], [header["rest"]])
        elif begun is not None and len(begun.lines) < _MOST_LINES:
            blank = [""] if number > begun.last + 1 else []  # the line reader skips blank lines
            begun.lines += [*blank, text]
            begun.raw.append(line.raw)
            begun.last = number
        else:
            damage = damage or MessageError("the line belongs to no message")
            yield entry_received(path, f"line {number}", line.raw, damage)
    if begun is not None:
        yield begun


def _message(begun: _Begun, chat: _Chat) -> dict[str, Any] | Skipped:
    said = _AUTHOR.fullmatch("\n".join(begun.lines))
    if said is None:
        return NOTICE
    text, mark = said["text"].strip(), said["text"].lstrip(" ").startswith(_MARK)
    if mark and (skipped := _by_whatsapp(_MARKS.sub("", text))):
        return skipped
    text = _MARKED_EDITED.sub("", _MARKS.sub("", text)).strip()
    if text.lower().rstrip(".。") in DELETED_WORDS:
        return DELETED
    if _OMITTED.fullmatch(text) and not _ATTACHED[0].fullmatch(text):
        return EMPTY
    for attached in _ATTACHED:
        text = attached.sub(r"[file: \1]", text, count=1)
    if not text:
        return EMPTY
    ts = _time(begun.header, chat)
    author = " ".join(_MARKS.sub("", said["author"]).removeprefix("~").split())
    return {
        "channel": chat.channel,
        "id": chat.made.make(ts, author, text),
        "ts": ts,
        "author": author,
        "text": text,
    }


def _by_whatsapp(text: str) -> Skipped | None:
    """Why a text that WhatsApp marked is skipped: a notice, or omitted media; None for a file."""
    if any(attached.match(text) for attached in _ATTACHED):
        return None
    if text.lower().rstrip(".。") in DELETED_WORDS:
        return DELETED
    return EMPTY if len(text.split()) <= 3 else NOTICE


def _numbers(header: re.Match[str]) -> Numbers:
    return int(header[1]), int(header[2]), int(header[3])


def _half(header: re.Match[str]) -> Literal["", "am", "pm"]:
    name = f"{header['before']} {header['after'] or ''}"
    return "pm" if AFTERNOON.search(name) else "am" if MORNING.search(name) else ""


def _time(header: re.Match[str], chat: _Chat) -> str:
    hour, half = int(header["hour"]), _half(header)
    if half and hour <= 12:
        hour = hour % 12 + (12 if half == "pm" else 0)
    try:
        day = dated(_numbers(header), chat.order)
        ts = day.replace(
            hour=hour, minute=int(header["minute"]), second=int(header["second"] or 0), tzinfo=chat.tz
        )
        return format_time(ts)
    except (ValueError, OverflowError):
        written = "{}.{}.{} {}:{}".format(*header.group(1, 2, 3), header["hour"], header["minute"])
        raise MessageError(f"{written} is not a valid time in a file with {chat.order} dates") from None


def _channel(path: StrPath) -> str:
    """The chat's name, taken from the file's name without its "WhatsApp Chat with", in any language."""
    name = stem(path)
    if name == "_chat":
        name = Path(path).absolute().parent.name
    return TITLE.sub("", name).strip(" -") or name


FORMAT = Format(_read, _recognises, local_times=lambda _: True, again=True)
