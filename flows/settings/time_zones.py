"""Time zones as people name them."""

from __future__ import annotations

import re
from datetime import timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

__all__ = ["time_zone"]

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def time_zone(name: str) -> tzinfo:
    """The time zone of a name or an offset: `Europe/Berlin`, `UTC`, `+02:00`.

    Raises:
        ValueError: there is none of that name; the text says what would be right.
    """
    try:
        if offset := _OFFSET.fullmatch(name):
            ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
            return timezone(ahead if offset[1] == "+" else -ahead)
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # also names that would lead out of the data base
        raise ValueError(
            "no such time zone: use a name like Europe/Berlin, or an offset like +02:00"
        ) from None
