"""Explained gaps: does the summary record of a window name the messages that resolve a gap?

Memory recall says whether a reader could be told what an utterance leaves open; this says whether the
record tells it. Records are made from a verbatim memory as the engine makes them without a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backscroll.benchmarks.data.benchmark import Benchmark
from backscroll.benchmarks.data.gaps import GapRow, WindowRow
from backscroll.benchmarks.memory.recall import BuiltMemory
from backscroll.operators.gaps.gap import Gap
from backscroll.operators.gaps.stage import Detection
from backscroll.operators.summary.build_record import summary_record
from backscroll.operators.summary.evidence import exchange_vectors, resolve_gaps
from backscroll.operators.summary.extractive import ExtractiveSummarizer
from backscroll.operators.summary.record import Summary
from backscroll.operators.summary.stage import ExtractiveWriting

__all__ = ["Explained", "explains", "record_of"]


@dataclass(slots=True)
class Explained:
    """How many annotated gaps the records explain with the right evidence, and with other evidence.

    `shown` counts everything that a reader sees explained, annotated or not.
    """

    gaps: int = 0
    right: int = 0
    wrong: int = 0
    shown: int = 0

    def add(self, row: WindowRow, record: Summary) -> None:
        """Count the gaps of one window."""
        verdicts = [explains(record, gap) for gap in row.gaps]
        self.gaps += len(verdicts)
        self.right += verdicts.count(True)
        self.wrong += verdicts.count(False)
        self.shown += sum(bool(gap.evidence) for gap in record.gaps)

    def to_json(self) -> dict[str, Any]:
        """Counts, their shares of all gaps, and the share of explanations that are right (`precision`)."""
        return {
            "gaps": self.gaps,
            "right": self.right,
            "wrong": self.wrong,
            "shown": self.shown,
            "right_share": _share(self.right, self.gaps),
            "wrong_share": _share(self.wrong, self.gaps),
            "precision": _share(self.right, self.right + self.wrong),
        }


def explains(record: Summary, gap: GapRow) -> bool | None:
    """Whether a record explains an annotated gap rightly; None where it does not explain it.

    Only gaps that the record lists for the same utterance count. One of them must have evidence that
    contains every message of one alternative.
    """
    named = [entry.evidence for entry in record.gaps if entry.utterance == gap.utterance and entry.evidence]
    return any(map(gap.resolved, named)) if named else None


async def record_of(
    benchmark: Benchmark, strategy: str, row: WindowRow, gaps: Sequence[Gap], memory: BuiltMemory
) -> Summary:
    """The record of an annotated window with a verbatim memory, as a replay without a model makes it."""
    window, dialogue = benchmark.window(row), benchmark.dialogues[row.dialogue]
    embedder, history = dialogue.histories.embedder, dialogue.histories[dialogue.key]
    vectors = exchange_vectors(window.turns, memory.turns, history.as_of(window.ref.first_seq), embedder)
    resolution = resolve_gaps(window.turns, gaps, memory.turns, vectors)
    writing = ExtractiveWriting(ExtractiveSummarizer())
    written = await writing.write(window, gaps, memory.turns, resolution.evidence)
    return summary_record(
        window,
        Detection(tuple(gaps), "benchmark"),
        memory.turns,
        resolution,
        written,
        strategy=strategy,
        embedding=embedder.name if embedder else "none",
        timings_ms={},
    )


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
