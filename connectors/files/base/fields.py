"""Read fields of untrusted JSON; a value of the wrong type counts as missing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

from backscroll.operators.messages import MessageError, format_time

__all__ = ["identifier", "iso_time", "list_in", "object_in", "objects_in", "text_in", "utc_time"]


def text_in(entry: Mapping[str, Any], *names: str) -> str:
    """The first of the fields that is a non-blank string, or `""`."""
    for name in names:
        value = entry.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def object_in(entry: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The field if it is an object, else an empty one."""
    value = entry.get(name)
    return value if isinstance(value, dict) else {}


def list_in(entry: Mapping[str, Any], name: str) -> list[Any]:
    """The field if it is a list, else an empty one."""
    value = entry.get(name)
    return value if isinstance(value, list) else []


def objects_in(entry: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects in a list field."""
    return [item for item in list_in(entry, name) if isinstance(item, dict)]


def identifier(entry: Mapping[str, Any], name: str) -> str:
    """The field as an id, if it is an integer or a string; else `""`."""
    value = entry.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else ""


def utc_time(value: object, name: str, *, per_second: int = 1) -> str:
    """Convert a Unix time to the message schema's time format.

    Args:
        value: the time, as a number or as text.
        name: the field's name, for error messages.
        per_second: units per second: 1 for seconds, 1,000 for milliseconds.

    Raises:
        MessageError: the value is not a number, or is out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise MessageError(f"{name} is missing" if value is None else f"{name} must be a Unix time")
    try:
        whole, _, fraction = str(value).partition(".")
        # Not as one float, which would lose microseconds.
        micros = int(whole) * 1_000_000 // per_second
        micros += int((fraction + "000000")[:6]) // per_second if fraction else 0
        return format_time(
            datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)
        )
    except (ValueError, OverflowError, OSError):
        raise MessageError(
            f"{name} is {str(value)[:40]!r}: expected a Unix time, such as 1772442000"
        ) from None


def iso_time(value: object, name: str, tz: tzinfo | None = None) -> str:
    """Convert an ISO 8601 time to the message schema's time format.

    Args:
        value: the time.
        name: the field's name, for error messages.
        tz: the time zone to assume if the value has none.

    Raises:
        MessageError: the value is not an ISO 8601 time, or it has no time zone and `tz` is None.
    """
    if not isinstance(value, str):
        raise MessageError(f"{name} is missing" if value is None else f"{name} must be an ISO 8601 time")
    try:
        ts = datetime.fromisoformat(value)
        if ts.tzinfo is None and tz is None:
            raise MessageError(f"{name} {value[:40]!r} has no time zone: set one, such as --tz Europe/Berlin")
        return format_time(ts.replace(tzinfo=ts.tzinfo or tz))
    except (ValueError, OverflowError) as err:
        if isinstance(err, MessageError):
            raise
        raise MessageError(f"{name} is {value[:40]!r}: expected an ISO 8601 time") from None
