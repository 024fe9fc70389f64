"""Memory recall, the paper's measure: does the memory hold the evidence of a gap?

No judge is needed where the memory is verbatim turns: a gap counts when all ids of one of its
alternatives are in memory. A part of a turn counts as the turn, as for chunks. Memories that a model
writes are judged by one (`judge.judge`), and others can be, to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np

from backscroll.benchmarks.data.benchmark import Benchmark
from backscroll.benchmarks.data.gaps import BenchmarkError, GapRow, WindowRow
from backscroll.benchmarks.judge.asking import CountedModel, TimedModel
from backscroll.benchmarks.judge.judge import Judge
from backscroll.benchmarks.memory.ablations import FULL_TOKENS, AnnotatedRequest
from backscroll.benchmarks.memory.compared import COMPARED
from backscroll.operators.gaps.gap import Gap
from backscroll.operators.llm.prompts import chat_line, indented
from backscroll.operators.memory.request import (
    Memory,
    MemoryItem,
    MemoryModel,
    MemoryParameters,
    MemoryTurn,
)

__all__ = ["BuiltMemory", "Measured", "Verdicts", "build_memory", "judge_memory"]

PLACES = ("near", "mid", "far")
TYPES = ("referential", "attribute", "relational")
Verdicts = Sequence[bool | None]
"""Whether a memory resolves each gap of a window; None where that could not be judged."""


@dataclass(frozen=True, slots=True)
class BuiltMemory:
    """A memory of one window as lines of text; `ids` are those of its turns.

    There are none, and a judge decides, where it has statements or was to have some. `turns` are those
    that it holds verbatim.
    """

    lines: tuple[str, ...]
    ids: frozenset[str] | None
    tokens: int
    build_ms: float
    incomplete: bool = False
    turns: tuple[MemoryTurn, ...] = ()

    @classmethod
    def of(cls, memory: Memory, build_ms: float) -> BuiltMemory:
        """A memory that took so long to build."""
        verbatim = len(memory.turns) == len(memory.items) and bool(memory.items or not memory.degraded)
        return cls(
            tuple(map(_line, memory.items)),
            frozenset(entry.turn.id for entry in memory.turns) if verbatim else None,
            sum(item.tokens for item in memory.items),
            build_ms,
            memory.degraded is not None,
            memory.turns,
        )


@dataclass(slots=True)
class Measured:
    """What a strategy did on every annotated window; a hit is None where it could not be judged."""

    hits: list[tuple[str, GapRow, bool | None]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    build_ms: list[float] = field(default_factory=list)
    agreed: list[bool] = field(default_factory=list)
    incomplete: int = 0
    judged: bool = False

    def add(self, row: WindowRow, memory: BuiltMemory, verdicts: Verdicts | None = None) -> None:
        """Count the gaps of one window, by a judge's verdicts if there are any, and the memory's cost."""
        by_ids: Verdicts = [] if memory.ids is None else [gap.resolved(memory.ids) for gap in row.gaps]
        hits = by_ids if verdicts is None else verdicts
        self.hits += [(row.dialogue, gap, hit) for gap, hit in zip(row.gaps, hits, strict=True)]
        if verdicts is not None:
            self.judged = True
            both = zip(verdicts, by_ids, strict=False)  # there are no ids of a written memory
            self.agreed += [verdict == by_id for verdict, by_id in both if verdict is not None]
        self.tokens.append(memory.tokens)
        self.build_ms.append(memory.build_ms)
        self.incomplete += memory.incomplete

    def to_json(self) -> dict[str, Any]:
        """Recall over all judged gaps, by distance and type (None without such gaps), and the cost.

        `agreement` is the share of verdicts of a judge that are what the ids say; `incomplete` counts
        memories in which a failed call left something out.
        """
        places = {place: self._recall(lambda _, gap, p=place: gap.place == p) for place in PLACES}  # type: ignore[misc]
        types = {kind: self._recall(lambda _, gap, k=kind: gap.type == k) for kind in TYPES}  # type: ignore[misc]
        known = [value for value in places.values() if value is not None]
        dialogues = sorted({dialogue for dialogue, _, _ in self.hits})
        return {
            "all": self._recall(lambda _d, _g: True),
            **places,
            "macro": round(mean(known), 4) if known else None,
            **types,
            "by_dialogue": {name: self._recall(lambda d, _, n=name: d == n) for name in dialogues},  # type: ignore[misc]
            "gaps": len(self.hits),
            "not_judged": sum(hit is None for _, _, hit in self.hits),
            "judged_by": "model" if self.judged else "ids",
            "agreement": round(mean(self.agreed), 4) if self.agreed else None,
            "incomplete": self.incomplete,
            "tokens_mean": round(mean(self.tokens), 1) if self.tokens else 0,
            "tokens_max": max(self.tokens, default=0),
            "build_ms_p50": _percentile(self.build_ms, 50),
            "build_ms_p95": _percentile(self.build_ms, 95),
        }

    def _recall(self, wanted: Callable[[str, GapRow], bool]) -> float | None:
        hits = [hit for dialogue, gap, hit in self.hits if hit is not None and wanted(dialogue, gap)]
        return round(mean(hits), 4) if hits else None


async def build_memory(
    benchmark: Benchmark,
    name: str,
    row: WindowRow,
    gaps: Sequence[Gap],
    *,
    budget: int,
    context: int = FULL_TOKENS,
    writer: CountedModel | None = None,
) -> BuiltMemory:
    """The memory of a strategy for a window.

    Where a model writes it, its time is that of the answers that no other memory had asked for before.

    Raises:
        CircuitOpen: the model has stopped answering.
    """
    strategy, dialogue, window = COMPARED.get(name), benchmark.dialogues[row.dialogue], benchmark.window(row)
    timed = None if writer is None else TimedModel(writer)
    request = AnnotatedRequest(
        window.turns,
        gaps,
        dialogue.histories[dialogue.key].as_of(window.ref.first_seq),
        MemoryParameters(
            dialogue.histories.embedder,
            budget,
            model=None if writer is None or timed is None else MemoryModel(timed, writer.name),
        ),
        evidence=frozenset[str]().union(*(gap.shortest for gap in row.gaps)),
        context=context,
    )
    start = perf_counter()
    memory = await strategy.build(request)
    seconds = timed.seconds if timed is not None and strategy.needs.model else perf_counter() - start
    return BuiltMemory.of(memory, 1000 * seconds)


async def judge_memory(
    benchmark: Benchmark, row: WindowRow, memory: BuiltMemory, judge: Judge | None
) -> Verdicts:
    """Whether a memory resolves each gap of a window; None where that could not be judged.

    Raises:
        BenchmarkError: there is no judge, and the ids cannot tell.
        CircuitOpen: the judge has stopped answering.
    """
    if not memory.lines and memory.incomplete:
        return [None] * len(row.gaps)
    if judge is None:
        raise BenchmarkError("a memory that is not verbatim needs a judge: name one with --judge --llm")
    held = memory.ids or ()
    gaps = [(gap, benchmark.evidence(row, gap, held)) for gap in row.gaps]
    verdicts = await judge.memory(benchmark.window(row), memory.lines, gaps)
    return [None] * len(row.gaps) if verdicts is None else list(verdicts)


def _line(item: MemoryItem) -> str:
    if isinstance(item, MemoryTurn):
        return chat_line(item.turn.ts, item.turn.author.name, item.text)
    return indented(item.text)


def _percentile(values: Sequence[float], q: int) -> float:
    return round(float(np.percentile(values, q)), 2) if values else 0.0
