"""The stage that writes summaries: an extractive digest, or a model's text checked against the chat.

If the model fails, the digest is used instead and `degraded` gives the reason; callers can choose to
get the error instead. No window is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.language.identify import language_name
from backscroll.operators.llm.prompts import fenced, load_prompt, turn_line
from backscroll.operators.llm.protocol import LLM, LLMError, ModelAnswer, Prompt, Usage, fallback_reason
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.runtime.calls import on_executor
from backscroll.operators.stream.windows import Window
from backscroll.operators.summary.evidence import Evidence
from backscroll.operators.summary.extractive import ExtractiveSummarizer
from backscroll.operators.summary.unsupported import unsupported_spans

__all__ = ["ExtractiveWriting", "ModelWriting", "SummaryStage", "Written", "WrittenSummary", "summary_prompt"]


def _stripped(text: str) -> str:
    if stripped := text.strip():
        return stripped
    raise ValueError("the text is empty")


class WrittenSummary(ModelAnswer):
    """The summary of a window, not empty."""

    summary: Annotated[str, AfterValidator(_stripped)]


@dataclass(frozen=True, slots=True)
class Written:
    """A summary's text and kind."""

    text: str
    kind: Literal["extractive", "abstractive"]
    model: str
    usage: Usage = field(default_factory=Usage)
    degraded: str | None = None
    unsupported: tuple[str, ...] = ()


class SummaryStage(Protocol):
    """Writes the summary of a window."""

    async def write(
        self,
        window: Window,
        gaps: Sequence[Gap],
        memory: Sequence[MemoryTurn],
        evidence: Mapping[int, Sequence[Evidence]],
    ) -> Written:
        """Write the summary.

        Args:
            window: the window, with its turns.
            gaps: the window's gaps.
            memory: earlier turns, in channel order.
            evidence: by gap index, what in memory resolves the gap; nothing for most gaps.
        """
        ...


@dataclass(frozen=True, slots=True)
class ExtractiveWriting:
    """Writes the extractive digest, on the executor."""

    summarizer: ExtractiveSummarizer

    async def write(
        self,
        window: Window,
        gaps: Sequence[Gap],
        memory: Sequence[MemoryTurn],
        evidence: Mapping[int, Sequence[Evidence]],
    ) -> Written:
        """Write the digest."""
        del memory  # the useful part is in the evidence
        text = await on_executor(lambda: self.summarizer.summarize(window.turns, gaps, evidence))
        return Written(text, "extractive", self.summarizer.name)


@dataclass(frozen=True, slots=True)
class ModelWriting:
    """Writes a summary with a model, and checks it against window and memory.

    Args:
        llm: the model.
        model: its name.
        extractive: the fallback if the model fails or its summary is not supported.
        max_tokens: most tokens of a summary.
        temperature: sampling temperature; 0 in production, 0.7 in the paper's evaluation.
        fail: raise the model's error instead of falling back.
        replace_unsupported: use the extractive digest if, after a second attempt, the summary still
            states what no message says; otherwise the summary is kept and marked.
    """

    llm: LLM
    model: str
    extractive: SummaryStage
    max_tokens: int = 200
    temperature: float = 0.0
    fail: bool = False
    replace_unsupported: bool = False

    async def write(
        self,
        window: Window,
        gaps: Sequence[Gap],
        memory: Sequence[MemoryTurn],
        evidence: Mapping[int, Sequence[Evidence]],
    ) -> Written:
        """Write the summary, or the extractive one with the reason in `degraded`.

        Raises:
            LLMError: the model gave no answer, and `fail` is set.
        """
        try:
            text, usage = await self._ask(window, memory)
            unsupported = await _unsupported(text, window, memory)
            if unsupported:
                text, unsupported, usage = await self._again(window, memory, text, unsupported, usage)
        except LLMError as err:
            if self.fail:
                raise
            digest = await self.extractive.write(window, gaps, memory, evidence)
            return replace(digest, usage=err.usage, degraded=fallback_reason("summary", err))
        if unsupported and self.replace_unsupported:
            digest = await self.extractive.write(window, gaps, memory, evidence)
            return replace(digest, usage=usage, degraded="summary: unsupported")
        return Written(text, "abstractive", self.model, usage, None, unsupported)

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
        """Ask once more, naming the unsupported spans, and keep the better of the two summaries."""
        try:
            second, cost = await self._ask(window, memory, unsupported)
        except LLMError as err:
            return text, unsupported, usage + err.usage
        still = await _unsupported(second, window, memory)
        if len(still) < len(unsupported):
            text, unsupported = second, still
        return text, unsupported, usage + cost


async def _unsupported(text: str, window: Window, memory: Sequence[MemoryTurn]) -> tuple[str, ...]:
    return await on_executor(lambda: unsupported_spans(text, window.turns, memory))


def summary_prompt(
    window: Window,
    memory: Sequence[MemoryTurn],
    *,
    model: str,
    max_tokens: int,
    temperature: float = 0.0,
    unsupported: Sequence[str] = (),
) -> Prompt:
    """The prompt for a window's summary, with its memory if it has one.

    Args:
        window: the window with its turns.
        memory: earlier turns, in channel order.
        model: the model's name.
        max_tokens: most tokens of the summary.
        temperature: sampling temperature.
        unsupported: unsupported spans of an earlier answer, which the model is asked to leave out.
    """
    prompt = load_prompt("summary" if memory else "summary_without_memory")
    parts = {"memory": [turn_line(entry.turn, entry.text) for entry in memory]} if memory else {}
    parts["window"] = [turn_line(turn, turn.text) for turn in window.turns]
    fence, user = fenced(parts)
    language = language_name([turn.text for turn in window.turns])
    system = prompt.fill(language=language, max_words=int(max_tokens * 0.6), fence=fence)
    if unsupported:
        spans = "\n".join(f"- {' '.join(span.split())}" for span in unsupported)
        system += f"\n\nAn earlier attempt stated these, which no message says. Leave them out:\n{spans}"
    return Prompt(
        stage="summary",
        version=prompt.version,
        model=model,
        system=system,
        user=user,
        subject=window.ref,
        max_tokens=2 * max_tokens + 64,  # room for the surrounding JSON: a truncated answer is an error
        temperature=temperature,
        recalled=tuple(entry.turn.seq for entry in memory),
    )
