"""The engine's parts, as one process holds them, and what the steps count while they run."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from operators.history import Histories
from operators.memory import Retrieval
from operators.metrics import PENDING_WINDOWS
from operators.stages import GapStage, SummaryStage
from operators.windows import WindowCutter

__all__ = ["Engine", "Pending"]


class Pending:
    """Windows between their close and their summary, over all processes of one machine.

    Args:
        slots: int64 `[processes]`, shared by the processes; every process writes its own slot.
        slot: the place of this process.
    """

    def __init__(self, slots: NDArray[np.int64] | None = None, slot: int = 0) -> None:
        self._slots = np.zeros(1, np.int64) if slots is None else slots
        self._slot = slot

    @property
    def total(self) -> int:
        """Windows pending in all processes."""
        return int(self._slots.sum())

    def add(self, windows: int) -> None:
        """Count windows that closed, or, below zero, that are done."""
        self._slots[self._slot] += windows
        PENDING_WINDOWS.set(int(self._slots[self._slot]))


@dataclass(slots=True)
class Engine:
    """Everything a dataflow's steps use.

    `counters` holds messages, turns, duplicates, dead_letters, windows (closed), recorded (newly),
    provisional, gaps, summaries (made), degraded, reissued (taken from the store as they were), failed
    (windows that became dead letters), dropped_gaps, prompt_tokens and completion_tokens.
    `stopping` asks the source to end without closing open windows; `failure` is why, if a step or
    the source failed. Raised from a step, an error would tear the dataflow down in mid-epoch.
    """

    namespace: str
    histories: Histories
    cutter: WindowCutter
    gaps: GapStage
    strategy: str
    summaries: SummaryStage
    retrieval: Retrieval = field(default_factory=Retrieval)
    budget: int = 1024
    max_gaps: int = 8
    pending_limit: int = 256
    counters: Counter[str] = field(default_factory=Counter)
    pending: Pending = field(default_factory=Pending)
    stopping: threading.Event = field(default_factory=threading.Event)
    failure: BaseException | None = None

    @property
    def throttled(self) -> bool:
        """Whether the source should wait: too many windows are between their close and their summary."""
        return self.pending.total >= self.pending_limit

    def fail(self, error: BaseException) -> None:
        """Stop the dataflow in good order because of an error; the first one is kept."""
        self.failure = self.failure or error
        self.stopping.set()
