"""Memory recall, the paper's measure: does the memory hold the evidence of a gap?

No judge is needed where the memory is verbatim turns: a gap counts when all ids of one of its
alternatives are in memory. A part of a turn counts as the turn, as for chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.dialogues import Dialogue, record_dialogue
from benchmarks.gaps import BenchmarkError, GapRow, WindowRow, read_gaps
from benchmarks.strategies import COMPARED, ideal
from operators.dense import Embedder
from operators.gaps import GapDetector
from operators.memory import MemoryRequest, MemoryTurn

__all__ = ["Measured", "MemoryBenchmark", "measure_memory"]

PLACES = ("near", "mid", "far")
TYPES = ("referential", "attribute", "relational")
MAX_GAPS = 8


@dataclass(slots=True)
class Measured:
    """What a strategy did on every annotated window."""

    hits: list[tuple[str, GapRow, bool]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    build_ms: list[float] = field(default_factory=list)

    def add(self, row: WindowRow, memory: Sequence[MemoryTurn], build_ms: float) -> None:
        """Count the gaps of one window, and what its memory cost."""
        ids = {entry.turn.id for entry in memory}
        self.hits += [(row.dialogue, gap, gap.resolved(ids)) for gap in row.gaps]
        self.tokens.append(sum(entry.tokens for entry in memory))
        self.build_ms.append(build_ms)

    def to_json(self) -> dict[str, Any]:
        """Recall over all gaps, by distance and type (None without such gaps), and the cost."""
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
            "tokens_mean": round(mean(self.tokens), 1) if self.tokens else 0,
            "tokens_max": max(self.tokens, default=0),
            "build_ms_p50": _percentile(self.build_ms, 50),
            "build_ms_p95": _percentile(self.build_ms, 95),
        }

    def _recall(self, wanted: Callable[[str, GapRow], bool]) -> float | None:
        hits = [hit for dialogue, gap, hit in self.hits if wanted(dialogue, gap)]
        return round(mean(hits), 4) if hits else None


@dataclass(frozen=True, slots=True)
class MemoryBenchmark:
    """A folder of `dialogues/` and `gaps.jsonl`, recorded once for all strategies."""

    dialogues: Mapping[str, Dialogue]
    windows: tuple[WindowRow, ...]

    @classmethod
    def read(cls, folder: Path, embedder: Embedder | None) -> MemoryBenchmark:
        """Read the gap file and record its dialogues.

        Raises:
            BenchmarkError: a file is missing, or the windows of a dialogue are others than annotated.
            FormatError: a dialogue cannot be read.
        """
        windows = read_gaps(folder / "gaps.jsonl")
        names = sorted({row.dialogue for row in windows})
        dialogues = {
            name: record_dialogue(folder / "dialogues" / f"{name}.jsonl", embedder) for name in names
        }
        for row in windows:
            cut = dialogues[row.dialogue].windows
            turns = cut[row.window].turns if row.window < len(cut) else ()
            if tuple(turn.id for turn in turns) != row.ids:
                raise BenchmarkError(
                    f"{folder}: window {row.window} of {row.dialogue} is not cut as annotated"
                )
        return cls(dialogues, windows)


def measure_memory(
    benchmark: MemoryBenchmark, strategies: Iterable[str], detector: GapDetector, *, budget: int
) -> dict[str, Measured]:
    """Build every strategy's memory for every annotated window; times leave gap detection out."""
    measured = {name: Measured() for name in strategies}
    for row in benchmark.windows:
        dialogue = benchmark.dialogues[row.dialogue]
        window = dialogue.windows[row.window]
        request = MemoryRequest(
            turns=window.turns,
            gaps=detector.detect(window, max_gaps=MAX_GAPS),
            history=dialogue.histories[dialogue.key].as_of(window.ref.first_seq),
            embedder=dialogue.histories.embedder,
            budget=budget,
        )
        for name, results in measured.items():
            start = perf_counter()
            memory = _build(name, request, row)
            results.add(row, memory, (perf_counter() - start) * 1000)
    return measured


def _build(name: str, request: MemoryRequest, row: WindowRow) -> tuple[MemoryTurn, ...]:
    if name == "ideal":
        return ideal((gap.shortest for gap in row.gaps), request.history)
    return COMPARED[name](request)


def _percentile(values: Sequence[float], q: int) -> float:
    return round(float(np.percentile(values, q)), 2) if values else 0.0
