"""Annotate the gaps of a window with a panel of language models, in five stages.

This follows the construction of ReMEMBER (section 3.2, appendix A.3). The majority decides at every stage:

    salience    which utterances a summary must mention
    dependence  which of them need earlier dialogue, and the type of the gap (asked together with salience)
    screening   which passages of the history may matter for this window
    evidence    which of their messages state what an utterance leaves open
    validation  which evidence is sufficient, explicit, makes the utterance stand alone, and is new

Each stage handles only what the earlier stages kept. Unlike in the paper, the unit is a message, not a
sentence, so evidence consists of ids. An answer about a message that does not exist, or with a wrong
quote, does not count as a vote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

from backscroll.benchmarks.construction.panel import Panel, together
from backscroll.benchmarks.construction.prompts import (
    MOST_TOGETHER,
    AuditedEvidence,
    GapType,
    JudgedUtterances,
    LabelledPassages,
    Target,
    ValidatedCandidate,
    ValidatedCandidates,
    evidence_prompt,
    passages_prompt,
    utterances_prompt,
    validation_prompt,
)
from backscroll.operators.gaps.guards import find_quote
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import Window

__all__ = ["STAGES", "AnnotatedGap", "AnnotatedWindow", "Rejected", "Stage", "annotate", "passage_batches"]

X = TypeVar("X")
Stage = Literal["salience", "dependence", "screening", "evidence", "validation"]
STAGES: tuple[Stage, ...] = get_args(Stage)

PASSAGE_TOKENS = 256
BATCH_TOKENS = 4096  # of history per question
# The four criteria in the order of the paper, by the reason for evidence that fails one.
_CRITERIA: Mapping[str, Callable[[ValidatedCandidate], bool]] = {
    "insufficient": lambda verdict: verdict.sufficient,
    "inferential": lambda verdict: verdict.explicit,
    "not_standalone": lambda verdict: verdict.standalone,
    "redundant": lambda verdict: verdict.new,
}
_Alternative = tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A rejected gap or evidence, and the reason; `votes` are by annotator."""

    stage: Stage
    reason: str
    turn: Turn | None
    quote: str = ""
    type: GapType | None = None
    evidence: _Alternative | None = None
    votes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnnotatedGap:
    """A gap, the alternative sets of messages that resolve it, and what they state."""

    target: Target
    evidence: tuple[_Alternative, ...]
    resolution: str


@dataclass(slots=True)
class AnnotatedWindow:
    """What the panel found in a window, and its votes (labels of items by stage)."""

    window: Window
    salient: list[Turn] = field(default_factory=list)
    gaps: list[AnnotatedGap] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    labels: list[tuple[Stage, list[Hashable]]] = field(default_factory=list)

    def reject(self, stage: Stage, reason: str, target: Target, **more: object) -> None:
        """Reject a gap at a stage or, with `evidence`, one of its alternatives."""
        row = Rejected(stage, reason, target.turn, target.quote, target.type, **more)  # type: ignore[arg-type]
        self.rejected.append(row)


async def annotate(panel: Panel, window: Window, history: Sequence[Window]) -> AnnotatedWindow:
    """Run the five stages for a window; `history` are the windows before it.

    Raises:
        WorkStopped: an annotator failed, or the work was stopped.
    """
    found = AnnotatedWindow(window)
    targets = await _utterances(panel, found)
    if not targets:
        return found
    kept = await _screened(panel, found, history)
    for target in targets if not kept else ():
        found.reject("screening", "no_passage", target)
    # Each gap has its own rows, so that their order does not depend on which model answers first.
    resolved = await together(_resolved(panel, window, target, kept) for target in targets if kept)
    for part in resolved:
        found.gaps += part.gaps
        found.rejected += part.rejected
        found.labels += part.labels
    return found


def batches(items: Iterable[X], tokens: Callable[[X], int], most: int) -> list[list[X]]:
    """Group items in order, at most `most` tokens per group; a larger item is a group of its own."""
    groups, size = list[list[X]](), 0
    for item in items:
        if not groups or size + tokens(item) > most:
            groups.append([])
            size = 0
        groups[-1].append(item)
        size += tokens(item)
    return groups


def passages(history: Iterable[Window]) -> list[list[Turn]]:
    """The passages for screening: consecutive turns of a window, up to 256 tokens or a single turn."""
    return [
        turns
        for window in history
        for turns in batches(window.turns, lambda turn: turn.tokens, PASSAGE_TOKENS)
    ]


