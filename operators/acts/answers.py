"""Which messages answer a question: replies, and what others say soon after.

In a chat few answers are marked. A linear model weighs who speaks next and how soon, whom they address,
what their message shares with the question, and whether the asker gives thanks for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import log

from backscroll.operators.acts.features import Neighbourhood
from backscroll.operators.acts.linear import LinearModel

__all__ = ["Answer", "answer_figures", "answers_to", "candidates", "is_question"]

_AHEAD = 24  # messages
_QUESTION = frozenset({"asks", "wonders", "who", "whether"})


@dataclass(frozen=True, slots=True)
class Answer:
    """The place of a message, and the probability that it answers a question."""

    place: int
    probability: float


def is_question(around: Neighbourhood, place: int) -> bool:
    """Whether a message may ask for something."""
    return bool(_QUESTION & around.messages[place].cues) and not around.messages[place].turn.author.bot


def candidates(around: Neighbourhood, question: int) -> list[int]:
    """The places of messages that may answer a question: those of other people soon after it, and replies."""
    asked = around.messages[question].turn
    soon = range(question + 1, min(len(around.messages), question + _AHEAD + 1))
    places = {*soon, *(place for place in around.replies.get(asked.id, ()) if place > question)}
    return [
        place
        for place in sorted(places)
        if around.authors[place] != around.authors[question] and not around.messages[place].turn.author.bot
    ]


def answers_to(around: Neighbourhood, question: int, model: LinearModel) -> list[Answer]:
    """The messages that may answer a question, likeliest first."""
    found = [
        Answer(place, model.probability(model.weighed(answer_figures(around, question, place))))
        for place in candidates(around, question)
    ]
    return sorted(found, key=lambda answer: (-answer.probability, answer.place))


def answer_figures(around: Neighbourhood, question: int, place: int) -> dict[str, float]:
    """What a message has to do with an earlier question by somebody else."""
    asked, said = around.messages[question], around.messages[place]
    between = [one for one in range(question + 1, place) if around.authors[one] != around.authors[question]]
    soon = range(place + 1, min(len(around.messages), place + 5))
    asker = next((one for one in soon if around.authors[one] == around.authors[question]), None)
    after = around.messages[asker].cues if asker is not None else frozenset()
    names_asker = _names(said.turn.text, asked.turn.author.name)
    asked_them = _names(asked.turn.text, said.turn.author.name)
    first_words = all(around.authors[one] != around.authors[place] for one in between)
    found = {
        "others between": log(1 + len(between)),
        "messages between": log(place - question),
        "seconds": min(log(1 + max(0.0, (said.turn.ts - asked.turn.ts).total_seconds())), 14.0),
        "reply": _replies(around, place, asked.turn.id),
        "names asker": names_asker,
        "was asked": asked_them,
        "was asked, first words": asked_them and first_words,
        "addresses another": not names_asker and ("calls" in said.cues or "@" in said.turn.text),
        "asks": said.asks,
        "asker went on": place - question - 1 - len(between),
        "characters": log(1 + len(said.turn.text)),
        "thanks": "thanks" in said.cues,
        "social": "social" in said.cues,
        "explains": "findings" in said.cues,
        "code": "`" in said.turn.text,
        "assents": "accepts" in said.cues and "whether" in asked.cues,
        "asker thanks": bool({"thanks", "accepts"} & after),
        "asker asks": "asks" in after,
        "shared": min(around.shared(question, place), 12.0),
        "other questions": sum(around.messages[one].asks for one in between[:3]),
        "continues": around.authors[place - 1] == around.authors[place],
        "same voice": bool(between) and {around.authors[one] for one in between} == {around.authors[place]},
        "two people": len(around.written) == 2,
    }
    if around.vectors is not None:
        found["alike"] = float(around.vectors[question] @ around.vectors[place])
    return {name: float(figure) for name, figure in found.items()}


def _replies(around: Neighbourhood, place: int, question: str) -> bool:
    turn = around.messages[place].turn
    return question in (turn.reply_to, turn.thread)


def _names(text: str, name: str) -> bool:
    called = name.split(maxsplit=1)[0].lower() if name.split() else ""
    return len(called) > 2 and re.search(rf"(?<!\w){re.escape(called)}(?!\w)", text.lower()) is not None
