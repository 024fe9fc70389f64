"""Memories that a language model writes: the paper's two summarising baselines (section 5.1, figure 11).

`incremental` brings one running summary up to date with every window. `hierarchical` summarises
segments of 4,096 tokens that overlap by 1,024, merges the summaries in groups of 4,096 tokens, and so
on until one is left. Both hold at most the budget of tokens; they paraphrase, so a judge has to say what
is in them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from backscroll.benchmarks.judge.asking import question
from backscroll.benchmarks.judge.judge import turn_lines
from backscroll.operators.history.channel import AsOf
from backscroll.operators.language.sentences import sentences
from backscroll.operators.language.tokens import count
from backscroll.operators.llm.prompts import indented
from backscroll.operators.llm.protocol import CircuitOpen, LLMError, Usage, fallback_reason
from backscroll.operators.memory.request import Memory, MemoryModel, MemoryRequest, MemoryStatement, Needs
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import Window, WindowRef
from backscroll.operators.summary.stage import WrittenSummary

__all__ = ["Hierarchical", "Incremental", "groups", "segments", "within"]

SEGMENT, OVERLAP = 4096, 1024


class Incremental:
    """One running summary that meets every earlier window in turn.

    After a failed call the summary stays as it was, and the memory is degraded.
    """

    name = "incremental"
    needs = Needs(model=True)

    async def build(self, request: MemoryRequest) -> Memory:
        """The summary before a window.

        Raises:
            CircuitOpen: the model has stopped answering.
        """
        writer, text = _Writer.of(request), ""
        for window in _windows(request.history):
            parts = {"messages": turn_lines(window.turns)}
            if text:
                parts = {"summary so far": [indented(text)], **parts}
            name = "running_summary" if text else "segment_summary"
            text = await writer.write(name, parts, window.ref) or text
        return writer.memory(text, request.history)


class Hierarchical:
    """A summary of summaries, built from scratch; what histories share is written once."""

    name = "hierarchical"
    needs = Needs(model=True)

    async def build(self, request: MemoryRequest) -> Memory:
        """The summary before a window.

        Raises:
            CircuitOpen: the model has stopped answering.
        """
        writer, windows = _Writer.of(request), _windows(request.history)
        level = list[str]()
        if windows:
            ref = windows[-1].ref
            cut = list(segments([turn for window in windows for turn in window.turns]))
            places = [replace(ref, first_seq=part[0].seq, last_seq=part[-1].seq) for part in cut]
            parts = [{"messages": turn_lines(part)} for part in cut]
            level = await writer.write_all("segment_summary", parts, places)
        while len(level) > 1:
            *merged, last = groups(level)
            alone = last if len(last) == 1 else []
            many = [_summaries(group) for group in (merged if alone else [*merged, last])]
            level = await writer.write_all("merged_summary", many, [ref] * len(many)) + alone
        return writer.memory("".join(level), request.history)


def _windows(history: AsOf) -> list[Window]:
    """The windows in view, without deleted turns."""
    return [
        Window(ref, tuple(map(history.turn, range(ref.first_seq, ref.last_seq + 1)))).live
        for ref in history.history.windows[: history.windows]
    ]


def _summaries(group: Sequence[str]) -> dict[str, list[str]]:
    return {f"summary {place}": [indented(text)] for place, text in enumerate(group, start=1)}


@dataclass(slots=True)
class _Writer:
    """Asks for texts within the budget, and keeps count of what they cost and why one is missing."""

    model: MemoryModel
    budget: int
    usage: Usage = field(default_factory=Usage)
    degraded: str | None = None

    @classmethod
    def of(cls, request: MemoryRequest) -> _Writer:
        assert request.parameters.model is not None
        return cls(request.parameters.model, request.parameters.budget)

    async def write(self, name: str, parts: Mapping[str, Sequence[str]], ref: WindowRef) -> str | None:
        """A text, or None if none could be had."""
        prompt = question(
            name,
            parts,
            model=self.model.name,
            subject=ref,
            max_tokens=self.budget * 5 // 4 + 64,  # the JSON around it; a cut answer is asked for again
            max_words=int(self.budget * 0.6),
        )
        try:
            answer = await self.model.llm.ask(prompt, WrittenSummary)
        except CircuitOpen:
            raise
        except LLMError as err:
            self.usage += err.usage
            self.degraded = fallback_reason("memory", err)
            return None
        self.usage += answer.usage
        return within(answer.value.summary, self.budget)

    async def write_all(
        self, name: str, questions: Sequence[Mapping[str, Sequence[str]]], places: Sequence[WindowRef]
    ) -> list[str]:
        """The texts that could be had."""
        asked = zip(questions, places, strict=True)
        texts = await asyncio.gather(*(self.write(name, parts, ref) for parts, ref in asked))
        return [text for text in texts if text is not None]

    def memory(self, text: str, history: AsOf) -> Memory:
        """A text about all of the history, as the only statement."""
        statement = MemoryStatement(text, range(history.before_seq), count(text))
        return Memory((statement,) if text else (), self.usage, self.degraded)


def segments(
    turns: Sequence[Turn], *, size: int = SEGMENT, overlap: int = OVERLAP
) -> Iterator[Sequence[Turn]]:
    """Runs of whole turns of at most `size` tokens, a longer turn alone; each begins within the last.

    The overlap is what fits `overlap` tokens at the end of the run before. Where a run ends does not
    depend on what comes after it, so a growing history keeps its segments.
    """
    start = 0
    while start < len(turns):
        end, tokens = start, 0
        while end < len(turns) and (end == start or tokens + turns[end].tokens <= size):
            tokens += turns[end].tokens
            end += 1
        yield turns[start:end]
        if end == len(turns):
            return
        room = min(overlap, size - turns[end].tokens)  # the next run brings something new
        first, shared = end, 0
        while first - 1 > start and shared + turns[first - 1].tokens <= room:
            first -= 1
            shared += turns[first].tokens
        start = first


def groups(texts: Sequence[str], *, size: int = SEGMENT) -> Iterator[list[str]]:
    """Consecutive texts of at most `size` tokens together, but at least two, as long as there are two."""
    group, tokens = list[str](), 0
    for text in texts:
        needed = count(text)
        if len(group) >= 2 and tokens + needed > size:
            yield group
            group, tokens = [], 0
        group.append(text)
        tokens += needed
    if group:
        yield group


def within(text: str, budget: int) -> str:
    """The text up to the last sentence that fits the budget; a longer first sentence is cut at a word."""
    if count(text) <= budget:
        return text
    fitting = [end for _, end in sentences(text) if count(text[:end]) <= budget]
    if fitting:
        return text[: fitting[-1]]
    kept = list[str]()
    for word in text.split():
        if count(" ".join([*kept, word])) > budget:
            break
        kept.append(word)
    return " ".join(kept)
