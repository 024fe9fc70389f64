"""The state of a running engine: counts, backpressure, progress, and how it should end."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from backscroll.operators.runtime.backpressure import Backlog, Liveness, Pending
from backscroll.operators.runtime.metrics import LOST, PENDING_WINDOWS
from backscroll.operators.runtime.progress import ProgressRecorder

__all__ = ["Runtime"]


@dataclass(slots=True)
class Runtime:
    """The state of one run of an engine in one process. Create it, pass it to the engine, and watch it.

    counters: messages, turns, duplicates, dead_letters, windows (closed), recorded (newly),
        provisional, gaps, summaries (written), degraded, reissued (sent again from the store), failed
        (windows that became dead letters), dropped_gaps, prompt_tokens and completion_tokens.
        `changes` counts edits and deletions, `reissues` summaries written again because of them, `lost`
        messages that the broker no longer had, `unposted` edits and deletions without a message.
    pending: windows that are closed and have no summary yet.
    unrecorded: closed windows and changes that wait to be stored.
    liveness: whether the source keeps up with a live stream.
    progress: how far each partition is processed.
    stopping: set it to end the input without closing open windows.
    raises: whether the dataflow itself raises `failure` when it ends, which discards the last epoch.
        False if the caller calls `raise_failure` after the dataflow has returned.
    failure: the first error of a step or the source. Raising it in a step would end the dataflow in the
        middle of an epoch; instead the input ends, and finished results are still written.
    """

    counters: Counter[str] = field(default_factory=Counter)
    pending: Pending = field(default_factory=lambda: Pending(gauge=PENDING_WINDOWS))
    unrecorded: Backlog = field(default_factory=Backlog)
    liveness: Liveness = field(default_factory=Liveness)
    progress: ProgressRecorder = field(default_factory=ProgressRecorder)
    stopping: threading.Event = field(default_factory=threading.Event)
    raises: bool = True
    failure: BaseException | None = field(default=None, init=False)

    def fail(self, error: BaseException) -> None:
        """Stop the dataflow in an orderly way because of an error; the first error is kept."""
        self.failure = self.failure or error
        self.stopping.set()

    def raise_failure(self) -> None:
        """Raise the error that stopped the dataflow, if there is one."""
        if self.failure is not None:
            raise self.failure

    def lost(self, topic: str, partition: int, messages: int) -> None:
        """Count messages that the broker no longer had."""
        self.counters["lost"] += messages
        LOST.labels(topic, str(partition)).inc(messages)
