"""Annotated absences as examples: every message with its features and labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from backscroll.benchmarks.absences.annotations import Absence, read_absences
from backscroll.benchmarks.data.dialogues import read_messages
from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.operators.acts.answers import answer_figures, candidates, is_question
from backscroll.operators.acts.classifier import ActKind
from backscroll.operators.acts.features import Neighbourhood
from backscroll.operators.acts.reading import read_messages as read_acts
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.history.offline import OfflineChannel
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.language.salience import analyse_turns
from backscroll.operators.messages import Message, MessageError, Turn

__all__ = ["BEFORE", "AnnotatedTurns", "Pairs", "read_annotated"]

BEFORE = 12  # messages before an absence that are read with it
Labels: TypeAlias = dict[ActKind, bool]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Questions with each message that may answer them: figures, and whether it does."""

    rows: list[dict[str, float]] = field(default_factory=list)
    labels: list[bool] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class AnnotatedTurns:
    """The messages of an absence, and the few before it, with and without vectors.

    `first` is the place of the first message of the absence; labels and examples are of it and those after.
    """

    absence: Absence
    first: int
    neighbourhoods: dict[bool, Neighbourhood]
    vectors: NDArray[np.float32]

    @property
    def places(self) -> range:
        """The places of the absence's messages."""
        return range(self.first, len(self.neighbourhoods[False].messages))

    def labels(self, place: int) -> Labels:
        """What the annotation says of a message."""
        id_, absence = self.neighbourhoods[False].messages[place].turn.id, self.absence
        return {
            "decision": any(id_ in ids for ids in absence.decisions),
            "action": any(action.open and id_ in action.ids for action in absence.actions),
            "question": any(
                question.id == id_ and question.state == "open" for question in absence.questions
            ),
            "point": any(id_ in point.ids for point in absence.points),
        }

    def pairs(self, *, vectors: bool) -> Pairs:
        """The questions of the absence that wait for an answer or got one, with what may answer them."""
        around, found = self.neighbourhoods[vectors], Pairs()
        asked = {
            question.id: question for question in self.absence.questions if question.state != "rhetorical"
        }
        for place in self.places:
            question = asked.get(around.messages[place].turn.id)
            if question is None:
                continue
            for other in candidates(around, place):
                found.rows.append(answer_figures(around, place, other))
                found.labels.append(around.messages[other].turn.id in question.answers)
        return found

    def questions(self) -> Iterator[int]:
        """The places of messages that may be questions."""
        return (place for place in self.places if is_question(self.neighbourhoods[False], place))


def read_annotated(
    files: Iterable[Path], folders: Sequence[Path], embedder: Embedder
) -> list[AnnotatedTurns]:
    """Read annotated absences with their dialogues, `NAME.jsonl` in one of the folders.

    Raises:
        BenchmarkError: a file cannot be used, or a dialogue is missing.
    """
    found = []
    for file in files:
        for absence in read_absences(file):
            paths = [path for folder in folders if (path := folder / f"{absence.dialogue}.jsonl").is_file()]
            if not paths:
                raise BenchmarkError(f"{file}: no dialogue {absence.dialogue}.jsonl in the folders given")
            found.append(_annotated(absence, _turns(read_messages(paths[0])[0]), embedder))
    return found


def _turns(messages: Sequence[Message]) -> list[Turn]:
    """The messages as turns of a channel; those that are not admitted are left out."""
    channel = OfflineChannel(Histories(InMemoryStore(), None, Chunker()), messages[0].key)
    for message in messages:
        with suppress(MessageError):
            channel.add(message)
    return [turn for window in channel.windows for turn in window.live.turns]


def _annotated(absence: Absence, turns: Sequence[Turn], embedder: Embedder) -> AnnotatedTurns:
    ids = [turn.id for turn in turns]
    first, last = ids.index(absence.first), ids.index(absence.last)
    names = {turn.author.name for turn in turns[: last + 1]}
    start = max(0, first - BEFORE)
    near = turns[start : last + 1]
    read = read_acts(analyse_turns(near), names)
    vectors = embedder.embed_passages([turn.text for turn in near])
    both = {False: Neighbourhood(read), True: Neighbourhood(read, vectors)}
    return AnnotatedTurns(absence, first - start, both, vectors)
