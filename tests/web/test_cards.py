"""Cards as they are displayed: the notes next to a line, and where its parts link to."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from backscroll.web.cards import Segment, fallback, lines
from backscroll.web.times import Times
from support.reading import HARBOR, LAB, chat_of_two_namespaces, made_of

TIMES = Times(UTC, "UTC", 2026)


def test_an_earlier_message_is_shown_next_to_the_phrase_it_explains(tmp_path: Path) -> None:
    with chat_of_two_namespaces(tmp_path):
        newest, _ = made_of(tmp_path)[0].cards(HARBOR)
    line = lines(newest, TIMES)[0]
    assert (line.time, line.author) == ("09:03", "Ana")
    assert line.segments == (
        Segment("The old one", (3,), gap=0),
        Segment(" ", (3,)),
        Segment(
            "The pump at berth seven leaks oil since Friday.",
            (0,),
            earlier=True,
            by="Ana",
            time="2 Mar 09:00",
        ),
        Segment(" is fixed, no more oil at berth seven.", (3,)),
    )
    assert line.words == "The old one is fixed, no more oil at berth seven."


@pytest.mark.parametrize(
    ("times", "line", "note"),
    [
        (Times(ZoneInfo("Europe/Oslo"), "Europe/Oslo", 2026), "10:03", "2 Mar 10:00"),
        (Times(ZoneInfo("Pacific/Auckland"), "Pacific/Auckland", 2026), "22:03", "2 Mar 22:00"),
        (Times(UTC, "UTC", 2027), "09:03", "2 Mar 2026 09:00"),
    ],
)
def test_times_are_of_the_pages_zone_and_show_a_year_that_is_not_the_current_one(
    tmp_path: Path, times: Times, line: str, note: str
) -> None:
    with chat_of_two_namespaces(tmp_path):
        newest, _ = made_of(tmp_path)[0].cards(HARBOR)
    first = lines(newest, times)[0]
    assert (first.time, [part.time for part in first.segments if part.earlier]) == (line, [note])


@pytest.mark.parametrize(
    ("end", "year", "shown"),
    [
        (datetime(2026, 12, 31, 21, tzinfo=UTC), 2026, "22:00"),
        (datetime(2026, 12, 31, 23, tzinfo=UTC), 2026, "Fri 1 Jan 2027, 00:00"),
        (datetime(2026, 12, 30, 23, tzinfo=UTC), 2026, "00:00"),
        (datetime(2027, 1, 1, 9, tzinfo=UTC), 2027, "Fri 1 Jan 2027, 10:00"),
    ],
)
def test_the_end_of_a_window_shows_its_day_and_year_where_they_are_others(
    end: datetime, year: int, shown: str
) -> None:
    times = Times(ZoneInfo("Europe/Oslo"), "Europe/Oslo", year)
    start = datetime(2026, 12, 30, 23, tzinfo=UTC)  # 31 December in Oslo
    assert times.until(start, end) == shown
    assert times.until(start, datetime(2026, 12, 29, 22, tzinfo=UTC)) == (
        "Tue 29 Dec, 23:00" if year == 2026 else "Tue 29 Dec 2026, 23:00"
    )


def test_unsupported_details_of_a_models_summary_are_marked(tmp_path: Path) -> None:
    with chat_of_two_namespaces(tmp_path):
        cards = made_of(tmp_path)[0].cards(LAB)
    (line,) = lines(cards[1], TIMES)
    assert [part.text for part in line.segments if part.doubted] == ["Peter"]
    assert (line.author, lines(cards[0], TIMES)) == (None, [])


@pytest.mark.parametrize(
    ("degraded", "words"),
    [
        ("budget", "the daily token limit was reached"),
        ("summary: timeout", "the model timed out"),
        ("gaps: circuit_open; summary: circuit_open", "the model kept failing"),
        (
            "gaps: schema; summary: truncated",
            "the model gave an invalid answer, the model's answer was cut off",
        ),
        ("summary: error", "error"),
    ],
)
def test_a_card_explains_why_the_model_was_not_used(degraded: str, words: str) -> None:
    assert fallback(degraded) == words
