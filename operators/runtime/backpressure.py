"""Backpressure: counts windows in flight, and tracks whether the source keeps up with its stream."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray
from prometheus_client import Gauge

__all__ = ["Backlog", "Liveness", "Pending"]


class Pending:
    """Counts pending windows, in all processes on one machine.

    Args:
        slots: int64 `[processes]`, shared by the processes; each process writes its own slot.
        slot: the index of this process's slot.
        gauge: a metric that follows this process's count.
    """

    def __init__(
        self, slots: NDArray[np.int64] | None = None, slot: int = 0, gauge: Gauge | None = None
    ) -> None:
        self._gauge = gauge
        self._slots = np.zeros(1, np.int64) if slots is None else slots
        self._slot = slot
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """Windows pending in all processes."""
        return int(self._slots.sum())

    def add(self, windows: int) -> None:
        """Add windows that start to wait; a negative number removes those that are done."""
        with self._lock:
            self._slots[self._slot] += windows
            if self._gauge is not None:
                self._gauge.set(int(self._slots[self._slot]))


class Backlog:
    """Counts what waits, by channel. It keeps small what is waiting, which is part of each channel's state.

    Args:
        pending: the sum over all processes on one machine.
    """

    def __init__(self, pending: Pending | None = None) -> None:
        self._pending = pending or Pending()
        self._waiting: Counter[Hashable] = Counter()
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """How much waits in all processes."""
        return self._pending.total

    def add(self, channel: Hashable, weight: int, *, most: int) -> None:
        """Add what starts to wait; a negative weight removes what is done.

        `most` is the limit for all channels together. A channel that reaches a quarter of it counts as
        the whole limit.
        """
        few = max(most // 4, 1)
        with self._lock:
            before = self._waiting[channel]
            after = before + weight
            crowded = (after >= few) - (before >= few)
            self._pending.add(weight + crowded * most)
            self._waiting[channel] = after
            if not after:
                del self._waiting[channel]


class Liveness:
    """Whether the source keeps up with its stream, and since when.

    Only silence in a live stream is a pause in the chat; otherwise the source may just be behind. A
    source that follows a live stream calls `at_end` for each of its partitions as it reads. Until
    `begin` is called (never, for files) wall-clock time is ignored. A channel may come from a partition
    that another process reads, so all processes on a machine have to keep up.

    Args:
        slots: int64 `[processes]`, shared by the processes: since when each is behind, in
            microseconds since 1970, or 0.
        slot: the index of this process's slot.
    """

    _BEHIND = timedelta(seconds=1)  # catching up faster than this does not count as having been behind

    def __init__(self, slots: NDArray[np.int64] | None = None, slot: int = 0) -> None:
        self.used = False
        self._slots = np.zeros(1, np.int64) if slots is None else slots
        self._slot = slot
        self._behind: dict[str, datetime] = {}
        self._since = datetime.now(UTC)

    def begin(self) -> None:
        """Declare that the source follows a live stream from now on."""
        self.used = True
        self._since = datetime.now(UTC)

    def at_end(self, part: str, reached: bool) -> None:
        """Report whether a partition has been read to its end."""
        now = datetime.now(UTC)
        if not reached:
            self._behind.setdefault(part, now)
        elif now - self._behind.pop(part, now) > self._BEHIND:
            self._since = now
        self._slots[self._slot] = min(map(_microseconds, self._behind.values()), default=0)

    def interrupt(self) -> None:
        """Report that the source is not reading at the moment."""
        self._since = datetime.now(UTC) + self._BEHIND

    @property
    def since(self) -> datetime | None:
        """Since when the source has kept up; None while it does not."""
        now = datetime.now(UTC)
        late = _microseconds(now - self._BEHIND)
        if any(0 < behind < late for behind in self._slots.tolist()):
            self._since = max(self._since, now)
            return None
        return self._since if self.used and self._since <= now else None

    @property
    def is_live(self) -> bool:
        """Whether the source keeps up."""
        return self.since is not None


def _microseconds(time: datetime) -> int:
    return int(time.timestamp() * 1_000_000)
