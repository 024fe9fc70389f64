"""The engine's parts, as one process holds them, and what the steps count while they run."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from backscroll.operators.gaps.stage import GapStage
from backscroll.operators.history.histories import Histories
from backscroll.operators.memory.request import Retrieval
from backscroll.operators.messages import ChannelKey
from backscroll.operators.runtime.backpressure import Liveness, Pending
from backscroll.operators.runtime.metrics import PENDING_WINDOWS
from backscroll.operators.runtime.progress import ProgressRecorder
from backscroll.operators.stream.changes import Changes
from backscroll.operators.stream.windows import Window, WindowCutter
from backscroll.operators.summary.stage import SummaryStage

__all__ = ["Engine"]

_USUAL_TURNS, _USUAL_TOKENS = 32, 1024  # of a window


def _weight(item: Window | Changes) -> int:
    """How many windows of usual size an item is, while it is part of the state."""
    if isinstance(item, Changes) or not item.turns:
        return 1
    return max(-(-len(item.turns) // _USUAL_TURNS), -(-item.tokens // _USUAL_TOKENS))


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
    vitals: ProgressRecorder = field(default_factory=ProgressRecorder)
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
