"""How the pages write times: in one time zone, and with a year that a reader would not guess."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, tzinfo

from backscroll.operators.summary.times import time_format

__all__ = ["Times"]


@dataclass(frozen=True, slots=True)
class Times:
    """Times in `zone`, which is called `zone_name`, for somebody who reads them in `year`."""

    zone: tzinfo
    zone_name: str
    year: int

    def local(self, ts: datetime) -> datetime:
        """A time in the zone."""
        return ts.astimezone(self.zone)

    def on(self, ts: datetime) -> date:
        """The day of a time."""
        return self.local(ts).date()

    def day(self, ts: datetime) -> str:
        """A day in full: `Mon 9 Mar 2026`."""
        local = self.local(ts)
        return f"{local:%a} {local.day} {local:%b %Y}"

    def clock(self, ts: datetime) -> str:
        """The time of day: `14:20`."""
        return f"{self.local(ts):%H:%M}"

    def moment(self, ts: datetime) -> str:
        """A time in full, with its zone: `Mon 9 Mar 2026, 14:20 UTC`."""
        return f"{self.day(ts)}, {self.clock(ts)} {self.zone_name}"

    def short(self, ts: datetime, *others: datetime) -> str:
        """A time among others: `14:20` if all are on one day, else `9 Mar 14:20` or `9 Mar 2025 14:20`."""
        local = self.local(ts)
        match time_format((ts, *others), self.zone, year=self.year):
            case "%H:%M":
                return self.clock(ts)
            case "%m-%d %H:%M":
                return f"{local.day} {local:%b %H:%M}"
        return f"{local.day} {local:%b %Y %H:%M}"

    def until(self, start: datetime, end: datetime) -> str:
        """The end of a span whose start stands before it: `15:10`, `Tue 10 Mar, 09:00`."""
        if self.on(start) == self.on(end):
            return self.clock(end)
        local = self.local(end)
        year = f" {local.year}" if {self.local(start).year, local.year} != {self.year} else ""
        return f"{local:%a} {local.day} {local:%b}{year}, {self.clock(end)}"
