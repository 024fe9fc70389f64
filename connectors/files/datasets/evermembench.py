"""Format `evermembench`: the group chats of EverMemBench-Dynamic.

The file is `<topic>/dialogue.json` of
https://huggingface.co/datasets/EverMind-AI/EverMemBench-Dynamic, a list of days:

    [{"topic_id": "01", "date": "2025-01-03", "dialogues": {"Group 2": null, "Group 1": [
      {"speaker": "Ana Li", "time": "2025-01-03 09:32:15", "dialogue": "Hi", "message_index": 1}]}}]

A group becomes the channel `<topic folder>-group-1`; for a file not called `dialogue.json`, the file's
stem replaces the folder's name. Ids are date, group and index, `2025-01-03:Group 1:1`, which is how the
questions cite evidence. Times have no time zone and are taken as UTC.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter, itemgetter
from pathlib import Path, PurePath
from typing import Any

from backscroll.connectors.files.base.format import (
    FormatError,
    StrPath,
    entry_object,
    entry_received,
    file_name,
    load_json,
    text_field,
)
from backscroll.operators.messages import MessageError, Received, format_time

__all__ = ["read"]

_EXPECTED = 'a list of {"topic_id", "date", "dialogues": {"Group 1": [...] or null, ...}} (EverMemBench)'


@dataclass(frozen=True, slots=True)
class _Entry:
    """A message and its place: `label` is its id as the dataset cites it; messages sort by `index`."""

    date: str
    index: int
    channel: str
    label: str
    entry: object


def read(path: StrPath) -> Iterator[Received]:
    """Yield one `Received` per message: each channel by date and index, channels merged by time.

    `value` is a message in the schema, or a `MessageError` for a damaged message, group or day
    (damaged groups and days come before all messages); `origin` names the file and the entry, such as
    `2025-01-03:Group 1:17`. If several days of a file have the same date, their ids start with the topic,
    `02:2025-01-03:Group 1:17`; an id that repeats within its channel gets `#2`, `#3`, ...

    Raises:
        FormatError: the file cannot be read or is not an EverMemBench dialogue file.
    """
    days = load_json(path, expected=_EXPECTED)
    days = days if isinstance(days, list) else []
    if not any(isinstance(day, dict) and isinstance(day.get("dialogues"), dict) for day in days):
        raise FormatError(f"{file_name(path)}: no EverMemBench days found: expected {_EXPECTED}")
    sound: list[tuple[object, str, dict[str, Any]]] = []
    for number, day in enumerate(days, start=1):
        try:
            sound.append(_day(day))
        except MessageError as err:
            yield entry_received(path, f"day {number}", day, err)
    dates = Counter(date for _, date, _ in sound)
    topic_folder = _topic_folder(path)
    channels: dict[str, list[_Entry]] = {}
    for topic, date, groups in sound:
        cited = f"{topic}:{date}" if dates[date] > 1 and isinstance(topic, str | int) else date
        for group, entries in groups.items():
            if isinstance(entries, list):
                channel = "-".join([topic_folder, *group.lower().split()])
                placed = _placed(entries, date, f"{cited}:{group}", channel)
                channels.setdefault(channel, []).extend(placed)
            elif entries is not None:
                damage = MessageError(f"a group must be a list of messages, not {type(entries).__name__}")
                yield entry_received(path, f"{cited}:{group}", entries, damage)
    clocked = [_clocked(path, entries) for entries in channels.values()]
    yield from (received for _, received in heapq.merge(*clocked, key=itemgetter(0)))


def _topic_folder(path: StrPath) -> str:
    """The topic's name: the folder of a `dialogue.json` (or of a link to it), else the file's stem."""
    stem = PurePath(file_name(path)).stem.lower()
    folder = file_name(Path(path).parent.resolve().name).lower()
    return folder if folder.strip() and stem == "dialogue" else stem


def _day(day: object) -> tuple[object, str, dict[str, Any]]:
    """Topic, date (as `2025-01-03`) and groups of one day of the list."""
    if not isinstance(day, dict):
        raise MessageError(f"a day must be an object, not {type(day).__name__}")
    text = text_field(day, "date")
    try:
        date = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date().isoformat()
    except ValueError:
        raise MessageError(f"date is {text[:40]!r}: expected a date like '2025-01-03'") from None
    groups = day.get("dialogues")
    if not isinstance(groups, dict):
        raise MessageError(f"dialogues must be an object of groups, not {type(groups).__name__}")
    return day.get("topic_id"), date, groups


def _placed(entries: list[object], date: str, place: str, channel: str) -> Iterator[_Entry]:
    """Give each message its index; one without a usable index stays behind the one before it."""
    last = -1
    for position, entry in enumerate(entries, start=1):
        try:
            last = _index(entry_object(entry))
            label = f"{place}:{last}"
        except MessageError:
            label = f"{place} message {position}"
        yield _Entry(date, last, channel, label, entry)


def _clocked(path: StrPath, entries: list[_Entry]) -> Iterator[tuple[datetime, Received]]:
    """One channel in order, each message with the latest time so far, for merging channels."""
    seen: Counter[str] = Counter()
    clock = datetime.min.replace(tzinfo=UTC)
    for placed in sorted(entries, key=attrgetter("date", "index")):
        seen[placed.label] += 1
        label = placed.label if seen[placed.label] == 1 else f"{placed.label}#{seen[placed.label]}"
        value: dict[str, Any] | MessageError
        try:
            ts, value = _message(placed, label)
            clock = max(clock, ts)
        except MessageError as err:
            value = err
        yield clock, entry_received(path, label, placed.entry, value)


def _message(placed: _Entry, label: str) -> tuple[datetime, dict[str, Any]]:
    entry = entry_object(placed.entry)
    _index(entry)
    ts = _time(text_field(entry, "time").strip(), placed.date)
    return ts, {
        "channel": placed.channel,
        "id": label,
        "ts": format_time(ts),
        "author": text_field(entry, "speaker"),
        "text": text_field(entry, "dialogue", empty=True),
    }


def _index(entry: dict[str, Any]) -> int:
    index = entry.get("message_index")
    if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < 10:
        return int(index)
    if not isinstance(index, int) or isinstance(index, bool):
        raise MessageError(f"message_index must be a whole number, not {type(index).__name__}")
    return index


def _time(time: str, date: str) -> datetime:
    """Read `2025-01-09 09:32:15`, any other ISO 8601 time, or a time of day alone."""
    for text in (time, f"{date} {time}"):
        try:
            ts = datetime.fromisoformat(text)
            return ts.replace(tzinfo=UTC) if ts.tzinfo is None else ts.astimezone(UTC)
        except (ValueError, OverflowError):
            continue
    raise MessageError(f"time is {time[:40]!r}: expected a time like '2025-01-09 09:32:15'")
