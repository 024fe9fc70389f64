"""The event time of a partition."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["EventClock"]

_EARLIEST = datetime.min.replace(tzinfo=UTC)


class EventClock:
    """Tracks the latest event time of a partition; times in the future count as now.

    Args:
        greatest: the latest event time when reading stopped; None at the start.
        lateness: how far behind the latest time a message may be without being late.
    """

    def __init__(self, greatest: datetime | None, lateness: timedelta) -> None:
        self.greatest = greatest
        self._lateness = lateness

    def see(self, value: object, now: datetime) -> datetime | None:
        """The watermark after this message; None as long as no message had a time."""
        ts = _event_time(value)
        if ts is not None:
            ts = min(ts, now)
            if self.greatest is None or ts > self.greatest:
                self.greatest = ts
        if self.greatest is None:
            return None
        return _EARLIEST + max(self.greatest - _EARLIEST - self._lateness, timedelta())


def _event_time(value: object) -> datetime | None:
    """The `ts` of a message; None if it has no valid one."""
    ts = value.get("ts") if isinstance(value, dict) else None
    if not isinstance(ts, str):
        return None
    try:
        time = datetime.fromisoformat(ts)
        return None if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
