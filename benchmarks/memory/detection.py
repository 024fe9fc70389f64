"""The gaps of a benchmark's windows, by rules, from a record, or by a language model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from backscroll.benchmarks.data.benchmark import Benchmark
from backscroll.benchmarks.data.gaps import WindowRow
from backscroll.benchmarks.judge.asking import concurrently
from backscroll.operators.gaps.gap import Gap
from backscroll.operators.gaps.stage import GapStage
from backscroll.operators.llm.protocol import CircuitOpen, LLMError, Usage

__all__ = ["DetectionAgreement", "DetectorOutput", "agreement", "find_gaps"]

MAX_GAPS = 8


@dataclass(slots=True)
class DetectorOutput:
    """The gaps of every annotated window, and what a model could not or may not say about them."""

    gaps: dict[WindowRow, tuple[Gap, ...]] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    dropped: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """Numbers; `failures` are windows that were left without gaps, by kind."""
        return {
            "gaps": sum(map(len, self.gaps.values())),
            "prompt_tokens": self.usage.prompt,
            "completion_tokens": self.usage.completion,
            "dropped": dict(sorted(self.dropped.items())),
            "failures": dict(sorted(self.failures.items())),
        }


@dataclass(frozen=True, slots=True)
class DetectionAgreement:
    """How the utterances that a detector names agree with others: None where it or they name none."""

    precision: float | None
    recall: float | None

    def to_json(self) -> dict[str, float | None]:
        """The two numbers."""
        return {"precision": self.precision, "recall": self.recall}


def agreement(found: DetectorOutput, others: Mapping[WindowRow, Collection[str]]) -> DetectionAgreement:
    """Precision and recall of gap utterances over all windows; an utterance counts once."""
    named = {(row, gap.utterance) for row, gaps in found.gaps.items() for gap in gaps}
    wanted = {(row, utterance) for row, utterances in others.items() for utterance in utterances}
    both = len(named & wanted)
    return DetectionAgreement(*(round(both / len(some), 4) if some else None for some in (named, wanted)))


async def find_gaps(benchmark: Benchmark, stage: GapStage, step: Callable[[], None]) -> DetectorOutput:
    """Detect the gaps of every annotated window from the window alone, several at once.

    Raises:
        CircuitOpen: the model has stopped answering.
    """
    found = DetectorOutput()

    async def detect(row: WindowRow) -> None:
        try:
            detection = await stage.detect(benchmark.window(row), max_gaps=MAX_GAPS)
        except CircuitOpen:
            raise
        except LLMError as err:
            found.gaps[row] = ()
            found.usage += err.usage
            found.failures[err.kind] += 1
        else:
            found.gaps[row] = detection.gaps
            found.usage += detection.usage
            found.dropped.update(detection.dropped)

    await concurrently(map(detect, benchmark.windows), step)
    return found
