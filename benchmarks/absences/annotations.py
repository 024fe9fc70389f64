"""Read annotated absences: what a careful colleague would tell a reader who was away, by message ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from backscroll.benchmarks.data.gaps import BenchmarkError

__all__ = ["Absence", "Action", "Point", "Question", "read_absences"]

Ids = frozenset[str]


@dataclass(frozen=True, slots=True)
class Point:
    """Something the reader should know, with a weight from 1 to 3; any of its messages states it."""

    ids: Ids
    weight: int


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody (`owner`, by author name) has to do, and whether that is still open."""

    ids: Ids
    owner: str
    open: bool


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its state at the end of the absence (open, answered or rhetorical), and its answers."""

    id: str
    state: str
    answers: Ids = frozenset()


@dataclass(frozen=True, slots=True)
class Absence:
    """A run of consecutive messages of a dialogue, from `first` to `last`, that `reader` has missed."""

    name: str
    dialogue: str
    first: str
    last: str
    reader: str
    points: tuple[Point, ...]
    decisions: tuple[Ids, ...]
    actions: tuple[Action, ...]
    questions: tuple[Question, ...]
    for_reader: tuple[Ids, ...]

    @property
    def ids(self) -> Ids:
        """Every message that an annotated item names."""
        items = [point.ids for point in self.points] + [action.ids for action in self.actions]
        return frozenset[str]().union(
            *items, *self.decisions, *self.for_reader, (question.id for question in self.questions)
        )


def read_absences(path: Path) -> tuple[Absence, ...]:
    """Read a file with one annotated absence per line.

    Raises:
        BenchmarkError: the file cannot be read, has no absence, or one of its lines has another layout.
    """
    absences = tuple(_rows(path))
    if not absences:
        raise BenchmarkError(f"{path} contains no absences: expected one per line")
    return absences


def _rows(path: Path) -> Iterator[Absence]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as err:
        raise BenchmarkError(f"{path}: {err.strerror}") from err
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _absence(orjson.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            what = f"no {err}" if isinstance(err, KeyError) else "another layout"
            raise BenchmarkError(f"{path}:{number}: not an annotated absence: {what}") from None


def _absence(row: Mapping[str, Any]) -> Absence:
    return Absence(
        name=str(row["absence"]),
        dialogue=str(row["dialogue"]),
        first=str(row["first_id"]),
        last=str(row["last_id"]),
        reader=str(row["reader"]),
        points=tuple(Point(frozenset(one["ids"]), int(one["weight"])) for one in row["points"]),
        decisions=tuple(frozenset(one["ids"]) for one in row["decisions"]),
        actions=tuple(
            Action(frozenset(one["ids"]), str(one["owner"]), one["state"] == "open") for one in row["actions"]
        ),
        questions=tuple(
            Question(str(one["id"]), str(one["state"]), frozenset(one.get("answers", ())))
            for one in row["questions"]
        ),
        for_reader=tuple(frozenset(one["ids"]) for one in row["for_reader"]),
    )