def passage_batches(history: Iterable[Window]) -> list[list[list[Turn]]]:
    """The passages of a history, grouped into questions."""
    return batches(passages(history), lambda turns: sum(turn.tokens for turn in turns), BATCH_TOKENS)


async def _utterances(panel: Panel, found: AnnotatedWindow) -> list[Target]:
    """Stages 1 and 2: the utterances for which a majority finds a gap of the same type."""
    turns = found.window.turns
    answers = await panel.ask(utterances_prompt(found.window), JudgedUtterances)
    judged = [_Judged(turns, answer) for answer in answers]
    for annotator, one in zip(panel.annotators, judged, strict=True):
        for quote in one.unknown_quotes:
            by = {annotator.name: "unknown_quote"}
            found.rejected.append(Rejected("dependence", "unknown_quote", None, quote, votes=by))
    heard = [one for one, answer in zip(judged, answers, strict=True) if answer is not None]
    targets = []
    for place, turn in enumerate(turns):
        found.labels.append(("salience", [place in one.labels for one in heard]))
        if not any(place in one.labels for one in judged):
            continue
        labels = [one.labels.get(place) for one in judged]
        counts = Counter(label for label in labels if label is not None)
        votes = panel.named(labels)
        if counts.total() < panel.majority:
            found.rejected.append(Rejected("salience", "no_majority", turn, votes=votes))
            continue
        found.salient.append(turn)
        found.labels.append(("dependence", [label for label in labels if label is not None]))
        gap_types = [type_ for type_ in get_args(GapType) if counts[type_] >= panel.majority]
        if gap_types:
            targets.append(next(one.gaps[place] for one in judged if one.labels.get(place) == gap_types[0]))
            continue
        needing = counts.total() - counts["none"]
        none = counts["none"] >= panel.majority
        reason = "self_contained" if none else "types_differ" if needing >= panel.majority else "no_majority"
        found.rejected.append(Rejected("dependence", reason, turn, votes=votes))
    return targets


class _Judged:
    """An annotator's answer about a window: labels of salient turns and gaps, by position."""

    def __init__(self, turns: Sequence[Turn], answer: JudgedUtterances | None) -> None:
        self.labels = dict[int, GapType | Literal["none"]]()
        self.gaps = dict[int, Target]()
        self.unknown_quotes = list[str]()
        for entry in answer.utterances if answer else ():
            places = [place for place in entry.messages if 0 <= place < len(turns)]
            for place in places:
                self.labels.setdefault(place, "none")
            if entry.type == "none":
                continue
            quoted = _quoted(entry.quote, turns, places)
            if quoted is None:
                self.unknown_quotes.append(entry.quote)
            elif quoted[0] not in self.gaps:  # one gap per utterance; the first is the most severe
                place, quote = quoted
                self.labels[place] = entry.type
                reason = " ".join(entry.reason.split())
                self.gaps[place] = Target(turns[place], quote, entry.type, reason)


def _quoted(quote: str, turns: Sequence[Turn], places: Sequence[int]) -> tuple[int, str] | None:
    """Find a quote, preferably in one of the named messages, as models miscount."""
    for place in places:
        if found := find_quote(quote, turns[place : place + 1], 0):
            return place, found[1]
    return find_quote(quote, turns, -1)


async def _screened(panel: Panel, found: AnnotatedWindow, history: Sequence[Window]) -> list[Turn]:
    """Stage 3: the turns of the passages that a majority finds needed."""

    async def screen(group: list[list[Turn]]) -> list[list[Hashable]]:
        answers = await panel.ask(passages_prompt(found.window, group), LabelledPassages)
        needed = [
            {label.passage for label in answer.passages if label.needed} for answer in answers if answer
        ]
        return [[number in one for one in needed] for number in range(len(group))]

    groups = passage_batches(history)
    kept = list[Turn]()
    for group, labels in zip(groups, await together(map(screen, groups)), strict=True):
        for turns, votes in zip(group, labels, strict=True):
            found.labels.append(("screening", votes))
            if sum(map(bool, votes)) >= panel.majority:
                kept += turns
    return kept


