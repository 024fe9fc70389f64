"""Fields of JSON that nobody vouches for: what is not of the expected kind counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

from backscroll.operators.messages import MessageError, format_time

__all__ = ["identifier", "iso_time", "list_in", "object_in", "objects_in", "text_in", "utc_time"]


def text_in(entry: Mapping[str, Any], *names: str) -> str:
    """The first of the fields that is a string with more than white space in it; `""` if none is."""
    for name in names:
        value = entry.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def object_in(entry: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The field, if it is an object; an empty one if not."""
    value = entry.get(name)
    return value if isinstance(value, dict) else {}


def list_in(entry: Mapping[str, Any], name: str) -> list[Any]:
    """The field, if it is a list; an empty one if not."""
    value = entry.get(name)
    return value if isinstance(value, list) else []


def objects_in(entry: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects in a list field."""
    return [item for item in list_in(entry, name) if isinstance(item, dict)]


def identifier(entry: Mapping[str, Any], name: str) -> str:
    """A whole number or a text as an id; `""` if the field is neither."""
    value = entry.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else ""


def utc_time(value: object, name: str, *, per_second: int = 1) -> str:
    """A number of seconds since 1970, or of their fractions, as the message schema writes times.

    Args:
        value: a number, or a text with one in it.
        name: what to call it where it is wrong.
        per_second: 1,000 for milliseconds.

    Raises:
        MessageError: it is no such number, or no possible time.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise MessageError(f"{name} is missing" if value is None else f"{name} must be a time in seconds")
    try:
        whole, _, fraction = str(value).partition(".")
        # Not as one float: a message's microseconds would not survive it.
        micros = int(whole) * 1_000_000 // per_second
        micros += int((fraction + "000000")[:6]) // per_second if fraction else 0
        return format_time(
            datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)
        )
    except (ValueError, OverflowError, OSError):
        raise MessageError(
            f"{name} is {str(value)[:40]!r}: it should be a time in seconds since 1970"
        ) from None


def iso_time(value: object, name: str, tz: tzinfo | None = None) -> str:
    """An ISO 8601 time, as the message schema writes times; in `tz` where it names no time zone.

    Raises:
        MessageError: it is no such time, or names no zone and `tz` is None.
    """
    if not isinstance(value, str):
        raise MessageError(f"{name} is missing" if value is None else f"{name} must be an ISO 8601 time")
    try:
        ts = datetime.fromisoformat(value)
        if ts.tzinfo is None and tz is None:
            raise MessageError(
                f"{name} {value[:40]!r} names no time zone: say which it is in, --tz Europe/Berlin"
            )
        return format_time(ts.replace(tzinfo=ts.tzinfo or tz))
    except (ValueError, OverflowError) as err:
        if isinstance(err, MessageError):
            raise
        raise MessageError(f"{name} is {value[:40]!r}: it should be an ISO 8601 time") from None
