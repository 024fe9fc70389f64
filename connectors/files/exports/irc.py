"""Format `irc`: logs of irssi, WeeChat and ZNC.

    --- Log opened Mon Mar 02 09:00:00 2026             irssi
    09:00 <@ana> hi
    09:01  * ben waves
    09:02 -!- ben is now known as ben_away
    --- Day changed Tue Mar 03 2026

    2026-03-02 09:00:00	@ana	hi                      WeeChat

    [09:00:00] <ana> hi                                 ZNC, in #harbor/2026-03-02.log
    [09:02:00] *** ben is now known as ben_away

The day comes from the line, the last day marker, or the file's name. Times are local, so you must set a
time zone. The channel is the part after `#` in the file's or folder's name. A person who changes nick
stays the same author, under the new name. Logs have no message ids, so ids are derived from content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from backscroll.connectors.files.base.content_ids import ContentIds
from backscroll.connectors.files.base.format import (
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
    file_name,
    open_file,
    stem,
)
from backscroll.connectors.files.base.jsonl import read_lines
from backscroll.operators.messages import MessageError, Received, format_time

__all__ = ["FORMAT"]

_LINE = re.compile(r"(?:(\d{4}-\d\d-\d\d)[ T])?\[?(\d{1,2}:\d\d(?::\d\d)?)\]?(?P<gap>\t|\s)(?P<rest>.*)")
_MARKER = re.compile(
    r"--- (?:Log (?:opened|closed)|Day changed) \S+ (\S+) (\d{1,2}) (?:\d\d:\d\d:\d\d )?(\d{4})"
)
_SAID = re.compile(r"<[ @+%&~!]?(?P<nick>[^>\s]+)> ?(?P<text>.*)")
_DID = re.compile(r" ?\* [@+%&~!]?(?P<nick>\S+) (?P<text>.*)")
_NICK = re.compile(r"(?:-!-|\*\*\*|--\t)?\s*(\S+) is now known as (\S+)")
_NOTICE = re.compile(r"-!-|\*\*\*|-[^\s>-][^\s]*- |!|>>>|\.\.\.")
_COLOURS = re.compile(r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|\x04[0-9a-fA-F]{6}|[\x02\x0f\x11\x16\x1d-\x1f]")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAY = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)")
_HOURS_BACK = 6  # a clock further back than this means that midnight passed without a marker


@dataclass(slots=True)
class _Log:
    """The state while reading a log: its current time, and who uses which nick."""

    day: date | None
    tz: tzinfo
    channel: str
    clock: time = time.min
    people: dict[str, str] = field(default_factory=dict)  # current nick: the person's first nick
    made: ContentIds = field(default_factory=ContentIds)


def _read(path: StrPath, tz: tzinfo | None) -> Iterator[ReadItem]:
    """Yield one item per line, in file order; `origin` names the file and the line.

    Raises:
        FormatError: the file cannot be read or has no log line, or `tz` is missing.
    """
    if tz is None:
        raise FormatError(f"{file_name(path)}: {NEEDS_TIME_ZONE}")
    log, known = _Log(_day_of_file(path), tz, _channel(path)), False
    with open_file(path) as file:
        for line in read_lines(file, file_name(path)):
            text = _COLOURS.sub("", _decoded(line.raw))
            known = known or bool(_LINE.fullmatch(text) or _MARKER.match(text))
            yield attempted(path, f"line {line.origin[1][1]}", line.raw, partial(_message, text, line, log))
    if not known:
        raise FormatError(
            f"{file_name(path)}: not an irssi, WeeChat or ZNC log: expected lines like '09:00 <ana> hi'"
        )


def _recognises(head: Head) -> bool:
    lines = head.start.decode("utf-8", "replace").splitlines()[:40]
    found = [match for line in lines if (match := _LINE.fullmatch(line))]
    marked = any(map(_MARKER.match, lines))
    return marked or any(
        match["gap"] == "\t" or _SAID.fullmatch(match["rest"]) or match["rest"].startswith("*** ")
        for match in found
    )


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")  # common on IRC before UTF-8


def _message(text: str, line: Received, log: _Log) -> dict[str, Any] | Skipped:
    if isinstance(line.value, MessageError) and "UTF-8" not in str(line.value):
        raise line.value
    if marker := _MARKER.match(text):
        log.day, log.clock = _marked_day(marker), time.min
        return NOTICE
    matched = _LINE.fullmatch(text)
    if matched is None:
        raise MessageError("not an IRC log line: expected a time first, as in '09:00 <ana> hi'")
    rest = matched["rest"]
    said, action = _said(rest, matched["gap"] == "\t")
    ts = _time(matched, log)
    if said is None:
        if renamed := _NICK.search(rest):
            log.people[renamed[2]] = log.people.pop(renamed[1], renamed[1])
            return NOTICE
        if matched["gap"] == "\t" or _NOTICE.match(rest):
            return NOTICE
        raise MessageError("not an IRC log line: expected a nick after the time, as in '09:00 <ana> hi'")
    nick, words = said
    if not words:
        return EMPTY
    person = log.people.setdefault(nick, nick)
    return {
        "channel": log.channel,
        "id": log.made.make(ts, nick, words),
        "ts": ts,
        "author": {"id": person, "name": nick},
        "text": f"*{words}*" if action else words,
    }


def _said(rest: str, columns: bool) -> tuple[tuple[str, str] | None, bool]:
    """The nick and the words, or None for a server notice; and whether it is an action (`/me`)."""
    if columns:
        nick, _, words = rest.partition("\t")
        nick = nick.strip()
        if nick == "*":
            name, _, deed = words.partition(" ")
            return (name.lstrip("@+%&~!"), deed.strip()), True
        is_person = nick not in ("", "-->", "<--", "--", "=!=") and "\t" in rest
        return ((nick.lstrip("@+%&~!"), words.strip()) if is_person else None), False
    for pattern in (_SAID, _DID):
        if match := pattern.fullmatch(rest):
            return (match["nick"], match["text"].strip()), pattern is _DID
    return None, False


def _time(matched: re.Match[str], log: _Log) -> str:
    """The time of a line; a clock that jumps far back means that midnight has passed."""
    try:
        clock = time.fromisoformat(matched[2].zfill(5) if len(matched[2]) < 8 else matched[2])
        if matched[1]:
            log.day = date.fromisoformat(matched[1])
        elif log.day is None:
            raise MessageError(
                "the day is unknown: there is no day marker before the line and no date in the file's name"
            )
        elif log.clock.hour - clock.hour > _HOURS_BACK:
            log.day += timedelta(days=1)
        log.clock = clock
        return format_time(datetime.combine(log.day, clock, tzinfo=log.tz))
    except (ValueError, OverflowError) as err:
        if isinstance(err, MessageError):
            raise
        raise MessageError(f"{matched[2]} is not a valid time") from None


def _marked_day(marker: re.Match[str]) -> date:
    month = marker[1].lower()[:3]
    try:
        return date(int(marker[3]), _MONTHS.index(month) + 1, int(marker[2]))
    except ValueError:
        raise MessageError(f"{marker[0][:60]!r} has no valid date: expected 'Mon Mar 02 2026'") from None


def _day_of_file(path: StrPath) -> date | None:
    for found in _DAY.finditer(stem(path)):
        try:
            return date(int(found[1]), int(found[2]), int(found[3]))
        except ValueError:
            continue
    return None


def _channel(path: StrPath) -> str:
    """The part after `#` in the name of the file, or of its folder, without the date."""
    name, folder = stem(path), Path(path).absolute().parent.name
    bare = _DAY.sub("", name).strip("_-. ")
    for candidate in (bare, folder):
        if "#" in candidate:
            return candidate[candidate.index("#") :].removesuffix(".log").strip("_-. ")[1:] or name
    return bare or folder


FORMAT = Format(_read, _recognises, local_times=lambda _: True)
