"""Messages read for acts: their sentences, each as words and cues, with names and numbers made alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from backscroll.operators.acts.cue_book import cue_books
from backscroll.operators.language.lexicon import spaced_lexicons
from backscroll.operators.language.phrasebook import phrase_books
from backscroll.operators.language.salience import AnalysedTurn
from backscroll.operators.language.sentences import sentences
from backscroll.operators.messages import Turn

__all__ = ["ReadMessage", "ReadSentence", "asks", "read_messages"]

_NUMBER = re.compile(r"\d+(?:[.:,]\d+)*")
_MENTION = re.compile(r"<?@[\w.-]+>?")
_TOKEN = re.compile(r"\w+(?:'\w+)?|[?!]")
# What means the same in every language: a vote, a reaction, and the commands of meeting bots.
_MARKS = {
    "approves": re.compile(r"(?<!\w)\+1(?!\w)|\A\W*(?:👍|:(?:\+1|thumbsup|white_check_mark):)\W*\Z"),
    "recorded_decision": re.compile(
        r"#(?:agreed|accepted|decision|approved)\b|\b(?:RESOLVED|DECISION|AGREED|RESOLUTION):"
    ),
    "recorded_action": re.compile(r"#(?:action|todo)\b|\b(?:ACTION|TODO)(?: ITEM)?:"),
    "recorded_topic": re.compile(r"#(?:topic|startmeeting|endmeeting|link|chair)\b"),
    "smiles": re.compile(r"[:;]-?[)D]|[😀-🙏🤣-🧿]|:[a-z_]*(?:smile|smiling|joy|laugh|grin)[a-z_]*:"),
}
_LEAST_NAME = 3  # letters


@dataclass(frozen=True, slots=True)
class ReadSentence:
    """A sentence at `start:end` of a message: its words and marks, and the families of its cues."""

    start: int
    end: int
    words: tuple[str, ...]
    cues: frozenset[str]
    asks: bool


@dataclass(frozen=True)
class ReadMessage:
    """A message and its sentences."""

    analysed: AnalysedTurn
    sentences: tuple[ReadSentence, ...]

    @property
    def turn(self) -> Turn:
        """The message itself."""
        return self.analysed.turn

    @cached_property
    def cues(self) -> frozenset[str]:
        """The cues of all sentences."""
        return frozenset().union(*(sentence.cues for sentence in self.sentences))

    @cached_property
    def asks(self) -> bool:
        """Whether a sentence ends like a question."""
        return any(sentence.asks for sentence in self.sentences)

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the content words."""
        return frozenset(word.stem for word in self.analysed.content)


def read_messages(analysed_turns: Sequence[AnalysedTurn], names: Iterable[str]) -> list[ReadMessage]:
    """Read messages for acts.

    Args:
        analysed_turns: consecutive messages.
        names: what the people in the channel are called.
    """
    called = _names(names)
    return [ReadMessage(analysed, tuple(_sentences(analysed, called))) for analysed in analysed_turns]


def _sentences(analysed: AnalysedTurn, called: re.Pattern[str]) -> Iterable[ReadSentence]:
    book = cue_books().get(analysed.lexicon.code) or cue_books()["en"]
    for start, end in sentences(analysed.text) or ((0, len(analysed.text)),):
        raw = analysed.text[start:end]
        text = called.sub("NAME", _MENTION.sub(" NAME ", raw))
        plain = "".join(part if part == "NAME" else part.lower() for part in re.split(r"(NAME)", text))
        plain = " ".join(_NUMBER.sub("NUM", plain).split())
        marks = {name for name, pattern in _MARKS.items() if pattern.search(analysed.turn.text[start:end])}
        cues = book.found(plain) | marks | ({"named"} if "NAME" in plain else set())
        if re.match(r"\W*NAME\W", plain):
            cues |= {"calls"}
        asking = asks(raw)
        yield ReadSentence(
            start,
            end,
            tuple(_TOKEN.findall(plain)),
            frozenset(cues | ({"asks"} if asking else set())),
            asking,
        )


def asks(sentence: str) -> bool:
    """Whether a sentence ends like a question."""
    tail = sentence.rstrip(" \t\"'”»)😀😂🙂:")
    return tail.endswith(("?", "？", "؟")) or tail.rstrip("。").endswith(_question_ends())


@cache
def _question_ends() -> tuple[str, ...]:
    return tuple(end for book in phrase_books().values() for end in book.question_ends)


def _names(names: Iterable[str]) -> re.Pattern[str]:
    """Matches the names of people that are not also common words."""
    common = frozenset().union(*(lexicon.function for lexicon in spaced_lexicons()))
    every = {part for name in names for part in (name, *name.split()) if len(part) >= _LEAST_NAME}
    plain = sorted((name for name in every if name.lower() not in common), key=len, reverse=True)
    body = "|".join(map(re.escape, plain)) or r"(?!)"
    return re.compile(rf"(?<!\w)@?(?:{body})(?!\w)", re.IGNORECASE)
