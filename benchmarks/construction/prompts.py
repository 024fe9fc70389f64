"""What benchmark construction asks language models: four questions, their schemas and prompts.

Messages, passages and candidates go by numbers that the prompt gives them, never by ids: an id is
text that somebody wrote. All chat, and what models wrote about it, is fenced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from backscroll.operators.llm.prompts import chat_line, fenced, indented, load_prompt
from backscroll.operators.llm.protocol import ModelAnswer, Prompt
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import Window

__all__ = [
    "MOST_TOGETHER",
    "AuditedEvidence",
    "GapType",
    "JudgedUtterances",
    "LabelledPassages",
    "Target",
    "ValidatedCandidates",
    "evidence_prompt",
    "passages_prompt",
    "utterances_prompt",
    "validation_prompt",
]

GapType = Literal["referential", "attribute", "relational"]
MOST_TOGETHER = 3  # messages of one alternative of evidence


@dataclass(frozen=True, slots=True)
class Target:
    """An utterance of a window with its gap: the quote, the type and what is missing."""

    turn: Turn
    quote: str
    type: GapType
    reason: str


class JudgedUtterance(ModelAnswer):
    """Messages that make one salient statement, and the piece that it misses, if any."""

    messages: Annotated[list[int], Field(json_schema_extra={"maxItems": 8})]
    reason: Annotated[str, Field(description="at most 220 characters")]
    type: Literal["none", "referential", "attribute", "relational"]
    quote: str


class JudgedUtterances(ModelAnswer):
    """The salient utterances of a window."""

    utterances: Annotated[list[JudgedUtterance], Field(json_schema_extra={"maxItems": 48})]


class LabelledPassage(ModelAnswer):
    """Whether the window rests on a passage."""

    passage: int
    needed: bool


class LabelledPassages(ModelAnswer):
    """A label for every passage."""

    passages: list[LabelledPassage]


class Evidence(ModelAnswer):
    """Messages that may resolve a gap together, and what they say of it."""

    messages: Annotated[list[int], Field(json_schema_extra={"maxItems": MOST_TOGETHER})]
    finding: Annotated[str, Field(description="at most 220 characters")]
    resolves: bool
    resolution: str


class AuditedEvidence(ModelAnswer):
    """What comes into question as evidence of a gap."""

    evidence: Annotated[list[Evidence], Field(json_schema_extra={"maxItems": 16})]


class ValidatedCandidate(ModelAnswer):
    """Whether evidence passes the four criteria."""

    candidate: int
    finding: str
    sufficient: bool
    explicit: bool
    standalone: bool
    new: bool


class ValidatedCandidates(ModelAnswer):
    """A verdict on every candidate."""

    candidates: list[ValidatedCandidate]


def utterances_prompt(window: Window) -> Prompt:
    """Stages 1 and 2: which utterances are salient, and which of them need earlier dialogue."""
    return _prompt("utterances", window, {"window": _numbered(window.turns)}, max_tokens=4000)


def passages_prompt(window: Window, passages: Sequence[Sequence[Turn]]) -> Prompt:
    """Stage 3: which passages of the history are worth a look."""
    lines = [line for number, turns in enumerate(passages) for line in (f"passage {number}", *_lines(turns))]
    return _prompt(
        "passages",
        window,
        {"passages": lines, "window": _lines(window.turns)},
        recalled=[turn for turns in passages for turn in turns],
        max_tokens=64 + 24 * len(passages),
        count=len(passages),
        last=len(passages) - 1,
    )


def evidence_prompt(window: Window, target: Target, turns: Sequence[Turn]) -> Prompt:
    """Stage 4: which messages of the passages kept state what an utterance misses."""
    parts = {"earlier": _numbered(turns), "window": _lines(window.turns), "utterance": _gap(target)}
    return _prompt("evidence", window, parts, recalled=turns, max_tokens=3000)


def validation_prompt(
    window: Window, target: Target, candidates: Sequence[tuple[Sequence[Turn], str]]
) -> Prompt:
    """Stage 5: which candidates, messages with their resolution, hold."""
    lines = [
        line
        for number, (turns, resolution) in enumerate(candidates)
        for line in (f"candidate {number}", *_lines(turns), f"said to state: {indented(resolution)}")
    ]
    return _prompt(
        "validation",
        window,
        {"window": _lines(window.turns), "utterance": _gap(target), "candidates": lines},
        recalled=[turn for turns, _ in candidates for turn in turns],
        max_tokens=64 + 160 * len(candidates),
        last=len(candidates) - 1,
    )


def _prompt(
    stage: str,
    window: Window,
    parts: Mapping[str, Sequence[str]],
    *,
    max_tokens: int,
    recalled: Sequence[Turn] = (),
    **values: int,
) -> Prompt:
    file = load_prompt(f"construction_{stage}", "backscroll.benchmarks")
    fence, user = fenced(parts)
    return Prompt(
        stage=stage,
        version=file.version,
        model="",  # each annotator puts in its own
        system=file.fill(fence=fence, **values),
        user=user,
        subject=window.ref,
        max_tokens=max_tokens,
        recalled=tuple(turn.seq for turn in recalled),
    )


def _lines(turns: Sequence[Turn]) -> list[str]:
    return [chat_line(turn.ts, turn.author.name, turn.text) for turn in turns]


def _numbered(turns: Sequence[Turn]) -> list[str]:
    return [f"[{number}] {line}" for number, line in enumerate(_lines(turns))]


def _gap(target: Target) -> list[str]:
    return [
        *_lines([target.turn]),
        f"the part that cannot stand alone: {indented(target.quote)}",
        f"the missing piece ({target.type}): {indented(target.reason)}",
    ]
