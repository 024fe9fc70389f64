"""Finds quantities in a text (numbers, dates, times, identifiers), as facts that can be compared.

>>> texts = ["at 6pm", "um 18 Uhr"]
>>> [(text[q.start:q.end], sorted(q.facts)) for text in texts for q in find_quantities(text)]
[('6pm', [('clock', 1080)]), ('18 Uhr', [('clock', 1080)])]

A fact is a kind and a value: `date` (year or 0, month, day), `month`, `weekday` (Monday is 0), `year`,
`clock` (minutes after midnight), `number` (value, unit), `ordinal`, `exact` (a string). An ambiguous
quantity has several facts: `1.024` is 1024 and 1.024, `6:30` is morning and evening. English, Spanish
and German are supported in full; in other languages only digits are. The words are in
`language.quantity_words`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from backscroll.operators.language.quantity_words import quantity_words

__all__ = ["Fact", "Quantity", "blanked", "find_quantities"]

Fact = tuple[str, object]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity at `start:end` of a text; `is_claim` is false for words like "one", "both", "second"."""

    start: int
    end: int
    facts: frozenset[Fact]
    is_claim: bool = True


def find_quantities(text: str) -> tuple[Quantity, ...]:
    """The quantities in `text`, in order and without overlaps."""
    found = list[Quantity]()
    for pattern, facts_of in _readers():
        read = list[Quantity]()
        for match in pattern.finditer(text):
            if facts := frozenset(facts_of(match)):
                read.append(Quantity(*match.span(), facts, _is_claim(match)))
        text = blanked(text, read)
        found += read
    return tuple(sorted(found, key=lambda figure: figure.start))


def blanked(text: str, found: Iterable[Quantity]) -> str:
    """`text` with every character of the quantities replaced by NUL, so that offsets do not change."""
    for figure in found:
        text = text[: figure.start] + "\0" * (figure.end - figure.start) + text[figure.end :]
    return text


