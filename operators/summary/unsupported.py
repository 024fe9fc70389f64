"""Finds numbers, dates and names in a summary that are in neither the window nor the memory.

>>> from datetime import UTC, datetime
>>> from backscroll.operators.messages import Author, Turn
>>> turn = Turn(0, "m0", datetime(2026, 3, 2, tzinfo=UTC), Author("u1", "Ana"), "Ship at 6pm for €640.", 9, 0)
>>> unsupported_spans("On 2 March Ana asked Peter to ship at 18:00 for 650 EUR.", [turn], [])
('Peter', '650 EUR')

Figures are compared by meaning. A turn's time supports dates, weekdays and clock times, and so does
"yesterday" or "next month" in its text. Small counts in words ("one", "both") are not checked, and
neither is a sentence that occurs verbatim in a text.

Names are capitalised words that occur in no text in any form, as `language.names` decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache

from backscroll.operators.language.names import Vocabulary, unknown_names
from backscroll.operators.language.phrasebook import phrase_books
from backscroll.operators.language.quantities import Fact, Quantity, blanked, find_quantities
from backscroll.operators.language.sentences import sentences
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.messages import Turn

__all__ = ["unsupported_spans"]


def unsupported_spans(summary: str, turns: Sequence[Turn], memory: Sequence[MemoryTurn]) -> tuple[str, ...]:
    """The figures and names of `summary` that neither turns nor memory support, each once, in order."""
    support = _Support([*((turn, turn.text) for turn in turns), *((m.turn, m.text) for m in memory)])
    spans = [span for span in sentences(summary) if not support.quotes(summary[slice(*span)])]
    found = find_quantities(summary)
    flagged = [(f.start, f.end) for f in found if f.is_claim and not support.states(f)]
    flagged += unknown_names(blanked(summary, found), support.vocabulary)
    doubted = [(a, b) for a, b in sorted(flagged) if any(start < b and a < end for start, end in spans)]
    return tuple(dict.fromkeys(summary[a:b] for a, b in doubted))


class _Support:
    """The facts and words in the texts, authors and times of turns."""

    def __init__(self, said: Sequence[tuple[Turn, str]]) -> None:
        self.texts = [f"{turn.author.name}: {text}" for turn, text in said]
        self.joined = "\n".join(self.texts)
        self.without_blanks = "".join(self.joined.split())
        self.facts = {
            fact for (turn, _), text in zip(said, self.texts, strict=True) for fact in _facts(turn.ts, text)
        }
        self.vocabulary = Vocabulary(self.texts)

    def quotes(self, sentence: str) -> bool:
        """Whether a sentence occurs verbatim in a text."""
        before = r"(?<!\w)" * sentence[0].isalnum()
        after = r"(?!\w)" * (sentence[-1].isalnum() or sentence[-1] in ".,")
        return (
            sentence in self.joined
            and re.search(before + re.escape(sentence) + after, self.joined) is not None
        )

    def states(self, figure: Quantity) -> bool:
        """Whether the texts state a figure in any of its readings; an amount may lack its unit."""
        return any(map(self._states, figure.facts))

    def _states(self, fact: Fact) -> bool:
        match fact:
            case "exact", str() as identifier:
                return self._writes(identifier)
            case "number", (value, str(unit)) if unit:
                return fact in self.facts or ("number", (value, "bare")) in self.facts
            case _:
                return fact in self.facts

    def _writes(self, identifier: str) -> bool:
        if identifier.startswith("`"):
            return "".join(identifier.strip("`").split()) in self.without_blanks
        edges = [r"(?<![^\W_])" * identifier[0].isalnum(), r"(?![^\W_])" * identifier[-1].isalnum()]
        if re.search(re.escape(identifier).join(edges), self.joined):
            return True
        return identifier.startswith("@") and identifier[1:].casefold() in self.vocabulary.forms


def _facts(ts: datetime, text: str) -> Iterator[Fact]:
    """The facts that a text and its time state or imply."""
    relative = 1 if _relative_day().search(text) else 0
    for days in range(-relative, relative + 1):
        yield from _on(_moved(ts, days))
    yield "clock", ts.hour * 60 + ts.minute
    if _relative_span().search(text):
        for days in (-365, -31, 31, 365):
            there = _moved(ts, days)
            yield from (("month", there.month), ("year", there.year))
    for figure in find_quantities(text):
        for fact in figure.facts:
            yield fact
            yield from _implied(fact, ts)


@cache
def _relative_day() -> re.Pattern[str]:
    books = phrase_books().values()
    days = [rf"\b{day}\b" if book.spaced else day for book in books for day in book.relative_days]
    return re.compile("|".join(days), re.IGNORECASE)


@cache
def _relative_span() -> re.Pattern[str]:
    books = phrase_books().values()
    spans = [rf"\b{span}" if book.spaced else span for book in books for span in book.relative_spans]
    return re.compile("|".join(spans), re.IGNORECASE)


def _weekday(year: int, month: int, day: int) -> int:
    """The weekday of a date, Monday as 1; 0 for a date that does not exist."""
    try:
        return date(year, month, day).isoweekday()
    except ValueError:
        return 0


def _moved(ts: datetime, days: int) -> datetime:
    try:
        return ts + timedelta(days=days)
    except OverflowError:
        return ts


def _on(day: datetime) -> Iterator[Fact]:
    yield from (("date", (day.year, day.month, day.day)), ("date", (0, day.month, day.day)))
    yield from (("month", day.month), ("year", day.year), ("weekday", day.weekday()), ("ordinal", day.day))


def _implied(fact: Fact, ts: datetime) -> Iterator[Fact]:
    """Other forms of a stated fact that are supported: the number without its unit, a full date, an hour."""
    match fact:
        case "number", (Decimal() as value, str() as unit):
            yield "number", (value, "" if unit else "bare")
            if value in range(25):
                yield from (("clock", int(value) % 24 * 60), ("clock", int(value + 12) % 24 * 60))
                yield "ordinal", int(value)
        case "date", (int() as year, int() as month, int() as day):
            yield from (("date", (0, month, day)), ("month", month), ("ordinal", day))
            for near in (year,) if year else (ts.year - 1, ts.year, ts.year + 1):
                yield from (("date", (near, month, day)), ("year", near))
                if weekday := _weekday(near, month, day):
                    yield "weekday", weekday - 1
            yield from (("number", (Decimal(value), "")) for value in (year, month, day) if value)
        case "clock", int() as minutes:
            yield from (("number", (Decimal(hour), "")) for hour in (minutes // 60, minutes // 60 % 12 or 12))
        case "weekday", int() as weekday:
            ahead = (weekday - ts.weekday()) % 7
            for days in (ahead - 7, ahead, ahead + 7):
                yield from _on(_moved(ts, days))
        case _:
            pass
