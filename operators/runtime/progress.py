"""The progress of a dataflow: how far each partition is processed, and when the last epoch closed.

Bytewax closes an epoch every second, even while idle or throttled, and starts a new one only when every
process has finished the one before the last. So if no epoch closes, a step in some process is stuck.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from backscroll.operators.runtime.metrics import EPOCH_PROGRESS

__all__ = ["Progress", "ProgressRecorder"]


@dataclass(frozen=True, slots=True)
class Progress:
    """What one process knows about its dataflow.

    listed: number of partitions of the topics; 0 until they are known.
    epochs: number of epochs closed since the start, summed over the process's partitions.
    moved: when the last epoch closed or the last partition was assigned, in seconds of the machine's
        monotonic clock, which its processes share.
    offsets: for each partition that the process reads, the offset up to which every step is done.
    """

    listed: int = 0
    epochs: int = 0
    moved: float = 0.0
    offsets: Mapping[str, int | None] = field(default_factory=dict)


class ProgressRecorder:
    """Records progress. The source writes it on the worker's thread; any thread may read it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listed = 0
        self._epochs = 0
        self._moved = 0.0
        self._read: dict[str, int | None] = {}  # at the last close
        self._done: dict[str, int | None] = {}  # at the one before

    @property
    def latest(self) -> Progress:
        """A copy of the current progress."""
        with self._lock:
            return Progress(self._listed, self._epochs, self._moved, dict(self._done))

    def listed(self, parts: int) -> None:
        """Record how many partitions the topics have."""
        self._listed = parts

    def assigned(self, part: str, offset: int | None) -> None:
        """Record that this process reads a partition, starting at an offset."""
        with self._lock:
            self._read[part] = self._done[part] = offset
            self._move()

    def epoch_closed(self, part: str, offset: int | None) -> None:
        """Record that an epoch of a partition closed, and the offset read so far."""
        with self._lock:
            self._done[part], self._read[part] = self._read.get(part), offset
            self._epochs += 1
            self._move()

    def _move(self) -> None:
        self._moved = time.monotonic()
        EPOCH_PROGRESS.set_to_current_time()
