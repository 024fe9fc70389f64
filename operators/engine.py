"""The engine's parts, as one process holds them, and what the steps count while they run."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray
from prometheus_client import Gauge

from operators.changes import Changes
from operators.histories import Histories
from operators.memory import Retrieval
from operators.messages import ChannelKey
from operators.metrics import PENDING_WINDOWS
from operators.stages import GapStage, SummaryStage
from operators.vitals import Vitals
from operators.windows import Window, WindowCutter

__all__ = ["Engine", "Liveness", "Pending"]

_USUAL_TURNS, _USUAL_TOKENS = 32, 1024  # of a window


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


def _weight(item: Window | Changes) -> int:
    """How many windows of usual size an item is, while it is part of the state."""
    if isinstance(item, Changes) or not item.turns:
        return 1
    return max(-(-len(item.turns) // _USUAL_TURNS), -(-item.tokens // _USUAL_TOKENS))


def _microseconds(time: datetime) -> int:
    return int(time.timestamp() * 1_000_000)


@dataclass(slots=True)
class Engine:
    """Everything a dataflow's steps use.

    `counters` holds messages, turns, duplicates, dead_letters, windows (closed), recorded (newly),
    provisional, gaps, summaries (made), degraded, reissued (taken from the store as they were), failed
    (windows that became dead letters), dropped_gaps, prompt_tokens and completion_tokens.
    `changes` are edits and deletions, `reissues` summaries made again because of them, `lost` messages
    that the broker no longer had, `unposted` edits and deletions without a message.
    `embedding_windows` is how many windows may be embedded in one call.
    `lateness` is how long messages wait for earlier ones, `scattered_channels` allows a channel to
    come from several partitions, `reissue` makes summaries again that a change has touched.
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
    unrecorded_limit: int = 32
    embedding_windows: int = 1
    lateness: timedelta = timedelta()
    scattered_channels: bool = False
    reissue: bool = True
    counters: Counter[str] = field(default_factory=Counter)
    pending: Pending = field(default_factory=lambda: Pending(gauge=PENDING_WINDOWS))
    unrecorded: Pending = field(default_factory=Pending)
    liveness: Liveness = field(default_factory=Liveness)
    vitals: Vitals = field(default_factory=Vitals)
    stopping: threading.Event = field(default_factory=threading.Event)
    failure: BaseException | None = None
    _waiting: Counter[ChannelKey] = field(default_factory=Counter)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def wait_to_be_recorded(self, items: Iterable[Window | Changes], *, done: bool = False) -> None:
        """Count closed windows and changes that begin to wait, or that are done.

        They are part of the state, and one channel's state has to stay small: where a quarter of what
        may wait is of one channel, it counts as all of it.
        """
        most, few = self.unrecorded_limit, max(self.unrecorded_limit // 4, 1)
        with self._counting:
            for item in items:
                key = item.key if isinstance(item, Changes) else item.ref.key
                before = self._waiting[key]
                after = before + (-_weight(item) if done else _weight(item))
                crowded = (after >= few) - (before >= few)
                self.unrecorded.add(after - before + crowded * most)
                self._waiting[key] = after
                if not after:
                    del self._waiting[key]

    @property
    def throttled(self) -> bool:
        """Whether the source should wait: too many windows wait for their summary, or to be recorded."""
        busy = self.pending.total >= self.pending_limit or self.unrecorded.total >= self.unrecorded_limit
        if busy:
            self.liveness.interrupt()
        return busy

    def fail(self, error: BaseException) -> None:
        """Stop the dataflow in good order because of an error; the first one is kept."""
        self.failure = self.failure or error
        self.stopping.set()
