"""The pace of a replay: when each message is due, from the times of the messages."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

__all__ = ["Pace"]


@dataclass(slots=True)
class Pace:
    """When each message is due, counted from the first one.

    `speed` is in seconds of chat a second.
    """

    speed: float
    began: tuple[float, datetime] | None = None

    def wait(self, ts: datetime) -> float:
        """Seconds until a message of this time is due; below zero if it is late."""
        if self.began is None:
            self.began = (time.monotonic(), ts)
        began, first = self.began
        return began + (ts - first).total_seconds() / self.speed - time.monotonic()
