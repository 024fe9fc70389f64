"""Cards as they are drawn: what stands beside a line, and where its parts lead."""

from __future__ import annotations

from pathlib import Path

from reading import HARBOR, LAB, chat_of_two_namespaces, made_of

from web.cards import Segment, lines


def test_an_earlier_message_stands_beside_the_phrase_that_it_explains(tmp_path: Path) -> None:
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


def test_what_no_message_supports_is_marked_in_a_models_summary(tmp_path: Path) -> None:
    with chat_of_two_namespaces(tmp_path):
        cards = made_of(tmp_path)[0].cards(LAB)
    (line,) = lines(cards[1])
    assert [part.text for part in line.segments if part.doubted] == ["Peter"]
    assert (line.author, lines(cards[0])) == (None, [])
