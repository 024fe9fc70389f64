"""The pulse of a dataflow: how far each partition is done, and when an epoch closed last.

Bytewax closes an epoch a second, idle or throttled, and begins none before the last but one is done
by every process. So an epoch that does not close is a step that does not return, in whichever process.
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
    """What one process knows of its dataflow.

    listed: partitions that the topics have, 0 before they were asked for.
    epochs: closed since the start, over all partitions of the process.
    moved: when the last of them closed, or the last partition was assigned; seconds of the machine's
        monotonic clock, which its processes share.
    offsets: of each partition that the process reads, what every step is done with, up to this offset.
    """

    listed: int = 0
    epochs: int = 0
    moved: float = 0.0
    offsets: Mapping[str, int | None] = field(default_factory=dict)


class ProgressRecorder:
    """Told by the source on the worker's thread, read by any other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listed = 0
        self._epochs = 0
        self._moved = 0.0
        self._read: dict[str, int | None] = {}  # at the last close
        self._done: dict[str, int | None] = {}  # at the one before

    @property
    def pulse(self) -> Progress:
        """A copy of what is known now."""
        with self._lock:
            return Progress(self._listed, self._epochs, self._moved, dict(self._done))

    def listed(self, parts: int) -> None:
        """The topics have so many partitions."""
        self._listed = parts

    def assigned(self, part: str, offset: int | None) -> None:
        """This process reads a partition from an offset on."""
        with self._lock:
            self._read[part] = self._done[part] = offset
            self._move()

    def epoch_closed(self, part: str, offset: int | None) -> None:
        """An epoch of a partition was closed, with what has been read by then."""
        with self._lock:
            self._done[part], self._read[part] = self._read.get(part), offset
            self._epochs += 1
            self._move()

    def _move(self) -> None:
        self._moved = time.monotonic()
        EPOCH_PROGRESS.set_to_current_time()
