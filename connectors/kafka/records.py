"""Convert Kafka records to received messages, with the event time that the partition has reached."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from backscroll.operators.messages import ChannelKey, MessageError, Received
from backscroll.operators.stream.event_clock import EventClock

__all__ = ["receive"]


def receive(record: Any, part: str, clock: EventClock, now: datetime) -> Received:
    """Wrap a kafka-python record. JSON objects are decoded; other bytes are validated later."""
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
        return MessageError("the record has no value: expected a JSON object")
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
    """Take the channel, and the namespace if there is one, from the record's key."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return
    named = ChannelKey.parse(text)
    fields["channel"] = named.channel
    if "/" in text and fields.get("namespace") is None:
        fields["namespace"] = named.namespace
