"""Cards as they are displayed: the notes next to a line, and where its parts link to."""

from __future__ import annotations

from pathlib import Path

import pytest

from backscroll.web.cards import Segment, fallback, lines
from support.reading import HARBOR, LAB, chat_of_two_namespaces, made_of


def test_an_earlier_message_is_shown_next_to_the_phrase_it_explains(tmp_path: Path) -> None:
    with chat_of_two_namespaces(tmp_path):
        newest, _ = made_of(tmp_path)[0].cards(HARBOR)
    line = lines(newest)[0]
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


def test_unsupported_details_of_a_models_summary_are_marked(tmp_path: Path) -> None:
    with chat_of_two_namespaces(tmp_path):
        cards = made_of(tmp_path)[0].cards(LAB)
    (line,) = lines(cards[1])
    assert [part.text for part in line.segments if part.doubted] == ["Peter"]
    assert (line.author, lines(cards[0])) == (None, [])


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
