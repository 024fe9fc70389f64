"""The vocabulary of the rules: words and phrases that refer to something said earlier.

There is one `Lexicon` per language, read from `lexicons/`; add a file there to add a language. English
is the most complete, Spanish and German are smaller, and Japanese uses runs of kanji and katakana. A
phrase is a regular expression, matched as whole words and ignoring case. Text in another language has
no cue words and is judged by length and position.

>>> lexicons()["de"].possessive[:2], [lexicon.code for lexicon in spaced_lexicons()]
(('mein', 'meine'), ['en', 'es', 'de'])
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from backscroll.operators.language.language_files import read_languages

__all__ = ["WORD", "Cue", "Lexicon", "Word", "lexicons", "spaced_lexicons", "stem", "words"]

FOLDER = Path(__file__).with_name("lexicons")

WORD = re.compile(
    r"[\u3400-\u9fff\u3005]+|[\u30a0-\u30ff]+|[\u3040-\u309f]+"
    r"|[^\W_\u3040-\u30ff\u3400-\u9fff\u3005]+(?:['\-./_][^\W_\u3040-\u30ff\u3400-\u9fff\u3005]+)*"
)


_ENDINGS = {  # by the last letter: the ending, its replacement, the minimum length of a word
    "s": (("ies", "y", 5), ("es", "", 5), ("s", "", 4)),
    "g": (("ing", "", 6),),
    "d": (("ed", "", 5),),
}


class Word(NamedTuple):
    """A word of a text: as written, in lower case, its approximate stem, and its position."""

    text: str
    lower: str
    stem: str
    start: int
    end: int


class Cue(NamedTuple):
    """A phrase from the list `family`, found at `start:end` of a text."""

    family: str
    start: int
    end: int


def words(text: str) -> Iterator[Word]:
    """The words of `text`; each run of kanji, katakana or hiragana is a word."""
    for match in WORD.finditer(text):
        lower = match.group().lower()
        yield Word(match.group(), lower, stem(lower), match.start(), match.end())


def stem(word: str) -> str:
    """An approximate stem, mostly for English: without genitive, plural and verb endings."""
    word = word.removesuffix("'s")
    for ending, put, least in _ENDINGS.get(word[-1:], ()):
        if word.endswith(ending) and len(word) >= least and not word.endswith("ss"):
            word = word[: -len(ending)] + put
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The word lists and phrase lists of one language, in lower case.

    Attributes:
        code: ISO 639-1.
        function: words without content, which also identify the language of a text.
        things: pronouns and demonstratives for things and statements.
        people: third-person pronouns for people.
        persons: nouns a personal pronoun may refer to.
        definite: articles and demonstratives that start a definite phrase.
        possessive: possessives that start a definite phrase.
        yours: the possessives that refer to the listener.
        known: nouns a reader needs no introduction for ("the weekend").
        empty: words that add nothing to a phrase ("thing", "great").
        recall: phrases that refer to an earlier exchange ("as agreed", "you said").
        repeats: phrases that presuppose an earlier state or event ("another", "finally").
        compares: the same, but often compared with something nearby ("other", "the same").
        answers: words that start an answer or a reaction.
        connects: words that continue from something said before ("so", "because").
        decides: decisions about something mentioned elsewhere ("let's do it").
        introduces: words before a name that introduce it ("called").
        social: greetings, thanks and reactions.
        plans: plans, commitments and decisions.
        events: results, changes and personal updates.
        asks: requests and questions with content.
        slots: words for kinds of missing information, for asking for it, and for where it was said.
        says: verbs, mostly of speech, that may follow a person's name.
        titles: titles before a name.
        noun_capitals: whether every noun is written with a capital.
        spaced: whether words are separated by spaces.
        letters: a character class; a text that contains one of them is in this language.
        rank: the lowest rank wins if a text fits several languages equally well.
    """

    code: str
    function: frozenset[str]
    things: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    persons: frozenset[str] = frozenset()
    definite: tuple[str, ...] = ()
    possessive: tuple[str, ...] = ()
    yours: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()
    recall: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ()
    compares: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    connects: tuple[str, ...] = ()
    decides: tuple[str, ...] = ()
    introduces: tuple[str, ...] = ()
    social: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    slots: frozenset[str] = frozenset()
    says: frozenset[str] = frozenset()
    titles: frozenset[str] = frozenset()
    noun_capitals: bool = False
    spaced: bool = True
    letters: str = ""
    rank: int = 100

    def __post_init__(self) -> None:
        if not (self.spaced or self.letters):
            raise ValueError("letters: required if 'spaced' is false, to identify the language")

    @cached_property
    def _by_first_word(self) -> dict[str, list[tuple[str, re.Pattern[str] | None]]]:
        """For the first word of each phrase: the lists it is in, and the pattern for the rest."""
        index: dict[str, list[tuple[str, re.Pattern[str] | None]]] = {}
        for family in _families():
            for phrase in getattr(self, family):
                first, _, rest = phrase.partition(" ")
                pattern = re.compile(rf" +{rest}(?!\w)".replace(" ", r"\s"), re.IGNORECASE) if rest else None
                index.setdefault(first, []).append((family, pattern))
        return index

    @cached_property
    def _anywhere(self) -> list[tuple[str, re.Pattern[str]]]:
        """One pattern per list, for a language written without spaces."""
        lists = [(family, getattr(self, family)) for family in _families()]
        return [
            (family, re.compile("|".join(sorted(phrases, key=len, reverse=True))))
            for family, phrases in lists
            if phrases
        ]

    def cues(self, text: str, words: Sequence[Word]) -> list[Cue]:
        """Every phrase found in `text`, in order; `words` are the words of the text."""
        if not self.spaced:
            found = [
                Cue(family, match.start(), match.end())
                for family, pattern in self._anywhere
                for match in pattern.finditer(text)
            ]
            return sorted(found, key=lambda cue: cue.start)
        cues = []
        for word in words:
            for family, pattern in self._by_first_word.get(word.lower, ()):
                if pattern is None:
                    cues.append(Cue(family, word.start, word.end))
                elif match := pattern.match(text, word.end):
                    cues.append(Cue(family, word.start, match.end()))
        return cues

    @cached_property
    def _letter(self) -> re.Pattern[str]:
        return re.compile(f"[{self.letters}]")

    def has_letters_in(self, text: str) -> bool:
        """Whether a text contains a letter that only this language uses."""
        return bool(self.letters) and self._letter.search(text) is not None

    def is_function(self, word: Word) -> bool:
        """Whether a word has no content; a run of hiragana counts as particles and endings."""
        return word.lower in self.function or "\u3040" <= word.text[0] <= "\u309f"

    def says_something(self, word: Word) -> bool:
        """Whether a word has content: it is neither a function word nor an empty one."""
        return len(word.text) > 1 and word.lower not in self.empty and not self.is_function(word)


def _families() -> list[str]:
    """The names of the phrase lists."""
    return [field.name for field in fields(Lexicon) if field.type == "tuple[str, ...]"]


@cache
def lexicons() -> Mapping[str, Lexicon]:
    """The languages with word lists, by ISO 639-1 code, in order of rank; read once.

    Raises:
        LanguageFileError: a file is invalid.
    """
    found = read_languages(FOLDER, Lexicon)
    return MappingProxyType({one.code: one for one in sorted(found, key=lambda one: (one.rank, one.code))})


@cache
def spaced_lexicons() -> tuple[Lexicon, ...]:
    """The languages that are identified by their function words."""
    return tuple(lexicon for lexicon in lexicons().values() if lexicon.spaced)
