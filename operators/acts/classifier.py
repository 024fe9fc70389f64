"""What messages do: the probability of each kind of act, and the answers to questions.

The models are in `acts.json`, made by `training.acts.train`: for each kind a linear model over the words,
cues and figures of a message and of those around it, with a second variant for channels without
vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import orjson
from numpy.typing import NDArray

from backscroll.operators.acts.answers import Answer, answers_to, is_question
from backscroll.operators.acts.features import Neighbourhood, sentence_features
from backscroll.operators.acts.linear import LinearModel
from backscroll.operators.acts.reading import ReadMessage

__all__ = ["KINDS", "WEIGHTS", "ActKind", "ActModel", "Acts", "find_acts", "present"]

WEIGHTS = Path(__file__).with_name("acts.json")
ActKind: TypeAlias = Literal["decision", "action", "question", "point"]
KINDS: tuple[ActKind, ...] = get_args(ActKind)


@dataclass(frozen=True, eq=False)
class ActModel:
    """The models of one variant.

    Attributes:
        kinds: for each kind the model of its probability. A `decision` binds what happens next, an
            `action` is a task that somebody has taken and not finished, a `question` is still open, and a
            `point` is worth telling somebody who was away.
        answer: the model for pairs of a question and a later message.
        thresholds: where each figure of a message is split.
    """

    kinds: Mapping[ActKind, LinearModel]
    answer: LinearModel
    thresholds: Mapping[str, Sequence[float]]

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> ActModel:
        """Read the JSON of one variant."""
        kinds = {kind: LinearModel.from_json(row["kinds"][kind]) for kind in KINDS}
        return cls(kinds, LinearModel.from_json(row["answer"]), row["thresholds"])

    def to_json(self) -> dict[str, Any]:
        """The variant as JSON fields."""
        return {
            "kinds": {kind: model.to_json() for kind, model in self.kinds.items()},
            "answer": self.answer.to_json(),
            "thresholds": {name: list(at) for name, at in self.thresholds.items()},
        }

    @classmethod
    @cache
    def shipped(cls, *, vectors: bool) -> ActModel:
        """The packaged models, for messages with or without vectors of the packaged embedding model."""
        return cls.read(WEIGHTS, vectors=vectors)

    @classmethod
    def read(cls, path: Path, *, vectors: bool) -> ActModel:
        """The models in a file."""
        return cls.from_json(orjson.loads(path.read_bytes())["vectors" if vectors else "words"])


@dataclass(frozen=True, eq=False)
class Acts:
    """What a message does.

    Attributes:
        message: the message as read.
        probabilities: of each kind that was looked for.
        answers: the messages of others that may answer it, likeliest first; empty unless it may ask.
        weight: for each of these kinds and each sentence of the message, how much the sentence speaks for it.
    """

    message: ReadMessage
    probabilities: Mapping[ActKind, float]
    answers: tuple[Answer, ...]
    weight: Mapping[ActKind, tuple[float, ...]]

    def answered(self, least: float) -> bool:
        """Whether a message answers it with at least this probability."""
        return bool(self.answers) and self.answers[0].probability >= least

    def best_sentence(self, kind: ActKind) -> int:
        """The index of the sentence that speaks most for a kind, rather not a greeting."""
        weights, sentences = self.weight[kind], self.message.sentences

        def speaks(index: int) -> tuple[bool, float, int]:
            return not {"social", "thanks"} & sentences[index].cues, weights[index], -index

        return max(range(len(weights)), key=speaks, default=0)


def present(
    around: Neighbourhood, place: int, figures: Mapping[str, float], thresholds: Mapping[str, Sequence[float]]
) -> tuple[list[set[str]], set[str]]:
    """The features of each sentence of a message, and those of the message as a whole."""
    whole = {
        f"f:{name}>{step}"
        for name, figure in figures.items()
        for step, at in enumerate(thresholds.get(name, ()))
        if figure > at
    }
    sentences = [sentence_features(sentence) for sentence in around.messages[place].sentences]
    return sentences, whole | around.cues_around(place)


def find_acts(
    messages: Sequence[ReadMessage],
    vectors: NDArray[np.float32] | None = None,
    model: ActModel | None = None,
    kinds: Iterable[ActKind] = KINDS,
) -> list[Acts]:
    """What each of some consecutive messages does.

    Args:
        messages: the messages, in order.
        vectors: their embeddings by the packaged model, `[messages, dimensions]`; None if there are none.
        model: the models; the packaged ones by default.
        kinds: the kinds to look for.
    """
    model = model or ActModel.shipped(vectors=vectors is not None)
    around, models = Neighbourhood(messages, vectors), {kind: model.kinds[kind] for kind in kinds}
    found = []
    for place, message in enumerate(messages):
        asking = is_question(around, place)
        answers = answers_to(around, place, model.answer) if asking else []
        answered = answers[0].probability if answers else 0.0
        figures = around.figures(place) | {"answered": answered}
        sentences, whole = present(around, place, figures, model.thresholds)
        features = whole.union(*sentences)
        vector = None if vectors is None else vectors[place]
        found.append(
            Acts(
                message,
                {
                    kind: one.probability(one.total(features), vector)
                    if asking or kind != "question"
                    else 0.0
                    for kind, one in models.items()
                },
                tuple(answers),
                {kind: tuple(map(one.total, sentences)) for kind, one in models.items()},
            )
        )
    return found
