"""Whether the engine is ready and its dataflow makes progress. Each answer is one line without chat text."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from backscroll.operators.runtime.progress import Progress

__all__ = ["Brokers", "Health", "Verdict"]


class Brokers(Protocol):
    """What health checks need to know about the brokers, independent of the dataflow."""

    @property
    def answering(self) -> float | None:
        """Since when the brokers have answered, in seconds of the monotonic clock; None if they do not."""
        ...

    @property
    def ends(self) -> Mapping[str, int]:
        """The end of each partition."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a check passed, and why."""

    good: bool
    why: str


class Health:
    """Decides from the progress of an engine's processes whether it is live and ready.

    Neither check involves the language model. While it is slow or unreachable, windows wait and the
    source is throttled, but epochs still close. So an epoch that does not close is a stall, even while
    throttled.

    Args:
        progress: the latest progress of each process, by its number.
        brokers: the state of the brokers.
        processes: number of processes of this engine.
        alone: whether all processes of the dataflow belong to this engine; otherwise others read the
            remaining partitions.
        stall_seconds: how long no epoch may close while messages wait before the dataflow is stalled.
        stopping: whether the engine is about to end.
        clock: monotonic clock, in seconds.
    """

    def __init__(
        self,
        progress: Callable[[], Mapping[int, Progress]],
        brokers: Brokers,
        *,
        processes: int = 1,
        alone: bool = True,
        stall_seconds: float = 60.0,
        stopping: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress = progress
        self._brokers = brokers
        self._processes = processes
        self._alone = alone
        self._stall_seconds = stall_seconds
        self._stopping = stopping
        self._clock = clock

    def live(self) -> Verdict:
        """Fails if no epoch has closed for a while although messages wait.

        While the brokers are unreachable it passes: whether messages wait is unknown, and a restart would
        not help.
        """
        answering, now = self._brokers.answering, self._clock()
        reading = {number: latest for number, latest in self._progress().items() if latest.offsets}
        if not reading:
            return Verdict(True, "starting")
        if self._stopping():
            return Verdict(True, "stopping")
        number, oldest = min(reading.items(), key=lambda item: item[1].moved)
        waiting = sum(_waiting(latest.offsets, self._brokers.ends) for latest in reading.values())
        if answering is None:
            return Verdict(True, "the brokers do not answer")
        still = now - max(oldest.moved, answering)
        if still <= self._stall_seconds or not waiting:
            return Verdict(True, f"last epoch closed {now - oldest.moved:.1f} s ago")
        return Verdict(
            False,
            f"stalled: process {number} has closed no epoch for {still:.0f} s and {waiting} messages wait",
        )

    def ready(self) -> Verdict:
        """Passes once state is recovered, partitions are assigned and the brokers answer."""
        if self._stopping():
            return Verdict(False, "stopping")
        progress = self._progress()
        assigned = sum(len(latest.offsets) for latest in progress.values())
        listed = max((latest.listed for latest in progress.values()), default=0)
        if len(progress) < self._processes or not listed:
            return Verdict(False, "starting")
        if assigned < listed and (self._alone or not assigned):
            return Verdict(False, f"{assigned} of {listed} partitions are assigned")
        if not all(latest.epochs for latest in progress.values() if latest.offsets):
            return Verdict(False, "recovering: no epoch has closed yet")
        if self._brokers.answering is None:
            return Verdict(False, "the brokers do not answer")
        return Verdict(True, f"{assigned} of {listed} partitions are read")


def _waiting(offsets: Mapping[str, int | None], ends: Mapping[str, int]) -> int:
    """How many messages not every step has finished, including transaction markers."""
    return sum(max(ends.get(part, 0) - (offset or 0), 0) for part, offset in offsets.items())
