"""How the times of messages are written: as short as a reader can understand them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo

__all__ = ["time_format"]


def time_format(moments: Iterable[datetime], zone: tzinfo, *, year: int | None = None) -> str:
    """The `strftime` format of times that stand together, such as those of a digest's lines.

    Within one day it is the time alone, within one year month and day are added, and where several
    years are involved the year as well.

    Args:
        moments: the times, or the first and the last of them.
        zone: whose days and years count.
        year: the current year, for what is drawn for a person now: dates of other years show theirs. None
            for what is stored, so that a replay writes the same text on any day.

    >>> from datetime import UTC
    >>> march, april = datetime(2025, 3, 9, 14, 20, tzinfo=UTC), datetime(2025, 4, 1, tzinfo=UTC)
    >>> time_format([march], UTC), time_format([march, april], UTC)
    ('%H:%M', '%m-%d %H:%M')
    >>> time_format([march, april], UTC, year=2026)
    '%Y-%m-%d %H:%M'
    """
    days = {moment.astimezone(zone).date() for moment in moments}
    years = {day.year for day in days} | (set() if year is None else {year})
    if len(days) <= 1:
        return "%H:%M"
    return "%m-%d %H:%M" if len(years) == 1 else "%Y-%m-%d %H:%M"
