"""How a language addresses people and writes dates, and its catch-up headings.

There is one `PhraseBook` per language, read from `phrasebooks/`; add a file there to add a language. More
languages have a phrase book than a lexicon (`language.lexicon`). Text in any other language uses the
English phrase book. Patterns ignore case; the Japanese and Chinese ones may match within words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
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
    """The patterns and headings of one language.

    Attributes:
        code: ISO 639-1.
        weekdays: Monday to Sunday, each as a pattern.
        days: patterns for relative days, with the number of days ahead.
        before_dates: words before a date that belong to it ("by", "until").
        past: words before a date that mean it is in the past ("last", "since").
        headings: the texts of a digest, by the names in `HEADINGS`.
        after_dates: words or particles after a date that belong to it.
        past_after: words after a date that mean it is in the past ("vendredi dernier").
        next_week: words before a weekday that mean the one in the week after the message's.
        months: January to December, each as a pattern; empty if months are numbered.
        assigned: words after a name that assign a task to the person ("Ana owns it").
        addressing: words after a name that address the person without a comma ("Ana please").
        honorifics: suffixes of a name that address the person.
        question_ends: endings of questions without a question mark.
        relative_days: days relative to a message, in either direction ("yesterday").
        relative_spans: weeks, months, seasons and years relative to a message ("last month").
        spaced: whether words are separated by spaces.
    """

    code: str
    weekdays: tuple[str, ...]
    days: Mapping[str, int]
    before_dates: tuple[str, ...]
    past: tuple[str, ...]
    headings: Mapping[str, str]
    after_dates: tuple[str, ...] = ()
    past_after: tuple[str, ...] = ()
    next_week: tuple[str, ...] = ()
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
            raise ValueError(f"weekdays: must have 7 entries, not {len(self.weekdays)}")
        if len(self.months) not in (0, 12):
            raise ValueError(f"months: must have 12 entries or none, not {len(self.months)}")
        for name in self.headings:
            if name not in HEADINGS:
                raise ValueError(f"headings: unknown name {name!r}: use one of {', '.join(HEADINGS)}")
        for name in HEADINGS:
            if name not in self.headings:
                raise ValueError(f"headings: {name!r} is missing")


@cache
def phrase_books() -> Mapping[str, PhraseBook]:
    """The phrase books by ISO 639-1 code; read once.

    Raises:
        LanguageFileError: a file is invalid.
    """
    return MappingProxyType({book.code: book for book in read_languages(FOLDER, PhraseBook)})
