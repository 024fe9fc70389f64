"""What a source asks of the engine and tells it while it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from backscroll.operators.runtime.progress import ProgressRecorder

__all__ = ["Feed"]


@dataclass(frozen=True, slots=True)
class Feed:
    """What the source asks and tells the engine; called on the worker's thread.

    throttled: whether to wait because too much is in flight.
    stopping: whether to end now.
    fail: told why reading cannot go on; the input then ends.
    lost: told a topic, a partition and how many messages were passed over.
    at_end: told a partition by name, and whether everything in it has been read.
    progress: told which partitions are read, and at each close of an epoch how far.
    """

    throttled: Callable[[], bool]
    stopping: Callable[[], bool]
    fail: Callable[[Exception], None]
    lost: Callable[[str, int, int], None]
    at_end: Callable[[str, bool], None]
    progress: ProgressRecorder = field(default_factory=ProgressRecorder)
