"""Catch-ups as text: the times of their lines."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest

from backscroll.flows.terminal.digest_text import Form
from backscroll.operators.catchup.context import EarlierMessage
from backscroll.operators.catchup.digest import ChannelDigest, DigestItem, LeftOut
from backscroll.operators.language.phrasebook import phrase_books
from backscroll.operators.messages import ChannelKey
from support.building import turn

EVE = datetime(2025, 12, 30, 23, 30, tzinfo=UTC)  # the 31st in Oslo
OSLO = ZoneInfo("Europe/Oslo")


def lines(hours: int, zone: tzinfo, year: int) -> list[str]:
    """The lines about two messages, `hours` apart, as they are read in a year."""
    first, last = (
        replace(turn(seq, text), ts=EVE + timedelta(hours=later))
        for seq, text, later in ((1, "It leaks.", 0), (2, "It is fixed.", hours))
    )
    digest = ChannelDigest(
        ChannelKey("acme", "dock"),
        phrase_books()["en"],
        "read",
        2,
        ("Ana",),
        first,
        last,
        {
            "highlights": (
                DigestItem("highlight", first.text, (first,)),
                DigestItem("highlight", last.text, (last,), (EarlierMessage(first, first.text),)),
            )
        },
        LeftOut(),
    )
    form = Form(zone, "here", None, markdown=False, now=datetime(year, 6, 1, tzinfo=UTC))
    return [line for line in form.digests([digest], []).split("\n") if line.startswith("- ")]


@pytest.mark.parametrize(
    ("hours", "zone", "year", "times"),
    [
        (1, OSLO, 2025, ("00:30", "01:30", "00:30")),
        (1, OSLO, 2027, ("00:30", "01:30", "00:30")),
        (1, UTC, 2025, ("12-30 23:30", "12-31 00:30", "2025-12-30 23:30")),
        (1, UTC, 2027, ("2025-12-30 23:30", "2025-12-31 00:30", "2025-12-30 23:30")),
        (24, OSLO, 2025, ("2025-12-31 00:30", "2026-01-01 00:30", "2025-12-31 00:30")),
    ],
)
def test_lines_show_the_year_where_it_is_not_the_current_one_or_the_span_has_two(
    hours: int, zone: tzinfo, year: int, times: tuple[str, str, str]
) -> None:
    first, last, earlier = times
    assert lines(hours, zone, year) == [
        f"- {first} Ana: It leaks.  (m1)",
        f"- {last} Ana: It is fixed. [Ana, {earlier}: It leaks.]  (m2, m1)",
    ]
