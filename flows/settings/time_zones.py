"""Parses time zones as people write them."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

__all__ = ["shown_zone", "time_zone"]

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def time_zone(name: str) -> tzinfo:
    """The time zone with a name or an offset, such as `Europe/Berlin`, `UTC` or `+02:00`.

    Raises:
        ValueError: there is no such time zone; the message says what to use.
    """
    try:
        if offset := _OFFSET.fullmatch(name):
            ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
            return timezone(ahead if offset[1] == "+" else -ahead)
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # including names that are paths outside the database
        raise ValueError(
            "no such time zone: use a name like Europe/Berlin, or an offset like +02:00"
        ) from None


def shown_zone(name: str | None) -> tuple[tzinfo, str]:
    """The time zone of times shown, and its name: that of the setting `tz`, or UTC."""
    return (UTC, "UTC") if name is None else (time_zone(name), name)
