"""The gap detection stage: by rules, or by a language model with the rules as its fallback.

If the model fails, the fallback is used and `degraded` says why; without a fallback, the error is raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from backscroll.operators.gaps.gap import Gap, GapDetector
from backscroll.operators.gaps.guards import DetectedGaps, guard_gaps
from backscroll.operators.llm.prompts import fenced, load_prompt, turn_line
from backscroll.operators.llm.protocol import LLM, LLMError, Prompt, Usage, fallback_reason
from backscroll.operators.runtime.calls import Work, on_executor
from backscroll.operators.stream.windows import Window

__all__ = ["Detection", "GapStage", "ModelGaps", "RuleGaps", "gaps_prompt"]

_GAP_TOKENS = 1500  # eight gaps with all their fields


@dataclass(frozen=True, slots=True)
class Detection:
    """The gaps of a window, who found them, and the cost; `dropped` counts rejected gaps by reason."""

    gaps: tuple[Gap, ...]
    model: str
    usage: Usage = field(default_factory=Usage)
    degraded: str | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)


class GapStage(Protocol):
    """Finds the gaps of a window."""

    async def detect(self, window: Window, *, max_gaps: int) -> Detection:
        """The gaps, in window order."""
        ...


@dataclass(frozen=True, slots=True)
class RuleGaps:
    """Runs a detector that needs no model, on the executor."""

    detector: GapDetector

    async def detect(self, window: Window, *, max_gaps: int) -> Detection:
        """The detector's gaps."""
        gaps = await on_executor(lambda: self.detector.detect(window, max_gaps=max_gaps), Work.GAPS)
        return Detection(gaps, self.detector.name)


@dataclass(frozen=True, slots=True)
class ModelGaps:
    """Asks a model and checks its gaps. On failure, `fallback` is used; without one, the error is raised."""

    llm: LLM
    model: str
    fallback: GapStage | None

    async def detect(self, window: Window, *, max_gaps: int) -> Detection:
        """The model's gaps that pass the checks.

        Raises:
            LLMError: the model failed, and there is no fallback.
        """
        try:
            prompt = await on_executor(lambda: gaps_prompt(window, model=self.model, max_gaps=max_gaps))
            answer = await self.llm.ask(prompt, DetectedGaps)
        except LLMError as err:
            if self.fallback is None:
                raise
            found = await self.fallback.detect(window, max_gaps=max_gaps)
            return Detection(found.gaps, found.model, err.usage, fallback_reason("gaps", err))
        gaps, dropped = await on_executor(lambda: guard_gaps(answer.value, window, max_gaps=max_gaps))
        return Detection(gaps, self.model, answer.usage, None, Counter(dropped))


def gaps_prompt(window: Window, *, model: str, max_gaps: int) -> Prompt:
    """The prompt that asks for the gaps of a window; it contains only the window."""
    prompt = load_prompt("gaps")
    lines = [f"[{index}] {turn_line(turn, turn.text)}" for index, turn in enumerate(window.turns)]
    fence, user = fenced({"window": lines})
    return Prompt(
        stage="gaps",
        version=prompt.version,
        model=model,
        system=prompt.fill(max_gaps=max_gaps, fence=fence),
        user=user,
        subject=window.ref,
        max_tokens=_GAP_TOKENS,
    )
