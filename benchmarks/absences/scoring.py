"""Compare the lines of a catch-up with an annotated absence, by message ids.

A line is right if it cites a message of an item of its kind. An item is found if a line of its kind, or
one under "for me", cites one of its messages. Actions that are done and questions that were answered are
not items, so a line that shows one is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backscroll.benchmarks.absences.annotations import Absence
from backscroll.operators.catchup.digest import SECTIONS, ChannelDigest, DigestItem

__all__ = ["ACTS", "Score", "Share", "score", "total"]

ACTS = ("decisions", "actions", "questions")


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole."""

    part: int = 0
    whole: int = 0

    def __add__(self, other: Share) -> Share:
        return Share(self.part + other.part, self.whole + other.whole)

    @property
    def value(self) -> float | None:
        """The quotient; None if the whole is empty."""
        return self.part / self.whole if self.whole else None


@dataclass(frozen=True, slots=True)
class Score:
    """The figures of one catch-up, or of several added up.

    Args:
        right: right lines of all lines, by section of the catch-up.
        found: items found of all items, by section.
        owners: lines with the right owner, of the lines that cite an open action.
        answered: lines under the open questions that show only answered ones, of all lines there.
        points: the weight of the points that any line cites, of the weight of all.
        ids: for every line, how many messages it cites.
        absences: how many catch-ups these figures are of.
        degraded: how many of them lack the items of a language model because it failed.
    """

    right: Mapping[str, Share]
    found: Mapping[str, Share]
    owners: Share
    answered: Share
    points: Share
    ids: tuple[int, ...]
    absences: int = 1
    degraded: int = 0

    @property
    def most_ids(self) -> int:
        """The most messages that a line cites; 0 if there are no lines."""
        return max(self.ids, default=0)

    @property
    def mean_ids(self) -> float | None:
        """The mean number of messages that a line cites; None if there are no lines."""
        return sum(self.ids) / len(self.ids) if self.ids else None

    def acts(self) -> tuple[Share, Share]:
        """Right lines and items found for decisions, actions and open questions together."""
        return _sum(self.right[name] for name in ACTS), _sum(self.found[name] for name in ACTS)

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON fields."""
        acts = self.acts()
        return {
            "absences": self.absences,
            "degraded": self.degraded,
            "kinds": {
                name: _kind(right, found)
                for name, right, found in (
                    *((name, self.right[name], self.found[name]) for name in SECTIONS),
                    ("acts", *acts),
                )
            },
            "owners": {"right": self.owners.part, "lines": self.owners.whole},
            "answered": {"shown": self.answered.part, "lines": self.answered.whole},
            "points": {
                "found": self.points.part,
                "weight": self.points.whole,
                "share": _rounded(self.points.value),
            },
            "ids_per_line": {"lines": len(self.ids), "mean": _rounded(self.mean_ids), "max": self.most_ids},
        }


def score(absence: Absence, digests: Sequence[ChannelDigest], *, pair: bool) -> Score:
    """The figures of a catch-up.

    Args:
        absence: what the catch-up should say.
        digests: the catch-up.
        pair: whether two people talk alone. Then nearly every message is for the reader, so the lines
            under "for me" are not counted as right or wrong.
    """
    lines = {name: [item for one in digests for item in one.sections.get(name, ())] for name in SECTIONS}
    items = _items(absence)
    right, found = dict[str, Share](), dict[str, Share]()
    for name in SECTIONS:
        hits = sum(any(_ids(line) & item for item in items[name]) for line in lines[name])
        uncounted = pair and name == "for_me"
        right[name] = Share() if uncounted else Share(hits, len(lines[name]))
        cited = _cited((*lines[name], *(lines["for_me"] if name in ACTS else ())))
        found[name] = Share(sum(bool(item & cited) for item in items[name]), len(items[name]))
    shown = _cited(line for name in SECTIONS for line in lines[name])
    return Score(
        right=right,
        found=found,
        owners=_owners(absence, [*lines["actions"], *(x for x in lines["for_me"] if x.for_me == "action")]),
        answered=_answered(absence, lines["questions"]),
        points=Share(
            sum(point.weight for point in absence.points if point.ids & shown),
            sum(point.weight for point in absence.points),
        ),
        ids=tuple(len(_ids(line)) for name in SECTIONS for line in lines[name]),
        degraded=int(any(digest.degraded is not None for digest in digests)),
    )


def total(scores: Sequence[Score]) -> Score:
    """The figures of several catch-ups together."""
    return Score(
        right={name: _sum(one.right[name] for one in scores) for name in SECTIONS},
        found={name: _sum(one.found[name] for one in scores) for name in SECTIONS},
        owners=_sum(one.owners for one in scores),
        answered=_sum(one.answered for one in scores),
        points=_sum(one.points for one in scores),
        ids=tuple(count for one in scores for count in one.ids),
        absences=sum(one.absences for one in scores),
        degraded=sum(one.degraded for one in scores),
    )


def _items(absence: Absence) -> dict[str, list[frozenset[str]]]:
    """What each section should show; the actions of the reader belong under "for me" as well."""
    actions = [action for action in absence.actions if action.open]
    own = [action.ids for action in actions if action.owner == absence.reader]
    return {
        "for_me": [*absence.for_reader, *own],
        "decisions": list(absence.decisions),
        "actions": [action.ids for action in actions],
        "questions": [frozenset({one.id}) for one in absence.questions if one.state == "open"],
        "highlights": [point.ids for point in absence.points],
    }


def _owners(absence: Absence, lines: Iterable[DigestItem]) -> Share:
    cited = [
        (line.owner, [action.owner for action in absence.actions if action.open and action.ids & _ids(line)])
        for line in lines
    ]
    return Share(sum(owner in owners for owner, owners in cited), sum(bool(owners) for _, owners in cited))


def _answered(absence: Absence, lines: Sequence[DigestItem]) -> Share:
    states = {question.id: question.state for question in absence.questions}
    shown = [{states.get(id_) for id_ in _ids(line)} for line in lines]
    return Share(sum("answered" in found and "open" not in found for found in shown), len(lines))


def _ids(line: DigestItem) -> set[str]:
    return {turn.id for turn in line.messages}


def _cited(lines: Iterable[DigestItem]) -> set[str]:
    return {id_ for line in lines for id_ in _ids(line)}


def _sum(shares: Iterable[Share]) -> Share:
    return sum(shares, Share())


def _kind(right: Share, found: Share) -> dict[str, Any]:
    return {
        "right": right.part,
        "lines": right.whole,
        "found": found.part,
        "items": found.whole,
        "precision": _rounded(right.value),
        "recall": _rounded(found.value),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
