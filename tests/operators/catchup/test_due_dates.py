from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.operators.catchup.due_dates import Due, find_due
from backscroll.operators.language.phrasebook import phrase_books

BOOKS = phrase_books()
MONDAY = date(2026, 3, 2)


@pytest.mark.parametrize(
    ("code", "text", "due"),
    [
        ("en", "fix by wednesday evening", Due("by wednesday", date(2026, 3, 4))),
        ("en", "next wave on Monday 13 April, then", Due("on Monday 13 April", date(2026, 4, 13))),
        ("en", "Both are valid until Friday the 13th.", Due("until Friday the 13th", date(2026, 3, 13))),
        ("en", "send it tomorrow", Due("tomorrow", date(2026, 3, 3))),
        ("en", "see you monday", Due("monday", date(2026, 3, 9))),
        ("en", "before March 11", Due("before March 11", date(2026, 3, 11))),
        ("en", "by 2026-03-13", Due("by 2026-03-13", date(2026, 3, 13))),
        ("en", "it lies there since friday night", None),
        ("en", "on 30 February", None),
        ("en", "may I ask? 3 days of marching", None),
        ("de", "Das Konzert ist am Samstag, 27. Juni.", Due("am Samstag, 27. Juni", date(2026, 6, 27))),
        ("de", "schick mir das bitte bis Donnerstag", Due("bis Donnerstag", date(2026, 3, 5))),
        ("de", "Übermorgen!", Due("Übermorgen", date(2026, 3, 4))),
        ("es", "para el miércoles 20 a las ocho", Due("para el miércoles 20", date(2026, 5, 20))),
        ("es", "Los llamo mañana.", Due("mañana", date(2026, 3, 3))),
        ("es", "los llamé por la mañana", None),
        ("ja", "水曜日までに送ります。", Due("水曜日までに", date(2026, 3, 4))),
        ("ja", "公開日は6月18日(木)です", Due("6月18日", date(2026, 6, 18))),
    ],
)
def test_a_due_date_is_found_with_its_words(code: str, text: str, due: Due | None) -> None:
    said = date(2026, 5, 12) if code == "es" and "20" in text else MONDAY
    assert find_due(text, said, BOOKS[code]) == due


@given(st.sampled_from(sorted(BOOKS)), st.text(max_size=60), st.dates())
def test_a_due_date_quotes_the_text_and_is_never_in_the_past(code: str, text: str, said: date) -> None:
    due = find_due(text, said, BOOKS[code])
    assert due is None or (due.date >= said and due.text in " ".join(text.split()))


@given(st.dates(date(2000, 1, 1), date(2100, 1, 1)), st.integers(0, 6))
def test_a_weekday_means_the_next_one_after_the_message(said: date, weekday: int) -> None:
    name = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[weekday]
    due = find_due(f"by {name}", said, BOOKS["en"])
    assert due is not None
    assert due.date.weekday() == weekday
    assert 1 <= (due.date - said).days <= 7
