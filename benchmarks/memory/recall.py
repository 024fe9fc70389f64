"""Memory recall, the paper's measure: does the memory hold the evidence of a gap?

No judge is needed where the memory is verbatim turns: a gap counts when all ids of one of its
alternatives are in memory. A part of a turn counts as the turn, as for chunks. Memories that a model
writes are judged by one (`judge.judge`), and others can be, to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np

from backscroll.benchmarks.data.benchmark import Benchmark
from backscroll.benchmarks.data.gaps import GapRow, WindowRow
from backscroll.benchmarks.judge.asking import CountedModel, concurrently
from backscroll.benchmarks.judge.judge import Judge
from backscroll.benchmarks.memory.ablations import COMPARED, ideal
from backscroll.benchmarks.memory.model_written import WrittenMemory, hierarchical, incremental
from backscroll.operators.gaps.gap import Gap
from backscroll.operators.language.tokens import count
from backscroll.operators.llm.prompts import chat_line, indented
from backscroll.operators.memory.request import MemoryRequest, MemoryTurn

__all__ = ["Measured", "Memory", "Verdicts", "Writing", "build_memory", "judge_memory"]

PLACES = ("near", "mid", "far")


TYPES = ("referential", "attribute", "relational")


Verdicts = Sequence[bool | None]
"""Whether a memory resolves each gap of a window; None where that could not be judged."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory built for one window, as verbatim turns (`ids`) or as a written `text`."""

    lines: tuple[str, ...]
    ids: frozenset[str] | None
    tokens: int
    build_ms: float
    incomplete: bool = False

    @classmethod
    def verbatim(cls, entries: Sequence[MemoryTurn], build_ms: float) -> Memory:
        """A memory of turns."""
        lines = tuple(chat_line(entry.turn.ts, entry.turn.author.name, entry.text) for entry in entries)
        ids = frozenset(entry.turn.id for entry in entries)
        return cls(lines, ids, sum(entry.tokens for entry in entries), build_ms)

    @classmethod
    def written(cls, memory: WrittenMemory) -> Memory:
        """A memory in a model's words."""
        lines = (indented(memory.text),) if memory.text else ()
        return cls(lines, None, count(memory.text), memory.seconds * 1000, memory.incomplete)


@dataclass(slots=True)
class Measured:
    """What a strategy did on every annotated window; a hit is None where it could not be judged."""

    hits: list[tuple[str, GapRow, bool | None]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    build_ms: list[float] = field(default_factory=list)
    agreed: list[bool] = field(default_factory=list)
    incomplete: int = 0
    judged: bool = False

    def add(self, row: WindowRow, memory: Memory, verdicts: Verdicts | None = None) -> None:
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


def build_memory(
    benchmark: Benchmark, strategy: str, row: WindowRow, gaps: Sequence[Gap], budget: int
) -> Memory:
    """A memory of verbatim turns."""
    dialogue, window = benchmark.dialogues[row.dialogue], benchmark.window(row)
    request = MemoryRequest(
        turns=window.turns,
        gaps=gaps,
        history=dialogue.histories[dialogue.key].as_of(window.ref.first_seq),
        embedder=dialogue.histories.embedder,
        budget=budget,
    )
    start = perf_counter()
    if strategy == "ideal":
        entries = ideal((gap.shortest for gap in row.gaps), request.history)
    else:
        entries = COMPARED[strategy](request)
    return Memory.verbatim(entries, (perf_counter() - start) * 1000)


@dataclass(frozen=True, slots=True)
class Writing:
    """A memory that a model writes for every window that has gaps."""

    benchmark: Benchmark
    strategy: str
    model: CountedModel
    budget: int

    @property
    def wanted(self) -> Mapping[str, Mapping[int, WindowRow]]:
        """The windows by dialogue and ordinal."""
        wanted: dict[str, dict[int, WindowRow]] = {}
        for row in self.benchmark.windows:
            if row.gaps:
                wanted.setdefault(row.dialogue, {})[row.window] = row
        return wanted

    @property
    def steps(self) -> int:
        """How much work it is: updates of running summaries, or windows."""
        if self.strategy == "incremental":
            return sum(max(rows) for rows in self.wanted.values())
        return sum(map(len, self.wanted.values()))

    async def run(self, step: Callable[[], None]) -> list[tuple[WindowRow, Memory]]:
        """Write, dialogues and windows side by side where one does not need the other.

        Raises:
            CircuitOpen: the model has stopped answering.
        """
        if self.strategy == "incremental":
            chains = (self._chain(dialogue, rows, step) for dialogue, rows in self.wanted.items())
            return [pair for part in await concurrently(chains, lambda: None) for pair in part]
        trees = (self._tree(row) for rows in self.wanted.values() for row in rows.values())
        return await concurrently(trees, step)

    async def _chain(
        self, dialogue: str, rows: Mapping[int, WindowRow], step: Callable[[], None]
    ) -> list[tuple[WindowRow, Memory]]:
        windows = self.benchmark.dialogues[dialogue].windows
        written = await incremental(self.model, windows, rows, self.budget, step)
        return [(rows[index], Memory.written(memory)) for index, memory in written.items()]

    async def _tree(self, row: WindowRow) -> tuple[WindowRow, Memory]:
        windows = self.benchmark.dialogues[row.dialogue].windows
        return row, Memory.written(await hierarchical(self.model, windows, row.window, self.budget))


async def judge_memory(benchmark: Benchmark, row: WindowRow, memory: Memory, judge: Judge) -> Verdicts:
    """Whether a memory resolves each gap of a window; None where that could not be judged."""
    if not memory.lines and memory.incomplete:
        return [None] * len(row.gaps)
    held = memory.ids or ()
    gaps = [(gap, benchmark.evidence(row, gap, held)) for gap in row.gaps]
    verdicts = await judge.memory(benchmark.window(row), memory.lines, gaps)
    return [None] * len(row.gaps) if verdicts is None else list(verdicts)


def _percentile(values: Sequence[float], q: int) -> float:
    return round(float(np.percentile(values, q)), 2) if values else 0.0