def _any(names: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


_L = "A-Za-z\u00c0-\u024f0-9_"  # characters that continue a Latin word or a number
_YEAR = r"(?:(?:,?\s+(?:de\s+)?|\s+of\s+)(?P<year>\d{4})(?!\d))?"
_GROUPED = r"\d{1,3}(?P<sep>[,.'’ \u00a0\u202f])\d{3}(?:(?P=sep)\d{3})*(?!\d)(?:[.,]\d+)?"


def _exact(match: re.Match[str]) -> Iterator[Fact]:
    yield "exact", match.group()


def _date(match: re.Match[str]) -> Iterator[Fact]:
    parts = match.groupdict()
    month = parts["month"].lower()
    year = int(parts.get("year") or 0)
    yield from _day(year, quantity_words().months.get(month) or int(month), int(parts["day"]))


def _short_date(match: re.Match[str]) -> Iterator[Fact]:
    first, second, year = (int(match[group] or 0) for group in ("first", "second", "year"))
    year += 2000 if 0 < year < 100 else 0
    yield from _day(year, second, first)
    yield from _day(year, first, second)
    if not year:  # the full stop may end a sentence
        yield "number", (Decimal(f"{first}.{match['second']}"), "")


def _day(year: int, month: int, day: int) -> Iterator[Fact]:
    if 1 <= month <= 12 and 1 <= day <= 31:
        yield "date", (year, month, day)


def _clock(match: re.Match[str]) -> Iterator[Fact]:
    hour, minute = int(match["hour"]), int(match["minute"] or match["minutes"] or 0)
    half, mark = (match["half"] or "").lower(), match["mark"]
    if hour > 24 or not (match["colon"] or half or mark):
        return
    if half:
        yield "clock", hour % 12 * 60 + (720 if half.startswith("p") else 0) + minute
        return
    yield "clock", hour % 24 * 60 + minute
    if hour <= 12:
        yield "clock", (hour + 12) % 24 * 60 + minute
    if mark == "h":
        yield "number", (Decimal(hour), "")


def _month(match: re.Match[str]) -> Iterator[Fact]:
    yield "month", quantity_words().months[match["month"].lower()]


def _weekday(match: re.Match[str]) -> Iterator[Fact]:
    name = (match["kanji"] or match["name"]).lower()
    yield "weekday", quantity_words().weekdays[name]


def _number(match: re.Match[str]) -> Iterator[Fact]:
    unit = quantity_words().units.get((match["before"] or match["unit"] or "").strip().lower(), "")
    scale = quantity_words().scales.get((match["scale"] or "").lower(), 1)
    for value in _values(match["number"]):
        yield "number", (value, unit)
        if scale > 1:
            yield "number", (value * scale, unit)
    if match["ordinal"]:
        yield "ordinal", int(match["number"]) if len(match["number"]) < 3 else 0
    if re.fullmatch(r"(?:19|20)\d\d", match["number"]):
        yield "year", int(match["number"])


def _values(number: str) -> Iterator[Decimal]:
    """The values of a numeral in English notation and in continental European notation."""
    digits = re.sub(r"['’\s]", "", number)
    for group, point in ((",", "."), (".", ",")):
        if re.fullmatch(rf"\d+(?:\{point}\d+)?|\d{{1,3}}(?:\{group}\d{{3}})+(?:\{point}\d+)?", digits):
            yield Decimal(digits.replace(group, "").replace(point, "."))


def _count(match: re.Match[str]) -> Iterator[Fact]:
    value = quantity_words().ones.get(match["word"].lower()) or quantity_words().tens[match["word"].lower()]
    value += quantity_words().ones.get((match["one"] or "").lower(), 0)
    value *= quantity_words().scales.get((match["scale"] or "").lower(), 1)
    yield "number", (Decimal(value), quantity_words().units.get((match["unit"] or "").lower(), ""))


def _is_claim(match: re.Match[str]) -> bool:
    """Whether a quantity is a claim: not a small count or ordinal in words, and not a list number."""
    if match.re == _count_pattern():
        return match["word"].lower() not in quantity_words().vague and not match["word"].lower().endswith(
            ("th", "second", "third")
        )
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    return bool(line.strip(" \t*-#>")) or match.string[match.end() : match.end() + 2] not in (". ", ") ")


def _after() -> str:
    return rf"(?:\s?(?P<unit>{_any(quantity_words().units)})(?![{_L}]))?"


@cache
def _count_pattern() -> re.Pattern[str]:
    words = quantity_words()
    return re.compile(
        rf"(?<![{_L}])(?P<word>{_any((*words.tens, *words.ones))})(?:(?<=ty)[- ](?P<one>{_any(words.ones)}))?"
        rf"(?:\s(?P<scale>{_any(name for name in words.scales if len(name) > 2)}))?{_after()}(?![{_L}])",
        re.IGNORECASE,
    )


_FactsOf = Callable[[re.Match[str]], Iterator[Fact]]


@cache
def _readers() -> tuple[tuple[re.Pattern[str], _FactsOf], ...]:
    """The patterns of quantities, in the order in which they are tried, each with its conversion to facts."""
    words = quantity_words()
    month = rf"(?P<month>{_any(words.months)})\b\.?"
    long_months = [name for name in words.months if len(name) > 4 and name != "march"]
    readers: tuple[tuple[str | re.Pattern[str], _FactsOf], ...] = (
        (r"(?<!`)`(?=\S)[^`\n]{1,80}(?<=\S)`(?!`)", _exact),
        (r"(?:https?://|www\.)[^\s<>\"'`）」]*[^\s<>\"'`）」.,;:!?)\]*]", _exact),
        (r"(?<![\w.+\-])[\w.+\-]+@[\w\-]+\.[\w.\-]*\w|(?<!\w)@[\w.\-]*\w", _exact),
        (r"(?:(?P<year>\d{4})年)?(?P<month>\d{1,2})月(?P<day>\d{1,2})日", _date),
        (r"(?<!\d)(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})(?!\d)(?:T(?=\d))?", _date),
        (
            rf"(?<![{_L}.])(?!\d\d?\.\d\d?\.(?:19|20)\d\d(?!\d))(?:v\d+(?:\.\d+)+|\d+(?:\.\d+){{2,}})(?![{_L}])",
            _exact,
        ),
        (
            r"(?<![\d./])(?P<first>\d{1,2})(?P<sep>[./])(?P<second>\d{1,2})"
            r"(?:(?P=sep)(?P<year>\d{4}|\d\d)(?!\.?\d)|(?<=[.]\d)\.|(?<=[.]\d\d)\.)",
            _short_date,
        ),
        (rf"(?<![\d{_L}])(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.|º)?\s+(?:of\s+|de\s+)?{month}{_YEAR}", _date),
        (
            rf"(?<![{_L}]){month}\s+(?:the\s+)?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?![\d:{_L}]){_YEAR}",
            _date,
        ),
        (re.compile(rf"(?<![{_L}])(?:[A-Z][A-Z0-9]+-\d+|#\d+)(?![{_L}])"), _exact),
        (rf"(?<![{_L}])(?:(?=[{_L}]*[a-z0-9])(?=[a-z0-9]+_)[{_L}]+)(?![{_L}])", _exact),
        (rf"(?<![{_L}])(?:[a-z_]+\d[{_L}]*|\d+[a-z]+\d[{_L}]*)(?![{_L}])", _exact),
        (
            rf"(?<![\d{_L}.,:])(?P<hour>\d{{1,2}})(?:(?P<colon>[:h時])(?P<minute>[0-5]\d)(?::[0-5]\d)?(?!\d)"
            rf"|\.(?P<minutes>[0-5]\d)(?=\s?(?:uhr|[ap]\.?m)))?"
            rf"(?:\s?(?P<half>[ap]m\b|[ap]\.m\.?))?(?:\s?(?P<mark>uhr\b|o'clock|時|h(?![{_L}])))?",
            _clock,
        ),
        (
            rf"(?<![{_L}])(?P<month>{_any(long_months)}"
            r"|june|july|juni|juli|märz|(?:(?<=\bin )|(?<=\bof ))(?:may|mai|march))"
            rf"(?![{_L}])",
            _month,
        ),
        (
            rf"(?<![{_L}])(?P<name>{_any(name for name in words.weekdays if len(name) > 5)}|lunes"
            rf"|(?-i:Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun))(?:s?(?![{_L}]))|(?P<kanji>[月火水木金土日])曜",
            _weekday,
        ),
        (
            rf"(?<![\d{_L}])(?P<before>[$£€¥]\s?)?(?P<number>{_GROUPED}|\d+(?:[.,]\d+)?)"
            rf"(?:\s?(?P<scale>{_any(words.scales)})(?![{_L}]))?(?P<ordinal>st|nd|rd|th|º|ª)?{_after()}",
            _number,
        ),
        (_count_pattern(), _count),
    )
    return tuple(
        (re.compile(pattern, re.IGNORECASE) if isinstance(pattern, str) else pattern, facts_of)
        for pattern, facts_of in readers
    )
