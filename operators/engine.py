"""An engine: its parts, its configuration, and the state of its run.

The defaults need no model and no vectors: gaps by rules, extractive summaries, the `backscroll` memory.

    engine = Engine(store)
    flow = summarize_flow(engine, source, sink, rejects)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.gaps.stage import GapStage, RuleGaps
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.store import HistoryStore
from backscroll.operators.memory.registry import MemoryStrategyError
from backscroll.operators.memory.registry import get as get_strategy
from backscroll.operators.memory.request import Retrieval
from backscroll.operators.memory.verbatim import check_verbatim
from backscroll.operators.runtime.feed import Feed
from backscroll.operators.runtime.runtime import Runtime
from backscroll.operators.stream.changes import Changes
from backscroll.operators.stream.windows import Window, WindowCutter
from backscroll.operators.summary.extractive import ExtractiveSummarizer
from backscroll.operators.summary.stage import ExtractiveWriting, SummaryStage

__all__ = ["Engine", "EngineConfig"]

_USUAL_TURNS, _USUAL_TOKENS = 32, 1024  # of a window


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The configuration of an engine; it does not change while the engine runs.

    namespace: default for messages without a namespace.
    cutter: decides where a window ends.
    strategy: name of the memory strategy.
    budget: most tokens of a memory.
    retrieval: how histories are searched.
    max_gaps: most gaps per window; 0 turns gap detection off.
    pending_limit: how many windows may wait for a summary before the source is paused.
    unrecorded_limit: how many windows may wait to be stored before the source is paused.
    embedding_windows: most windows embedded in one call.
    lateness: how long messages wait for earlier ones. A pause releases them only in a live stream; for
        a source of your own, call `engine.runtime.liveness.begin()` before the run.
    scattered_channels: whether a channel may be in several partitions.
    reissue: whether to write a summary again after an edit or deletion of a message that it used.
    """

    namespace: str = "default"
    cutter: WindowCutter = field(default_factory=WindowCutter)
    strategy: str = "backscroll"
    budget: int = 1024
    retrieval: Retrieval = field(default_factory=Retrieval)
    max_gaps: int = 8
    pending_limit: int = 256
    unrecorded_limit: int = 32
    embedding_windows: int = 1
    lateness: timedelta = timedelta()
    scattered_channels: bool = False
    reissue: bool = True


class Engine:
    """Everything that the steps of a dataflow use.

    Args:
        store: where histories are kept; pass `Histories` over a store to use vectors as well.
        config: the configuration; None for the defaults.
        gaps: finds the gaps of a window; None for rules.
        summaries: writes the summary of a window; None for an extractive digest.
        runtime: the state of the run; None for a new one. Every run needs its own engine.

    Raises:
        MemoryStrategyError: the strategy is unknown, or needs what this engine does not have.
    """

    def __init__(
        self,
        store: HistoryStore | Histories,
        config: EngineConfig | None = None,
        *,
        gaps: GapStage | None = None,
        summaries: SummaryStage | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        self.histories: Final = store if isinstance(store, Histories) else Histories(store, None, Chunker())
        self.config: Final = config or EngineConfig()
        self.gaps: Final[GapStage] = gaps or RuleGaps(RulesDetector())
        self.summaries: Final[SummaryStage] = summaries or ExtractiveWriting(ExtractiveSummarizer())
        self.runtime: Final = runtime or Runtime()
        self.strategy: Final = get_strategy(self.config.strategy)
        check_verbatim(self.strategy)
        if self.strategy.needs.vectors and self.histories.embedder is None:
            raise MemoryStrategyError(
                f"memory strategy {self.strategy.name!r} needs vectors: "
                "give the engine Histories with an embedder"
            )

    def wait_to_be_recorded(self, items: Iterable[Window | Changes], *, done: bool = False) -> None:
        """Count closed windows and changes that start to wait to be recorded, or that are done."""
        for item in items:
            key = item.key if isinstance(item, Changes) else item.ref.key
            weight = -_weight(item) if done else _weight(item)
            self.runtime.unrecorded.add(key, weight, most=self.config.unrecorded_limit)

    @property
    def throttled(self) -> bool:
        """Whether the source should pause: too many windows wait for a summary or to be recorded."""
        config, runtime = self.config, self.runtime
        pending, unrecorded = runtime.pending.total, runtime.unrecorded.total
        busy = pending >= config.pending_limit or unrecorded >= config.unrecorded_limit
        if busy:
            runtime.liveness.interrupt()
        return busy

    @property
    def feed(self) -> Feed:
        """The functions through which a source talks to this engine."""
        return Feed(
            throttled=lambda: self.throttled,
            stopping=self.runtime.stopping.is_set,
            fail=self.runtime.fail,
            lost=self.runtime.lost,
            at_end=self.runtime.liveness.at_end,
            progress=self.runtime.progress,
        )


def _weight(item: Window | Changes) -> int:
    """The size of an item, in windows of usual size, while it is part of the state."""
    if isinstance(item, Changes) or not item.turns:
        return 1
    return max(-(-len(item.turns) // _USUAL_TURNS), -(-item.tokens // _USUAL_TOKENS))
