"""The words for numbers, dates and amounts, and their values; one file in `quantities/` per language.

>>> quantity_words().months["märz"], quantity_words().units["por ciento"]
(3, '%')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from backscroll.operators.language.language_files import read_languages

__all__ = ["AllQuantityWords", "QuantityWords", "quantity_words"]

FOLDER = Path(__file__).with_name("quantities")
_SCALES = {"k": 10**3, "m": 10**6}
_UNITS = {
    **{"%": "%", "％": "%", "€": "EUR", "eur": "EUR", "£": "GBP", "gbp": "GBP"},
    **{"$": "USD", "usd": "USD", "¥": "JPY", "jpy": "JPY"},
}


@dataclass(frozen=True, eq=False)
class QuantityWords:
    """The words for numbers, dates and amounts in one language, from a file in `quantities/`.

    Attributes:
        code: ISO 639-1.
        months: January to December, each with one or more words separated by spaces, like the next three.
        weekdays: Monday to Sunday.
        ones: 1 to 12.
        tens: 20, 30 ... 90.
        vague: number words that make no claim.
        scales: words that multiply the number before them, with the factor.
        units: words for units, with the symbol.
    """

    code: str
    months: tuple[str, ...] = ()
    weekdays: tuple[str, ...] = ()
    ones: tuple[str, ...] = ()
    tens: tuple[str, ...] = ()
    vague: frozenset[str] = frozenset()
    scales: Mapping[str, int] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, length in (("months", 12), ("weekdays", 7), ("ones", 12), ("tens", 8)):
            if len(getattr(self, name)) not in (0, length):
                raise ValueError(
                    f"{name}: must have {length} entries or none, not {len(getattr(self, name))}"
                )


class AllQuantityWords:
    """The words of all languages with their values, because a text may mix languages."""

    def __init__(self, languages: Sequence[QuantityWords]) -> None:
        self.months = _numbered((language.months for language in languages), start=1)
        self.weekdays = _numbered((language.weekdays for language in languages), start=0)
        self.ones = _numbered((language.ones for language in languages), start=1)
        self.tens = _numbered((language.tens for language in languages), start=20, step=10)
        self.vague = frozenset().union(*(language.vague for language in languages))
        self.scales = dict(_SCALES)
        self.units = dict(_UNITS)
        for language in languages:
            self.scales |= language.scales
            self.units |= language.units


def _numbered(lists: Iterable[Sequence[str]], start: int, step: int = 1) -> dict[str, int]:
    return {
        name: start + step * place
        for names in lists
        for place, group in enumerate(names)
        for name in group.split()
    }


@cache
def quantity_words() -> AllQuantityWords:
    """The words of all languages; read once.

    Raises:
        LanguageFileError: a file is invalid.
    """
    return AllQuantityWords(read_languages(FOLDER, QuantityWords))
