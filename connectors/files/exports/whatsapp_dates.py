"""Find the order in which a file writes day, month and year.

>>> date_order([(1, 2, 26), (2, 2, 26), (13, 2, 26)])
'dmy'
>>> date_order([(2, 1, 26), (2, 3, 26)])
'mdy'
>>> date_order([(26, 2, 1), (26, 2, 3)])
'ymd'
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Literal, TypeAlias

__all__ = ["DateOrder", "Numbers", "date_order", "dated"]

DateOrder: TypeAlias = Literal["dmy", "mdy", "ymd"]
Numbers: TypeAlias = tuple[int, int, int]


def dated(numbers: Numbers, order: DateOrder) -> datetime:
    """The date that the numbers stand for, as midnight UTC.

    Raises:
        ValueError: the date does not exist.
    """
    first, second, third = numbers
    year, month, day = {
        "dmy": (third, second, first),
        "mdy": (third, first, second),
        "ymd": (first, second, third),
    }[order]
    return datetime(year + 2000 if year < 100 else year, month, day, tzinfo=UTC)


def date_order(dates: Iterable[Numbers], *, twelve_hours: bool = False) -> DateOrder:
    """The order in which most dates exist, fewest go back in time, and all lie closest together.

    If two orders hardly differ in the last point, the more common one wins.

    Args:
        dates: the numbers as the file writes them, in file order.
        twelve_hours: whether the file uses a 12-hour clock. This breaks ties, as regions that do mostly
            write the month first.
    """
    dates = list(dates)
    usual: tuple[DateOrder, ...] = ("mdy", "dmy", "ymd") if twelve_hours else ("dmy", "mdy", "ymd")
    found = {order: _badness(dates, order) for order in usual}
    best = min(usual, key=found.__getitem__)
    for order in usual:  # a rarer order must at least halve the span of dates
        if found[order][:2] == found[best][:2] and found[order][2] <= 2 * found[best][2]:
            return order
    return best


def _badness(dates: list[Numbers], order: DateOrder) -> tuple[int, int, int]:
    days, impossible = list[int](), 0
    for numbers in dates:
        try:
            days.append(dated(numbers, order).toordinal())
        except ValueError:
            impossible += 1
    backwards = sum(later < earlier for earlier, later in pairwise(days))
    return impossible, backwards, max(days) - min(days) if days else 0
