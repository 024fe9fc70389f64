"""What decisions, promises, requests and dates look like in a language, and its headings of a digest.

One `PhraseBook` per language, read from `phrasebooks/`. `language.lexicon` finds what leans on something
earlier; this finds what a reader who was away has to know. A text in another language has the English
phrase book, whose patterns then rarely match. Patterns are searched without regard to case; those of
Japanese are not bound to words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType

from backscroll.operators.language.language_files import read_languages

__all__ = ["PhraseBook", "phrase_books"]

FOLDER = Path(__file__).with_name("phrasebooks")


HEADINGS = (
    *("for_me", "decisions", "actions", "questions", "highlights", "range", "one", "many", "people"),
    *("person", "nothing", "span", "now", "newest", "left_out", "bots", "deleted", "items"),
    *("unmentioned", "dropped", "quiet", "read", "skim", "skip", "anyone", "degraded"),
)


@dataclass(frozen=True, eq=False)
class PhraseBook:
    """Patterns and headings of one language.

    Attributes:
        code: ISO 639-1.
        decided: a decision, in the sentence that takes or reports it.
        promised: the author will do something.
        requested: somebody is asked to do something.
        rhetorical: a question that waits for no answer.
        weekdays: Monday to Sunday, each as a pattern.
        days: patterns of relative days, and how many days ahead they are.
        before_dates: what may stand before a date and belongs to it ("by", "until").
        past: what before a date says that it is over ("last", "since").
        headings: the words of a digest, by the names in `HEADINGS`.
        months: January to December, each as a pattern; none where months are numbered.
        assigned: what after a name says that the person has to do it ("Ana owns it").
        addressing: what after a name speaks to the person, without a comma ("Ana please").
        honorifics: what is added to a name in speaking to the person.
        question_ends: how a sentence ends that asks without a question mark.
        relative_days: days named by their distance from a message, either way ("yesterday").
        relative_spans: the same for weeks, months, seasons and years ("last month").
        spaced: whether blanks stand between words.
    """

    code: str
    decided: tuple[str, ...]
    promised: tuple[str, ...]
    requested: tuple[str, ...]
    rhetorical: tuple[str, ...]
    weekdays: tuple[str, ...]
    days: Mapping[str, int]
    before_dates: tuple[str, ...]
    past: tuple[str, ...]
    headings: Mapping[str, str]
    months: tuple[str, ...] = ()
    assigned: tuple[str, ...] = ()
    addressing: tuple[str, ...] = ()
    honorifics: tuple[str, ...] = ()
    question_ends: tuple[str, ...] = ()
    relative_days: tuple[str, ...] = ()
    relative_spans: tuple[str, ...] = ()
    spaced: bool = True

    def __post_init__(self) -> None:
        if len(self.weekdays) != 7:
            raise ValueError(f"weekdays: must have 7 entries, but has {len(self.weekdays)}")
        if len(self.months) not in (0, 12):
            raise ValueError(f"months: must have 12 entries or none, but has {len(self.months)}")
        for name in self.headings:
            if name not in HEADINGS:
                raise ValueError(f"headings: unknown name {name!r}: known are {', '.join(HEADINGS)}")
        for name in HEADINGS:
            if name not in self.headings:
                raise ValueError(f"headings: {name!r} is missing")

    @cached_property
    def decision(self) -> re.Pattern[str]:
        """Matches where a decision is."""
        return self._any(self.decided)

    @cached_property
    def promise(self) -> re.Pattern[str]:
        """Matches where the author promises something."""
        return self._any(self.promised)

    @cached_property
    def request(self) -> re.Pattern[str]:
        """Matches where somebody is asked to do something."""
        return self._any(self.requested)

    @cached_property
    def rhetoric(self) -> re.Pattern[str]:
        """Matches questions that wait for no answer."""
        return self._any(self.rhetorical)

    def _any(self, phrases: Iterable[str]) -> re.Pattern[str]:
        body = "|".join(phrases) or r"(?!)"
        return re.compile(rf"(?<!\w)(?:{body})(?!\w)" if self.spaced else body, re.IGNORECASE)


@cache
def phrase_books() -> Mapping[str, PhraseBook]:
    """The phrase books by ISO 639-1 code; read once.

    Raises:
        LanguageFileError: a file is not as it should be.
    """
    return MappingProxyType({book.code: book for book in read_languages(FOLDER, PhraseBook)})
