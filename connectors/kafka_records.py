"""A Kafka record as a message received, and the event time that a partition has reached."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from operators.messages import ChannelKey, MessageError, Received

__all__ = ["EventClock", "receive"]


_EARLIEST = datetime.min.replace(tzinfo=UTC)


class EventClock:
    """The greatest event time of a partition; times beyond the wall clock count as now.

    Args:
        greatest: as it was when reading stopped, None at the beginning.
        lateness: how far behind the greatest time a message may be without being late.
    """

    def __init__(self, greatest: datetime | None, lateness: timedelta) -> None:
        self.greatest = greatest
        self._lateness = lateness

    def see(self, value: object, now: datetime) -> datetime | None:
        """The watermark with this message seen; None while none had a time."""
        ts = _event_time(value)
        if ts is not None:
            ts = min(ts, now)
            if self.greatest is None or ts > self.greatest:
                self.greatest = ts
        if self.greatest is None:
            return None
        return _EARLIEST + max(self.greatest - _EARLIEST - self._lateness, timedelta())


def receive(record: Any, part: str, clock: EventClock, now: datetime) -> Received:
    """A record of kafka-python as received; JSON objects are decoded, other bytes are judged later."""
    value = _value(record.value, record.key)
    return Received(
        value=value,
        origin=(("topic", record.topic), ("partition", record.partition), ("offset", record.offset)),
        raw=record.value or b"",
        part=part,
        watermark=clock.see(value, now),
        key=record.key,
        headers=tuple((name, content or b"") for name, content in record.headers or ()),
    )


def _value(value: bytes | None, key: bytes | None) -> bytes | Mapping[str, Any] | MessageError:
    if value is None:
        return MessageError("the record has no value: a message is a JSON object")
    try:
        fields = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    if not isinstance(fields, dict):
        return value
    if key and fields.get("channel") is None:
        _name_channel(fields, key)
    return fields


def _name_channel(fields: dict[str, Any], key: bytes) -> None:
    """Take the channel, and the namespace where it names one, from the record's key."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return
    named = ChannelKey.parse(text)
    fields["channel"] = named.channel
    if "/" in text and fields.get("namespace") is None:
        fields["namespace"] = named.namespace


def _event_time(value: object) -> datetime | None:
    """The `ts` of a message; None for what has none that a message may have."""
    ts = value.get("ts") if isinstance(value, dict) else None
    if not isinstance(ts, str):
        return None
    try:
        time = datetime.fromisoformat(ts)
        return None if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
