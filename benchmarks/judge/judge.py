"""A language model as judge, with the questions of ReMEMBER's figures 5 to 10 in our own words.

Each question is about several items at once, and its answer has a verdict for each. If the judge gives no
valid answer, the result is None and the items are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from pydantic import BaseModel

from backscroll.benchmarks.data.gaps import GapRow
from backscroll.benchmarks.judge.asking import CountedModel, question
from backscroll.benchmarks.judge.schemas import (
    Expressed,
    FactVerdict,
    MemoryVerdict,
    UtteranceVerdict,
    citing,
    facts_of,
    keyed,
)
from backscroll.operators.llm.prompts import chat_line, indented
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import Window, WindowRef

__all__ = ["Judge", "Resolvable", "turn_lines"]

V = TypeVar("V", bound=BaseModel)
X = TypeVar("X")
_AT_ONCE = 16  # items per question; with more, weak models lose track
_ROOM = 256

Resolvable = tuple[GapRow, Sequence[Turn]]
"""A gap and the history turns that resolve it."""


def turn_lines(turns: Sequence[Turn]) -> list[str]:
    """Messages formatted for prompts."""
    return [chat_line(turn.ts, turn.author.name, turn.text) for turn in turns]


class Judge:
    """Judges what memories and summaries say."""

    def __init__(self, model: CountedModel) -> None:
        self.model = model

    async def memory(
        self, window: Window, memory: Sequence[str], gaps: Sequence[Resolvable]
    ) -> list[bool] | None:
        """Whether a memory, given as lines, contains what resolves each gap (figure 5)."""
        if not memory or not gaps:
            return [False] * len(gaps)
        verdicts = await self._verdicts(
            "memory_recall",
            MemoryVerdict,
            window.ref,
            {"window": turn_lines(window.turns), "memory": memory},
            ("gaps", _labelled("G", [_case(window, *gap) for gap in gaps])),
            tokens=220,
        )
        return None if verdicts is None else [verdict.contained for verdict in verdicts]

    async def utterances(
        self, window: Window, sentences: Sequence[str], utterances: Sequence[Turn]
    ) -> list[frozenset[int]] | None:
        """The sentences that cover each salient utterance (figure 6)."""
        if not sentences or not utterances:
            return [frozenset()] * len(utterances)
        verdicts = await self._verdicts(
            "window_completeness",
            citing(UtteranceVerdict, len(sentences)),
            window.ref,
            {"summary": _numbered(sentences)},
            ("utterances", _labelled("U", turn_lines(utterances))),
            tokens=120,
        )
        return None if verdicts is None else [verdict.cited for verdict in verdicts]

    async def gaps(
        self, window: Window, sentences: Sequence[str], gaps: Sequence[Resolvable]
    ) -> list[frozenset[int]] | None:
        """The sentences that state the resolution of each gap (figures 7 and 8)."""
        if not sentences or not gaps:
            return [frozenset()] * len(gaps)
        verdicts = await self._verdicts(
            "gap_resolution",
            citing(Expressed, len(sentences)),
            window.ref,
            {"summary": _numbered(sentences)},
            ("cases", _labelled("G", [_case(window, *gap) for gap in gaps])),
            tokens=200,
        )
        return None if verdicts is None else [verdict.cited for verdict in verdicts]

    async def facts(self, ref: WindowRef, sentences: Sequence[str]) -> list[list[str]] | None:
        """The atomic facts of each sentence (figure 9)."""
        found: list[list[str]] = []
        labels = [f"S{index}" for index in range(len(sentences))]
        for asked in _batches(labels):
            prompt = question(
                "atomic_facts",
                {"summary": _numbered(sentences, "S")},
                model=self.model.name,
                subject=ref,
                max_tokens=_ROOM + 200 * len(asked),
                asked=", ".join(asked),
            )
            answer = (await self.model.ask(prompt, facts_of(tuple(asked)))).value
            if answer is None:
                return None
            found += [[fact.strip() for fact in getattr(answer, id_) if fact.strip()] for id_ in asked]
        return found

    async def categories(
        self, ref: WindowRef, sources: Mapping[str, Sequence[str]], facts: Sequence[str]
    ) -> list[str] | None:
        """The kind of error of each fact given the sources; "no error" if they support it (figure 10)."""
        verdicts = await self._verdicts(
            "faithfulness", FactVerdict, ref, sources, ("facts", _labelled("F", facts)), tokens=100
        )
        return None if verdicts is None else [verdict.category for verdict in verdicts]

    async def _verdicts(
        self,
        name: str,
        verdict: type[V],
        ref: WindowRef,
        parts: Mapping[str, Sequence[str]],
        items: tuple[str, Mapping[str, str]],
        *,
        tokens: int,
    ) -> list[V] | None:
        """A verdict for every item, or None if one of the answers is missing."""
        part, lines = items
        found: list[V] = []
        for ids in _batches(list(lines)):
            prompt = question(
                name,
                {**parts, part: [lines[id_] for id_ in ids]},
                model=self.model.name,
                subject=ref,
                max_tokens=_ROOM + tokens * len(ids),
            )
            answer = (await self.model.ask(prompt, keyed(verdict, tuple(ids)))).value
            if answer is None:
                return None
            found += [getattr(answer, id_) for id_ in ids]
        return found


def _case(window: Window, gap: GapRow, evidence: Sequence[Turn]) -> str:
    """A gap with its utterance and the messages that resolve it."""
    turn = next((turn for turn in window.turns if turn.id == gap.utterance), None)
    said = gap.quote if turn is None else turn_lines([turn])[0]
    earlier = "\n".join(turn_lines(evidence))
    case = f"{gap.type} gap in: {said}\nopen: {gap.quote}\nresolving messages:\n{earlier}"
    return f"{case}\nwhat they settle: {gap.resolution}" if gap.resolution else case


def _numbered(sentences: Sequence[str], letter: str = "") -> list[str]:
    return [f"[{letter}{index}] {indented(sentence)}" for index, sentence in enumerate(sentences)]


def _labelled(letter: str, texts: Sequence[str]) -> dict[str, str]:
    """The lines of items by their ids."""
    return {f"{letter}{index}": f"[{letter}{index}] {indented(text)}" for index, text in enumerate(texts)}


def _batches(items: Sequence[X]) -> Iterator[list[X]]:
    rest = iter(items)
    while batch := list(islice(rest, _AT_ONCE)):
        yield batch
