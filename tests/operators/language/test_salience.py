"""Salience: what deserves a place in a summary, judged without a model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.language.salience import analyse_turns
from backscroll.operators.messages import Author, Turn


def turn(n: int, text: str, *, bot: bool = False) -> Turn:
    ts = datetime(2026, 3, 2, 9, tzinfo=UTC) + timedelta(minutes=n)
    return Turn(n, f"m{n}", ts, Author(f"u{n % 2}", ("Ana", "Ben")[n % 2], bot), text, 10, 0)


def salience(turns: list[Turn]) -> tuple[float, ...]:
    return tuple(reading.salience for reading in analyse_turns(turns))


def scores(*texts: str) -> tuple[float, ...]:
    return salience([turn(n, text) for n, text in enumerate(texts)])


def test_empty_text_has_no_salience():
    assert salience([]) == ()
    assert scores("", "   ", "?!") == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "text", ["Hi!", "thanks", "lol", "Wow, that's so cool!", "ok 👍", "Good morning, how are you?"]
)
def test_greetings_thanks_and_reactions_have_no_salience(text: str):
    assert scores(text) == (0.0,)


@pytest.mark.parametrize(
    "text",
    [
        "We will ship release 2.1 on Friday after the load test.",
        "Can you review the invoice export before the deadline tomorrow?",
        "I quit my job at the bank yesterday and enrolled in a nursing course.",
        "The nightly build failed because the linker ran out of memory.",
    ],
)
def test_plans_requests_updates_and_results_outweigh_chatter(text: str):
    plan, chatter = scores(text, "Oh nice, that sounds great, happy for you!")
    assert plan > 0.5 > chatter


def test_a_bot_scores_lower_than_a_person_with_the_same_words():
    text = "Deployed version 2.1 to production"
    person, bot = salience([turn(0, text)])[0], salience([turn(0, text, bot=True)])[0]
    assert bot == pytest.approx(0.4 * person)


def test_words_new_to_the_window_score_higher_than_repeated_ones():
    first, second = scores("Postgres upgrade blocks billing", "Postgres upgrade blocks billing")
    assert first > second > 0


def test_code_and_addresses_are_ignored():
    (reading,) = analyse_turns(
        [turn(0, "see `main` <https://example.org/deploy/failed> ```error failed error```")]
    )
    assert [word.text for word in reading.content] == ["main"]


def test_the_longer_update_is_more_salient_in_a_language_without_word_lists():
    short, long = scores("Tak.", "Wczoraj przenieśliśmy bazę danych klientów na nowy serwer w Krakowie.")
    assert short < 0.2
    assert long > 0.4


def test_languages_are_identified_by_their_function_words():
    texts = [
        "The server is down",
        "El servidor no funciona hoy",
        "Der Server ist heute nicht da",
        "サーバーは動きません",
    ]
    found = [analyse_turns([turn(0, text)])[0].lexicon.code for text in texts]
    assert found == ["en", "es", "de", "ja"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(max_size=80), max_size=8))
def test_every_score_is_between_zero_and_one_and_repeatable(texts: list[str]):
    once = scores(*texts)
    assert len(once) == len(texts)
    assert all(0.0 <= score <= 1.0 for score in once)
    assert once == scores(*texts)
