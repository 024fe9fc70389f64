from __future__ import annotations

import doctest

from hypothesis import given
from hypothesis import strategies as st

from backscroll.operators.catchup import split_message as module
from backscroll.operators.catchup.split_message import pages

LINES = st.lists(st.text("ab .。&-é", max_size=60), max_size=12)


def test_the_docstring_examples_are_correct() -> None:
    assert doctest.testmod(module) == (0, 2)


@given(LINES, st.integers(5, 80))
def test_no_part_exceeds_the_limit_and_nothing_is_lost(lines: list[str], limit: int) -> None:
    text = "\n".join(lines)
    parts = pages(text, limit)
    assert all(0 < len(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


@given(st.lists(st.text("ab ", min_size=1, max_size=20), min_size=1, max_size=12), st.integers(30, 60))
def test_an_item_that_fits_is_never_split(words: list[str], limit: int) -> None:
    items = [f"- x{word}x" for word in words]
    held = [line for part in pages("\n".join(["Decisions", *items]), limit) for line in part.split("\n")]
    assert held == ["Decisions", *items]


def test_a_heading_stays_with_its_first_item() -> None:
    text = "general\n\nDecisions\n- we ship on Monday\n\nOpen questions\n- who tells the pilots?"
    assert pages(text, 50) == [
        "general\n\nDecisions\n- we ship on Monday",
        "Open questions\n- who tells the pilots?",
    ]


def test_a_long_item_is_split_after_a_sentence_else_a_word_else_anywhere() -> None:
    assert pages("- One two. Three four five", 16) == ["- One two.", "Three four five"]
    assert pages("- One two three four", 14) == ["- One two", "three four"]
    assert pages("abcdefgh", 3) == ["abc", "def", "gh"]
