"""The gaps of a benchmark's windows, by rules, from a record, or by a language model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.asking import concurrently
from benchmarks.benchmark import Benchmark
from benchmarks.gaps import WindowRow
from operators.gaps import Gap
from operators.llm import CircuitOpen, LLMError, Usage
from operators.stages import GapStage

__all__ = ["Found", "find_gaps"]

MAX_GAPS = 8


@dataclass(slots=True)
class Found:
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


async def find_gaps(benchmark: Benchmark, stage: GapStage, step: Callable[[], None]) -> Found:
    """Detect the gaps of every annotated window from the window alone, several at once.

    Raises:
        CircuitOpen: the model has stopped answering.
    """
    found = Found()

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
