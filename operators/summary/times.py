"""The format of message times in texts: no longer than a reader needs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo

__all__ = ["time_format"]


def time_format(moments: Iterable[datetime], zone: tzinfo, *, year: int | None = None) -> str:
    """The `strftime` format for times that are shown together, such as those of a digest's lines.

    Times of one day show only the time. Times of several days add month and day, and times of several
    years add the year.

    Args:
        moments: the times, or just the first and last of them.
        zone: the time zone of days and years.
        year: the current year, for text that is drawn for a person now: dates in other years then show
            their year. None for text that is stored, so that a replay writes the same text on any day.

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
