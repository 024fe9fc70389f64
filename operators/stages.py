"""The stages that may use a language model: gap detection and summary writing, and their fallbacks.

Without a model they run the rules and the extractive digest. With one, whatever fails falls back to
those and says so in `degraded`, or raises, as the caller chose: no window is lost either way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from operators.calls import Work, on_executor
from operators.extractive import ExtractiveSummarizer
from operators.gaps import Gap, GapDetector
from operators.guards import DetectedGaps, WrittenSummary, guard_gaps
from operators.llm import LLM, LLMError, Usage
from operators.memory import MemoryTurn
from operators.prompting import gaps_prompt, summary_prompt
from operators.unsupported import unsupported_spans
from operators.windows import Window

__all__ = [
    "Detection",
    "ExtractiveWriting",
    "GapStage",
    "ModelGaps",
    "ModelWriting",
    "RuleGaps",
    "SummaryStage",
    "Written",
]


@dataclass(frozen=True, slots=True)
class Detection:
    """The gaps of a window, who found them, and what it took; `dropped` counts guarded-off ones."""

    gaps: tuple[Gap, ...]
    model: str
    usage: Usage = field(default_factory=Usage)
    degraded: str | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Written:
    """A summary's text and kind; `evidence` is the memory turn for each gap that it resolves."""

    text: str
    kind: Literal["extractive", "abstractive"]
    model: str
    evidence: Mapping[int, MemoryTurn] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    degraded: str | None = None
    unsupported: tuple[str, ...] = ()


class GapStage(Protocol):
    """Finds the gaps of a window."""

    async def detect(self, window: Window, *, max_gaps: int) -> Detection:
        """The gaps, in window order."""
        ...


class SummaryStage(Protocol):
    """Writes the summary of a window."""

    async def write(self, window: Window, gaps: Sequence[Gap], memory: Sequence[MemoryTurn]) -> Written:
        """The summary."""
        ...


@dataclass(frozen=True, slots=True)
class RuleGaps:
    """A detector that needs no model, on the executor."""

    detector: GapDetector

    async def detect(self, window: Window, *, max_gaps: int) -> Detection:
        """The detector's gaps."""
        gaps = await on_executor(lambda: self.detector.detect(window, max_gaps=max_gaps), Work.GAPS)
        return Detection(gaps, self.detector.name)


@dataclass(frozen=True, slots=True)
class ModelGaps:
    """A model's gaps, guarded; on failure those of `fallback`, or the error itself without one."""

    llm: LLM
    model: str
    fallback: GapStage | None

    async def detect(self, window: Window, *, max_gaps: int) -> Detection:
        """The model's gaps that stand in the window.

        Raises:
            LLMError: no answer could be had, and there is no fallback.
        """
        try:
            prompt = await on_executor(lambda: gaps_prompt(window, model=self.model, max_gaps=max_gaps))
            answer = await self.llm.ask(prompt, DetectedGaps)
        except LLMError as err:
            if self.fallback is None:
                raise
            found = await self.fallback.detect(window, max_gaps=max_gaps)
            return Detection(found.gaps, found.model, err.usage, _reason("gaps", err))
        gaps, dropped = await on_executor(lambda: guard_gaps(answer.value, window, max_gaps=max_gaps))
        return Detection(gaps, self.model, answer.usage, None, Counter(dropped))


@dataclass(frozen=True, slots=True)
class ExtractiveWriting:
    """The extractive digest, on the executor."""

    summarizer: ExtractiveSummarizer

    async def write(self, window: Window, gaps: Sequence[Gap], memory: Sequence[MemoryTurn]) -> Written:
        """The digest."""
        digest = await on_executor(lambda: self.summarizer.summarize(window.turns, gaps, memory))
        return Written(digest.text, "extractive", self.summarizer.name, digest.evidence)


@dataclass(frozen=True, slots=True)
class ModelWriting:
    """A model's summary, checked against window and memory.

    Args:
        llm: the model.
        model: its name.
        extractive: what stands in when the model fails or may not be believed.
        max_tokens: most tokens of a summary.
        temperature: of sampling; 0 in production, 0.7 in the paper's evaluation.
        fail: raise what the model failed with instead of falling back.
        replace_unsupported: give the extractive digest instead of a summary that, asked twice,
            states what no message says; otherwise it is kept and marked.
    """

    llm: LLM
    model: str
    extractive: SummaryStage
    max_tokens: int = 200
    temperature: float = 0.0
    fail: bool = False
    replace_unsupported: bool = False

    async def write(self, window: Window, gaps: Sequence[Gap], memory: Sequence[MemoryTurn]) -> Written:
        """The summary, or the extractive one with the reason in `degraded`.

        Raises:
            LLMError: no answer could be had, and falling back is not wanted.
        """
        try:
            text, usage = await self._ask(window, memory)
            unsupported = await _unsupported(text, window, memory)
            if unsupported:
                text, unsupported, usage = await self._again(window, memory, text, unsupported, usage)
        except LLMError as err:
            if self.fail:
                raise
            return await self._degrade(window, gaps, memory, err.usage, _reason("summary", err))
        if unsupported and self.replace_unsupported:
            return await self._degrade(window, gaps, memory, usage, "summary: unsupported")
        resolved = (await self.extractive.write(window, gaps, memory)).evidence
        return Written(text, "abstractive", self.model, resolved, usage, None, unsupported)

    async def _ask(
        self, window: Window, memory: Sequence[MemoryTurn], unsupported: Sequence[str] = ()
    ) -> tuple[str, Usage]:
        prompt = await on_executor(
            lambda: summary_prompt(
                window,
                memory,
                model=self.model,
                max_tokens=self.max_tokens,
                temperature=self.temperature,
                unsupported=unsupported,
            )
        )
        answer = await self.llm.ask(prompt, WrittenSummary)
        return answer.value.summary.strip(), answer.usage

    async def _again(
        self,
        window: Window,
        memory: Sequence[MemoryTurn],
        text: str,
        unsupported: tuple[str, ...],
        usage: Usage,
    ) -> tuple[str, tuple[str, ...], Usage]:
        """One more try that is told what was unsupported; the better of the two stays."""
        try:
            second, cost = await self._ask(window, memory, unsupported)
        except LLMError as err:
            return text, unsupported, usage + err.usage
        still = await _unsupported(second, window, memory)
        if len(still) < len(unsupported):
            text, unsupported = second, still
        return text, unsupported, usage + cost

    async def _degrade(
        self,
        window: Window,
        gaps: Sequence[Gap],
        memory: Sequence[MemoryTurn],
        usage: Usage,
        reason: str,
    ) -> Written:
        digest = await self.extractive.write(window, gaps, memory)
        return Written(digest.text, digest.kind, digest.model, digest.evidence, usage, reason)


async def _unsupported(text: str, window: Window, memory: Sequence[MemoryTurn]) -> tuple[str, ...]:
    return await on_executor(lambda: unsupported_spans(text, window.turns, memory))


def _reason(stage: str, err: LLMError) -> str:
    return err.kind if err.kind == "budget" else f"{stage}: {err.kind}"
