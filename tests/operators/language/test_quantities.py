from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.language.quantities import blanked, find_quantities


def read(text: str) -> list[str]:
    return [text[figure.start : figure.end] for figure in find_quantities(text)]


def facts(text: str) -> set[tuple[str, object]]:
    """The facts of the only quantity in a text."""
    (figure,) = find_quantities(text)
    return set(figure.facts)


@pytest.mark.parametrize(
    "text", ["6pm", "6 PM", "6:00 p.m.", "18:00", "18:00:00", "18 Uhr", "18.00 Uhr", "18時", "6 o'clock"]
)
def test_a_time_of_day_is_minutes_after_midnight_in_every_notation(text: str) -> None:
    assert ("clock", 1080) in facts(text)


def test_a_time_without_am_or_pm_may_be_either() -> None:
    assert facts("6:30") == {("clock", 390), ("clock", 1110)}
    assert facts("12am") == {("clock", 0)}
    assert facts("12:15 PM") == {("clock", 735)}


@pytest.mark.parametrize(
    "text",
    ["2 March", "March 2", "March 2nd", "2nd of March", "the 2. März", "2 de marzo", "3月2日", "2 mar"],
)
def test_a_date_without_a_year_has_year_zero(text: str) -> None:
    assert facts(text) == {("date", (0, 3, 2))}


@pytest.mark.parametrize(
    "text",
    ["2026-03-02", "2 March 2026", "March 2, 2026", "2. März 2026", "2 de marzo de 2026", "2026年3月2日"],
)
def test_a_date_with_a_year_is_unambiguous(text: str) -> None:
    assert facts(text) == {("date", (2026, 3, 2))}


@pytest.mark.parametrize("text", ["02.03.2026", "2.3.26", "3/2/2026", "02/03/26"])
def test_a_date_in_digits_may_be_day_first_or_month_first(text: str) -> None:
    expected = {("date", (2026, 3, 2)), ("date", (2026, 2, 3))}
    assert facts(text) == (expected if text != "2.3.26" else {("exact", "2.3.26")})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1024", ["1024"]),
        ("1,024", ["1024", "1.024"]),
        ("1.024", ["1024", "1.024"]),
        ("1 024", ["1024"]),
        ("1'024'000", ["1024000"]),
        ("1,024.50", ["1024.5"]),
        ("1.024,50", ["1024.5"]),
        ("2.5", ["2.5"]),
        ("2,5", ["2.5"]),
        ("15", ["15"]),
        ("１５", ["15"]),
        ("5k", ["5", "5000"]),
        ("2 million", ["2", "2000000"]),
        ("seven", ["7"]),
        ("twenty-five", ["25"]),
        ("three hundred", ["300"]),
        ("sieben", ["7"]),
        ("siete", ["7"]),
        ("20secs", ["20"]),
    ],
)
def test_a_number_is_read_in_english_and_continental_notation(text: str, values: list[str]) -> None:
    assert facts(text) == {("number", (Decimal(value), "")) for value in values}


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("€640", 640, "EUR"),
        ("640 EUR", 640, "EUR"),
        ("640 euros", 640, "EUR"),
        ("$5", 5, "USD"),
        ("five dollars", 5, "USD"),
        ("15%", 15, "%"),
        ("15 %", 15, "%"),
        ("15 percent", 15, "%"),
        ("15 Prozent", 15, "%"),
        ("640円", 640, "JPY"),
    ],
)
def test_an_amount_keeps_its_unit(text: str, value: int, unit: str) -> None:
    assert facts(text) == {("number", (Decimal(value), unit))}


def test_years_ordinals_months_and_weekdays_have_their_own_facts() -> None:
    assert facts("in 2022") == {("number", (Decimal(2022), "")), ("year", 2022)}
    assert facts("the 3rd") == {("number", (Decimal(3), "")), ("ordinal", 3)}
    assert facts("in September") == facts("im september") == {("month", 9)}
    assert facts("on Wednesday") == facts("am Mittwoch") == facts("el miércoles") == {("weekday", 2)}
    assert facts("木曜日") == {("weekday", 3)}


@pytest.mark.parametrize(
    "text",
    [
        "HAR-335",
        "#12",
        "`make -j 4`",
        "@ana.b",
        "https://x.y/z?a=1",
        "v2.1",
        "0.19.1",
        "m17",
        "snake_case",
        "9fceb02",
    ],
)
def test_an_identifier_is_an_exact_string(text: str) -> None:
    assert facts(f"see {text}, or") == {("exact", text)}


def test_ambiguous_month_names_need_a_preposition() -> None:
    assert read("We may march on. In May we rest, in March too.") == ["May", "March"]


def test_small_counts_ordinals_in_words_and_list_numbers_are_not_claims() -> None:
    text = "1. One of both, the second and fourth.\n2) three, 4"
    assert [text[f.start : f.end] for f in find_quantities(text) if f.is_claim] == ["three", "4"]


def test_quantities_are_found_in_order_and_can_be_blanked() -> None:
    text = "At 6pm on 2 March: €640 for HAR-335."
    assert read(text) == ["6pm", "2 March", "€640", "HAR-335"]
    assert blanked(text, find_quantities(text)) == "At \0\0\0 on \0\0\0\0\0\0\0: \0\0\0\0 for \0\0\0\0\0\0\0."


FRAGMENTS = st.sampled_from(
    ["12", "3.5", "1,024", "March ", " 2nd ", "`a", "@b", "18:00", "€", "%", "月", "\n", "six "]
)


@given(st.lists(st.one_of(FRAGMENTS, st.text(max_size=8)), max_size=12).map("".join))
@settings(max_examples=300, deadline=None)
def test_quantities_of_any_text_are_in_order_and_do_not_overlap(text: str) -> None:
    found = find_quantities(text)
    edges = [edge for figure in found for edge in (figure.start, figure.end)]
    assert edges == sorted(edges)
    assert all(0 <= figure.start < figure.end <= len(text) and figure.facts for figure in found)
