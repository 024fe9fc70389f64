from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.language.sentences import sentences


def pieces(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t\n", []),
        ("Dr. Lee agreed. Ship it!", ["Dr. Lee agreed.", "Ship it!"]),
        ("No, the U.S. office. Mr. Ito knows.", ["No, the U.S. office.", "Mr. Ito knows."]),
        ("It costs 3.50 a day. Fine?", ["It costs 3.50 a day.", "Fine?"]),
        ("  two \n\n lines  ", ["two", "lines"]),
        ("one\r\ntwo", ["one", "two"]),
        ("no full stop", ["no full stop"]),
        ("今日は晴れ。明日は？わからない！", ["今日は晴れ。", "明日は？", "わからない！"]),
        ("「はい。」と言った。", ["「はい。」", "と言った。"]),
        ("我们明天发布。Ben agreed. 好！！", ["我们明天发布。", "Ben agreed.", "好！！"]),
    ],
)
def test_sentences_end_at_full_stops_and_line_breaks(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


def test_a_closing_bracket_stays_with_its_sentence() -> None:
    assert pieces("彼は「（行く！）」と言った。") == ["彼は「（行く！）」", "と言った。"]


def test_punctuation_before_the_first_word_of_a_line_is_kept() -> None:
    assert pieces("！重要。") == ["！重要。"]


def test_repeated_punctuation_ends_one_sentence() -> None:
    assert pieces("Ship it!! Now?! Yes!!") == ["Ship it!!", "Now?!", "Yes!!"]


@given(text=st.text(st.sampled_from("ab A.!? \n\r\t,é:")) | st.text(max_size=40))
@settings(database=None, deadline=None)
def test_spans_are_ascending_disjoint_stripped_and_within_a_line(text: str) -> None:
    spans = sentences(text)
    assert all(start < end for start, end in spans)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    for start, end in spans:
        assert text[start:end] == text[start:end].strip()
        assert "\n" not in text[start:end]


@given(text=st.text(st.characters(exclude_characters="。！？", exclude_categories=["Cs"])))
@settings(database=None, deadline=None)
def test_nothing_but_white_space_lies_outside_the_spans(text: str) -> None:
    kept = "".join(pieces(text))
    assert "".join(kept.split()) == "".join(text.split())
