"""What makes the source wait: windows in flight, and whether it keeps up with its stream."""

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
    """Windows that wait for something, over all processes of one machine.

    Args:
        slots: int64 `[processes]`, shared by the processes; every process writes its own slot.
        slot: the place of this process.
        gauge: a metric that follows this process's part.
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
        """Count windows that begin to wait, or, below zero, that are done."""
        with self._lock:
            self._slots[self._slot] += windows
            if self._gauge is not None:
                self._gauge.set(int(self._slots[self._slot]))


class Backlog:
    """What waits, by channel; it is part of the state, and one channel's state has to stay small.

    Args:
        pending: the sum, over all processes of one machine.
    """

    def __init__(self, pending: Pending | None = None) -> None:
        self._pending = pending or Pending()
        self._waiting: Counter[Hashable] = Counter()
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """What waits in all processes."""
        return self._pending.total

    def add(self, channel: Hashable, weight: int, *, most: int) -> None:
        """Count what begins to wait, or, below zero, what is done.

        Where a quarter of `most`, which may wait in all, is of one channel, that channel counts as all of it.
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
    """Whether the source keeps up with its stream, and since when: only then is silence a pause.

    A source that follows a live stream says `at_end` for each of its partitions, as it reads. Until
    `begin` was called, as for files, time on the wall clock means nothing. A channel may come from a
    partition that another process reads, so all processes of a machine have to keep up.

    Args:
        slots: int64 `[processes]`, shared by the processes: since when each is behind, in
            microseconds since 1970, or 0.
        slot: the place of this process.
    """

    _BEHIND = timedelta(seconds=1)  # what is read faster than that was no backlog

    def __init__(self, slots: NDArray[np.int64] | None = None, slot: int = 0) -> None:
        self.used = False
        self._slots = np.zeros(1, np.int64) if slots is None else slots
        self._slot = slot
        self._behind: dict[str, datetime] = {}
        self._since = datetime.now(UTC)

    def begin(self) -> None:
        """The source follows a live stream from now on."""
        self.used = True
        self._since = datetime.now(UTC)

    def at_end(self, part: str, reached: bool) -> None:
        """A partition was read to its end, or has more."""
        now = datetime.now(UTC)
        if not reached:
            self._behind.setdefault(part, now)
        elif now - self._behind.pop(part, now) > self._BEHIND:
            self._since = now
        self._slots[self._slot] = min(map(_microseconds, self._behind.values()), default=0)

    def interrupt(self) -> None:
        """Nothing is read for now."""
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
