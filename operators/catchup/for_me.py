"""What concerns the user: questions and requests to them, what they own, answers, mentions and replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import cached_property

from backscroll.operators.acts.classifier import Acts
from backscroll.operators.catchup.act_items import CatchupItem, asked_of, quoted
from backscroll.operators.catchup.context import EarlierMessage
from backscroll.operators.catchup.people import Person
from backscroll.operators.language.phrasebook import PhraseBook
from backscroll.operators.language.sentences import sentences
from backscroll.operators.messages import Turn

__all__ = ["ForMe"]

_ANSWERS_ME = 0.3  # the lowest probability at which a message answers the user
_TELLING = 0.2  # the lowest probability of a point at which talk about the user concerns them
_CONTENT = 2  # words with content


@dataclass(frozen=True)
class ForMe:
    """Tells which messages of a channel concern the user.

    Attributes:
        me: the user.
        acts: what the messages of the period, and the few before it, do.
        known: every message of the channel that is not deleted, by id.
        period: the ids of the messages that a line may cite.
        threads: what replies answer, by the id of the reply.
        alone: whether two people talk alone: then what is said is said to the user anyway.
        zone: the time zone of days such as "tomorrow".
        book: the phrase book of the channel.
    """

    me: Person
    acts: Sequence[Acts]
    known: Mapping[str, Turn]
    period: Set[str]
    threads: Mapping[str, EarlierMessage]
    alone: bool
    zone: tzinfo
    book: PhraseBook

    def item(self, one: Acts, found: CatchupItem | None) -> CatchupItem | None:
        """The item of a message if it concerns the user; questions and actions score higher than the rest.

        Args:
            one: what the message does.
            found: its item, if it decides, asks or takes on a task.
        """
        turn, told = one.message.turn, one.probabilities["point"]
        owns = found is not None and found.kind == "action" and found.owner == self.me.name
        if self.me.wrote(turn.author):
            return replace(found, score=2 + found.score) if owns and found is not None else None
        replies = self._replies(turn)
        names = self.me.is_mentioned(turn.text)
        if owns and found is not None:
            return replace(found, score=3 + found.score)
        if (asked := asked_of(one, self.me, self.zone, self.book)) is not None:
            return replace(asked, score=3 + asked.score)
        if found is not None and found.asks and (names or replies or self.alone):
            return replace(found, kind="question", score=3 + found.score)
        if self.alone or (not replies and self._says_little(one)):
            return None
        if names and found is not None:
            return replace(found, score=1 + found.score)
        if names and ("calls" in one.message.cues or "@" in turn.text or told >= _TELLING):
            return CatchupItem("mention", turn, self._mentioning(turn), 1 + told)
        return self._reply(turn, told) if replies else None

    @cached_property
    def _answered(self) -> Mapping[str, Turn]:
        """The questions of the user, by the ids of the messages that probably answer them."""
        found = dict[str, Turn]()
        for one in self.acts:
            if self.me.wrote(one.message.turn.author):
                for answer in one.answers:
                    if answer.probability >= _ANSWERS_ME:
                        found.setdefault(self.acts[answer.place].message.turn.id, one.message.turn)
        return found

    def _replies(self, turn: Turn) -> bool:
        answered = self.known.get(turn.reply_to or "")
        return turn.id in self._answered or (answered is not None and self.me.wrote(answered.author))

    def _reply(self, turn: Turn, told: float) -> CatchupItem:
        start, end = (sentences(turn.text) or ((0, len(turn.text)),))[0]
        asked = None if turn.id in self.threads else self._answered.get(turn.id)
        also = (asked,) if asked is not None and asked.id in self.period else ()
        return CatchupItem("reply", turn, quoted(turn.text, start, end), told, also=also)

    def _mentioning(self, turn: Turn) -> str:
        spans = sentences(turn.text) or ((0, len(turn.text)),)
        spans_with = [span for span in spans if self.me.is_mentioned(turn.text[slice(*span)])]
        return quoted(turn.text, *(spans_with or spans)[0])

    def _says_little(self, one: Acts) -> bool:
        """Whether a message only greets, thanks or reacts."""
        called = {word.casefold() for name in self.me.names for word in name.split()}
        content = [word for word in one.message.analysed.content if word.lower not in called]
        polite = all({"social", "thanks"} & sentence.cues for sentence in one.message.sentences)
        return polite or (len(content) < _CONTENT and not one.message.asks)
