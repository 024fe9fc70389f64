from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.operators.acts.reading import ReadMessage, asks, read_messages
from backscroll.operators.language.salience import analyse_turns
from support.acting import read
from support.chats import chat

MARKS = {"approves", "recorded_decision", "recorded_action", "recorded_topic", "smiles"}


def one(text: str) -> ReadMessage:
    """A message among those of Ben, Cem Kaya and Will."""
    turns = chat(f"Ana: {text}")
    (message,) = read_messages(analyse_turns(turns), ["Ana", "Ben", "Cem Kaya", "Will", "Jo"])
    return message


def words(text: str) -> list[str]:
    return [word for sentence in one(text).sentences for word in sentence.words]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ben sails", ["NAME", "sails"]),
        ("BEN sails with cem", ["NAME", "sails", "with", "NAME"]),
        ("Cem Kaya sails", ["NAME", "sails"]),
        ("@ben sails with <@U123>", ["NAME", "sails", "with", "NAME"]),
        ("benches and Benni", ["benches", "and", "benni"]),
        ("will Jo sail?", ["will", "jo", "sail", "?"]),  # a common word, and a name of two letters
        ("It's 12:30 or 1,500.25 of 7", ["it's", "NUM", "or", "NUM", "of", "NUM"]),
        ("Really?!", ["really", "?", "!"]),
    ],
)
def test_names_mentions_and_numbers_are_made_alike(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_a_sentence_that_starts_with_a_name_calls_somebody() -> None:
    assert {"named", "calls"} <= one("Ben, the boat leaks.").cues
    assert {"named", "calls"} <= one("@cem the boat leaks.").cues
    assert one("The boat of Ben leaks.").cues & {"named", "calls"} == {"named"}
    assert one("The boat leaks.").cues & {"named", "calls"} == set()


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("+1", {"approves"}),
        ("+1 from me", {"approves"}),
        ("👍", {"approves"}),
        (":thumbsup:", {"approves"}),
        ("3+1 boats, or +12", set()),
        ("#agreed we meet on Mondays", {"recorded_decision"}),
        ("AGREED: we meet on Mondays", {"recorded_decision"}),
        ("#agreements are kept in the drawer", set()),
        ("ACTION: write the report", {"recorded_action"}),
        ("ACTION ITEM: write the report", {"recorded_action"}),
        ("#todo write the report", {"recorded_action"}),
        ("the action: nobody moves", set()),
        ("#topic the harbour", {"recorded_topic"}),
        ("Fine :)", {"smiles"}),
        ("Fine 😂", {"smiles"}),
    ],
)
def test_marks_mean_the_same_in_every_language(text: str, marks: set[str]) -> None:
    assert one(text).cues & MARKS == marks
    german = read(f"Ana: {text}", "Ben: Das ist aber nicht so schön wie die anderen.")[0]
    assert german.cues & MARKS == marks


def test_each_message_is_read_with_the_cues_of_its_language() -> None:
    german, spanish, japanese, english = read(
        "Ana: Ich kümmere mich um die Halle, das ist nicht schwer.",
        "Raúl: Hemos decidido que la visita no es para mañana.",
        "森: 明日までに送ります。",
        "Ben: I'll take the notes for the group.",
    )
    assert "commits" in german.cues
    assert "decides" in spanish.cues
    assert "commits" in japanese.cues
    assert "commits" in english.cues


def test_code_and_links_leave_no_words() -> None:
    assert words("See ```we decided to ship it``` and https://example.com/we-decided now") == [
        "see",
        "and",
        "now",
    ]
    assert "decides" not in one("See ```we decided``` and <https://example.com/we-decided>").cues


@pytest.mark.parametrize(
    ("sentence", "asking"),
    [
        ("Where is it?", True),
        ("Where is it? :", True),
        ('"Where is it?"', True),
        ("(is it there?)", True),
        ("どこにありますか。", True),
        ("どこ？", True),
        ("أين هو؟", True),
        ("Is it 😀?😀", True),
        ("Where is it", False),
        ("It is there.", False),
        ("Who? Me.", False),
        ("", False),
    ],
)
def test_a_question_is_told_by_its_end(sentence: str, asking: bool) -> None:
    assert asks(sentence) is asking


def test_a_message_asks_if_a_sentence_does() -> None:
    message = one("Where is the key? I looked everywhere.")
    assert [sentence.asks for sentence in message.sentences] == [True, False]
    assert message.asks
    assert not one("I looked everywhere.").asks


@given(st.lists(st.text(max_size=120), min_size=1, max_size=4), st.lists(st.text(max_size=8), max_size=3))
def test_sentences_lie_in_their_message_in_order(texts: list[str], names: list[str]) -> None:
    turns = chat(*(f"Ana: {text}" for text in texts))
    for turn, message in zip(turns, read_messages(analyse_turns(turns), names), strict=True):
        assert message.turn is turn
        end = 0
        for sentence in message.sentences:
            assert end <= sentence.start <= sentence.end <= len(turn.text)
            end = sentence.end
        assert message.cues == {cue for sentence in message.sentences for cue in sentence.cues}