async def _resolved(panel: Panel, window: Window, target: Target, kept: Sequence[Turn]) -> AnnotatedWindow:
    """Stages 4 and 5 for one gap."""
    found = AnnotatedWindow(window)
    candidates = await _evidence(panel, found, target, kept)
    if not candidates:
        return found
    answers = await panel.ask(validation_prompt(window, target, candidates), ValidatedCandidates)
    failures = [[_failed(answer, number) for answer in answers] for number in range(len(candidates))]
    accepted, reasons = list[tuple[_Alternative, str]](), list[str]()
    for (turns, resolution), failed in zip(candidates, failures, strict=True):
        heard = [not one for one, answer in zip(failed, answers, strict=True) if answer]
        found.labels.append(("validation", list(heard)))
        if sum(heard) >= panel.majority:
            accepted.append((turns, resolution))
            continue
        counts = Counter(reason for one in failed for reason in one)
        reasons.append(next((name for name in _CRITERIA if counts[name] >= panel.majority), "no_majority"))
        votes = panel.named(failed)
        found.reject("validation", reasons[-1], target, evidence=turns, votes=votes)
    if accepted:
        nearest = accepted[-1][1]  # if a state changes, the latest statement counts
        found.gaps.append(AnnotatedGap(target, tuple(turns for turns, _ in accepted), nearest))
    else:
        found.reject("validation", Counter(reasons).most_common(1)[0][0], target)
    return found


async def _evidence(
    panel: Panel, found: AnnotatedWindow, target: Target, kept: Sequence[Turn]
) -> list[tuple[_Alternative, str]]:
    """Stage 4: the alternatives that a majority finds, each with its resolution, in order of time."""

    async def audit(turns: list[Turn]) -> list[AuditedEvidence | None]:
        return await panel.ask(evidence_prompt(found.window, target, turns), AuditedEvidence)

    groups = batches(kept, lambda turn: turn.tokens, BATCH_TOKENS)
    said: list[dict[_Alternative, str]] = [{} for _ in panel.annotators]
    for turns, answers in zip(groups, await together(map(audit, groups)), strict=True):
        named = list[set[int]]()
        for annotator, stated, answer in zip(panel.annotators, said, answers, strict=True):
            resolving, dropped = _resolving(turns, answer)
            stated.update(resolving)
            for reason in dropped:
                found.reject("evidence", reason, target, evidence=(), votes={annotator.name: reason})
            if answer is not None:
                named.append({turn.seq for alternative in resolving for turn in alternative})
        found.labels += [("evidence", [turn.seq in one for one in named]) for turn in turns]
    agreed, lone = _agreed(said, panel.majority)
    for alternative in lone:
        votes = panel.named(_covers(stated, alternative) is not None for stated in said)
        found.reject("evidence", "no_majority", target, evidence=alternative, votes=votes)
    if not agreed:
        found.reject("evidence", "no_majority" if lone else "unresolved", target)
    return agreed


def _resolving(
    turns: Sequence[Turn], answer: AuditedEvidence | None
) -> tuple[dict[_Alternative, str], list[str]]:
    """The valid alternatives in an answer with their resolutions, and why the others were dropped."""
    resolving, dropped = dict[_Alternative, str](), list[str]()
    for entry in answer.evidence if answer else ():
        places = sorted(set(entry.messages))
        resolution = " ".join(entry.resolution.split())
        if not entry.resolves:
            continue
        if not places or not all(0 <= place < len(turns) for place in places):
            dropped.append("unknown_message")
        elif len(places) > MOST_TOGETHER:
            dropped.append("too_many_messages")
        elif not any(map(str.isalnum, resolution)):
            dropped.append("no_resolution")
        else:
            resolving.setdefault(tuple(turns[place] for place in places), resolution)
    return resolving, dropped


def _agreed(
    said: Sequence[Mapping[_Alternative, str]], majority: int
) -> tuple[list[tuple[_Alternative, str]], list[_Alternative]]:
    """The smallest alternatives that a majority supports, and the alternatives without a majority.

    An annotator who finds one message sufficient also supports every set that contains it.
    """
    named = sorted({turns for stated in said for turns in stated}, key=lambda turns: [t.seq for t in turns])
    support = {turns: [found for stated in said if (found := _covers(stated, turns))] for turns in named}
    agreed = [turns for turns in named if len(support[turns]) >= majority]
    smallest = [turns for turns in agreed if not any(set(other) < set(turns) for other in agreed)]
    lone = [turns for turns in named if turns not in agreed]
    return [(turns, support[turns][0]) for turns in smallest], lone


def _covers(stated: Mapping[_Alternative, str], turns: _Alternative) -> str | None:
    """The resolution that an annotator gave for a subset of these turns, or None."""
    return next((resolution for part, resolution in stated.items() if set(part) <= set(turns)), None)


def _failed(answer: ValidatedCandidates | None, number: int) -> list[str]:
    """The criteria that a candidate fails according to an answer."""
    verdict = next((one for one in answer.candidates if one.candidate == number), None) if answer else None
    if verdict is None:
        return ["not_judged"]
    return [name for name, holds in _CRITERIA.items() if not holds(verdict)]
