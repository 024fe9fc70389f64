"""Due dates: the first date in a sentence that is not in the past.

>>> from datetime import date
>>> from backscroll.operators.language.phrasebook import phrase_books
>>> find_due("fix by wednesday evening", date(2026, 3, 2), phrase_books()["en"])
Due(text='by wednesday', date=datetime.date(2026, 3, 4))
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

from backscroll.operators.language.phrasebook import PhraseBook

__all__ = ["Due", "find_due"]

# After a number that follows a weekday: the number is the hour, not the day of the month.
_HOURS = r"(?:[ap]m|h|heures?|horas?|uhr|uur|час(?:ов|а)?|godz)\b"


@dataclass(frozen=True, slots=True)
class Due:
    """The words of the message, and the date they mean."""

    text: str
    date: date


def find_due(text: str, said: date, book: PhraseBook) -> Due | None:
    """The first date in a text that is not before the day it was said.

    A weekday means the next one after that day, or the one in the next week if the text says so. A date
    without a year is the nearest one.
    """
    for match in _pattern(book).finditer(text):
        day = _meant(match, said, book)
        if day is not None and day >= said:
            return Due(" ".join(match.group().split()), day)
    return None


@lru_cache
def _pattern(book: PhraseBook) -> re.Pattern[str]:
    gap = r"\s+" if book.spaced else r"\s*"
    days = "|".join(f"(?:{day})" for day in sorted(book.days, key=len, reverse=True))
    weekdays = "|".join(f"(?P<w{number}>{name})" for number, name in enumerate(book.weekdays))
    dates = [r"(?P<year>\d{4})-(?P<iso_month>\d{2})-(?P<iso_day>\d{2})"]
    if book.months:
        months = "|".join(f"(?P<m{number}>{name})" for number, name in enumerate(book.months, start=1))
        months2 = months.replace("(?P<m", "(?P<n")
        dates += [
            rf"(?:the\s+)?(?P<day>\d{{1,2}})(?:st|nd|rd|th|er|\.|º|-?го)?\s+(?:de\s+|of\s+)?(?:{months})",
            rf"(?:{months2})\s+(?:the\s+)?(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?",
        ]
    else:
        dates.append(r"(?P<cjk_month>\d{1,2})[月월]\s*(?P<cjk_day>\d{1,2})[日号일]")
    before = rf"(?:(?:{_any(book.before_dates)}){gap})?"
    past = rf"(?P<past>(?:{_any(book.past)}){gap})?"
    after = rf"(?:\s*(?:{_any(book.after_dates)}))?" + (r"(?!\w)" if book.spaced else "")
    over = rf"(?P<past_after>{gap}(?:{_any(book.past_after)}){after})?"
    head = r"(?<!\w)" if book.spaced else ""
    any_weekday = "|".join(book.weekdays)
    on = rf"(?:(?:{any_weekday}),?{gap})?" if book.spaced else ""
    dates = [on + one for one in dates]
    if book.spaced:
        dates.append(
            rf"(?:{any_weekday}),?\s+(?:the\s+|den\s+|el\s+|le\s+|dia\s+)?"
            rf"(?P<of_month>\d{{1,2}})(?:st|nd|rd|th|er|\.|º)?(?![:.,]?\d|\s*{_HOURS})"
        )
    week = rf"(?:(?P<next_week>{_any(book.next_week)}){gap})?" if book.next_week else ""
    body = "|".join((*dates, rf"(?P<relative>{days})", f"{week}(?:{weekdays})"))
    return re.compile(rf"{head}{past}{before}(?:{body}){after}{over}", re.IGNORECASE)


def _any(phrases: Sequence[str]) -> str:
    return "|".join(phrases) or "(?!)"


def _meant(match: re.Match[str], said: date, book: PhraseBook) -> date | None:
    groups = {name: value for name, value in match.groupdict().items() if value is not None}
    if "past" in groups or "past_after" in groups:
        return None
    try:
        if "year" in groups:
            return date(int(groups["year"]), int(groups["iso_month"]), int(groups["iso_day"]))
        if "relative" in groups:
            return said + timedelta(days=_ahead(groups["relative"], book))
        if "of_month" in groups:
            return _next_day(said, int(groups["of_month"]))
        for name in groups:
            if name[0] in "mn" and name[1:].isdigit():
                return _nearest(said, int(name[1:]), int(groups.get("day") or groups["day2"]))
            if name[0] == "w" and name[1:].isdigit():
                ahead = int(name[1:]) - said.weekday()
                return said + timedelta(days=ahead + 7 if "next_week" in groups else ahead % 7 or 7)
        return _nearest(said, int(groups["cjk_month"]), int(groups["cjk_day"]))
    except (ValueError, OverflowError):  # no such day
        return None


def _ahead(text: str, book: PhraseBook) -> int:
    return next(days for pattern, days in book.days.items() if re.fullmatch(pattern, text, re.IGNORECASE))


def _next_day(said: date, day: int) -> date | None:
    """The next date with this day of the month, today included."""
    days = (said + timedelta(days=ahead) for ahead in range(62))
    return next((candidate for candidate in days if candidate.day == day), None)


def _nearest(said: date, month: int, day: int) -> date:
    """The date with this month and day that is nearest to `said`, in any year."""
    days = []
    for year in (said.year - 1, said.year, said.year + 1):
        try:
            days.append(date(year, month, day))
        except ValueError:  # 29 February
            continue
    return min(days, key=lambda candidate: abs(candidate - said))
