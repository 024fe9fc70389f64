"""What a classifier knows of a message: its words and cues, and those of the messages around it.

Features have names. Words and cues are present or absent; figures (lengths, distances, likeness) are
split at thresholds that training has chosen, so a linear model can weigh them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations
from math import fsum, log

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.acts.reading import ReadMessage, ReadSentence

__all__ = ["Neighbourhood", "sentence_features"]

_AHEAD, _BACK, _FAR = 60, 15, 200  # messages
_SOON, _CALLED = 8, 30
_REACTIONS = frozenset({"thanks", "approves", "accepts"})
_LEADS = ("proposes", "groups", "keeps", "approves", "chairs", "commands", "concludes")
_AROUND = (
    *("asks", "requests", "commits", "offers", "proposes", "approves", "accepts", "thanks", "done"),
    *("decides", "groups", "social"),
)


def sentence_features(sentence: ReadSentence) -> set[str]:
    """The words of a sentence with runs of two and three, its cues, and the pairs of them."""
    tokens = ("^", *sentence.words, "$")
    found = {
        "w:" + " ".join(tokens[start : start + size])
        for size in (1, 2, 3)
        for start in range(len(tokens) - size + 1)
    }
    found.update(f"c:{cue}" for cue in sentence.cues)
    found.update(f"c:{one}&{two}" for one, two in combinations(sorted(sentence.cues), 2))
    return found


class Neighbourhood:
    """Consecutive messages of a channel, as features of each.

    Args:
        messages: the messages, in order.
        vectors: their embeddings, `[messages, dimensions]` of length 1; None if there are none.
    """

    def __init__(self, messages: Sequence[ReadMessage], vectors: NDArray[np.float32] | None = None) -> None:
        self.messages = messages
        self.vectors = vectors
        self.authors = [message.turn.author.id for message in messages]
        self.written = Counter(self.authors)
        self.replies = dict[str, list[int]]()
        for place, message in enumerate(messages):
            for answered in {message.turn.reply_to, message.turn.thread} - {None, message.turn.id}:
                self.replies.setdefault(str(answered), []).append(place)
        self.leads = Counter[str]()
        for message in messages:
            self.leads[message.turn.author.id] += sum(cue in message.cues for cue in _LEADS)

    @cached_property
    def rarity(self) -> Mapping[str, float]:
        """The logarithm of how many messages there are for each that has a stem."""
        count = Counter(stem for message in self.messages for stem in message.stems)
        return {stem: log(len(self.messages) / many) for stem, many in count.items()}

    def others(self, place: int, step: int, within: int = _SOON) -> list[int]:
        """The places of the nearest messages by others, before (`step` -1) or after (1)."""
        end = min(len(self.messages), place + within + 1) if step > 0 else max(-1, place - within - 1)
        return [one for one in range(place + step, end, step) if self.authors[one] != self.authors[place]]

    def shared(self, one: int, other: int) -> float:
        """The rarity of the stems that two messages share."""
        return fsum(self.rarity[stem] for stem in self.messages[one].stems & self.messages[other].stems)

    def figures(self, place: int) -> dict[str, float]:
        """The figures of a message; those that need vectors are absent without them."""
        found = {**self._form(place), **self._position(place), **self._echo(place), **self._likeness(place)}
        return {name: float(figure) for name, figure in found.items()}

    def _form(self, place: int) -> dict[str, float]:
        """What the message looks like."""
        message = self.messages[place]
        text, sentences = message.turn.text, message.sentences
        return {
            "characters": log(1 + len(text)),
            "content": log(1 + len(message.analysed.content)),
            "salience": message.analysed.salience,
            "link": "://" in text,
            "code": "`" in text,
            "number": any("NUM" in sentence.words for sentence in sentences),
            "question at end": bool(sentences) and sentences[-1].asks,
            "questions": sum(sentence.asks for sentence in sentences),
        }

    def _position(self, place: int) -> dict[str, float]:
        """Who wrote it, and where it stands among the others."""
        me, last, after = self.authors[place], len(self.messages) - 1, self.others(place, 1)
        next_voice = after[0] if after else None
        return {
            "two people": len(self.written) == 2,
            "share": self.written[me] / len(self.messages),
            "leads": self.leads[me] / max(3, self.written[me]),
            "share of leads": self.leads[me] / max(1, sum(self.leads.values())),
            "continues": place > 0 and self.authors[place - 1] == me,
            "is continued": place < last and self.authors[place + 1] == me,
            "silence before": self._silence(place - 1, place),
            "silence after": self._silence(place, place + 1),
            "silence of others": self._silence(place, next_voice),
            "distance of others": _SOON + 4 if next_voice is None else next_voice - place,
            "is reply": self.messages[place].turn.reply_to is not None,
            "to come": log(1 + last - place),
        }

    def _echo(self, place: int) -> dict[str, float]:
        """What it led to, and what it takes up."""
        message, me = self.messages[place], self.authors[place]
        after, before = self.others(place, 1), self.others(place, -1)
        ahead = range(place + 1, min(len(self.messages), place + _FAR))
        mine = [one for one in ahead if self.authors[one] == me]
        soon = [self.messages[one].cues for one in mine if one < place + _SOON]
        others = [one for one in ahead if self.authors[one] != me and one < place + _AHEAD]
        first_name = (message.turn.author.name.lower().split() or [""])[0]
        called = [one for one in others if one <= place + _CALLED and len(first_name) > 2]
        return {
            "calls back": sum(first_name in self.messages[one].turn.text.lower() for one in called),
            "replies": len(self.replies.get(message.turn.id, ())),
            "done later": max(
                (self.shared(place, one) for one in mine if "done" in self.messages[one].cues), default=0.0
            ),
            "taken up": max((self.shared(place, one) for one in others), default=0.0),
            "taken up next": self.shared(place, after[0]) if after else 0.0,
            "takes up": self.shared(place, before[0]) if before else 0.0,
            "asks again": any("asks" in cues for cues in soon),
            "thanks later": any("thanks" in cues for cues in soon),
            "reactions": sum(bool(_REACTIONS & self.messages[one].cues) for one in after[:3]),
            "voices": len({self.authors[one] for one in after[:5]}),
        }

    def _likeness(self, place: int) -> dict[str, float]:
        """How alike it is to those around it; empty without vectors."""
        if self.vectors is None:
            return {}
        after = self.others(place, 1)
        near = [one for one in range(max(0, place - _SOON), place + _SOON + 1) if one != place]
        near = [one for one in near if one < len(self.messages)]
        start = max(0, place - _BACK)
        like = self.vectors[start : place + _AHEAD] @ self.vectors[place]

        def most(begin: int, end: int, *, others: bool = True) -> float:
            places = [
                one
                for one in range(max(0, begin), min(len(self.messages), end))
                if one != place and not (others and self.authors[one] == self.authors[place])
            ]
            return max((float(like[one - start]) for one in places), default=0.0)

        return {
            "like next": most(after[0], after[0] + 1) if after else 0.0,
            "like soon": most(place + 1, place + 16),
            "like later": most(place + 1, place + _AHEAD),
            "like before": most(place - _BACK, place),
            "like own": most(place + 1, place + _SOON, others=False),
            "central": sum(float(like[one - start]) for one in near) / len(near) if near else 0.0,
        }

    def cues_around(self, place: int) -> set[str]:
        """The cues of the nearest messages by others, before and after."""
        found = set[str]()
        for side, places in (("before", self.others(place, -1)), ("after", self.others(place, 1))):
            if places:
                found.update(f"{side}:{cue}" for cue in _AROUND if cue in self.messages[places[0]].cues)
        return found

    def _silence(self, one: int, other: int | None) -> float:
        if other is None or not (0 <= one < len(self.messages) and 0 <= other < len(self.messages)):
            return 14.0
        return log(1 + max(0.0, (self.messages[other].turn.ts - self.messages[one].turn.ts).total_seconds()))
