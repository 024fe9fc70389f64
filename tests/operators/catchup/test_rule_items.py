from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.operators.catchup.people import Person
from backscroll.operators.catchup.rule_items import find_items, main_book, quoted
from backscroll.operators.language.salience import analyse_turns
from support.chats import chat


def items(*lines: str) -> list[tuple[str, str, str | None, str | None]]:
    """The kind, id, owner and due date of each item in a chat."""
    turns = chat(*lines)
    authors = {turn.author.id: turn.author for turn in turns}
    people = [Person.named(author.id, authors.values()) for author in authors.values()]
    found = find_items(analyse_turns(turns), people, UTC)
    return [(one.kind, one.turn.id, one.owner, one.due and one.due.date.isoformat()) for one in found]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["Ana: We decided to ship the old parser first."], [("decision", "m0", None, None)]),
        (["Ana: The berths that we agreed on are closed now."], []),
        (["Ben: I'll write the release notes by Friday."], [("action", "m0", "Ben", "2026-03-06")]),
        (["Ben: I will not write the release notes."], []),
        (["Ana: Let's take the second parser."], [("decision", "m0", None, None)]),
        (["Ana: Let's take the second parser as an example."], []),
        (["Ana: I'm taking it one day at a time."], []),
        (["Ana: I'll write the notes. How is your berth today?"], [("action", "m0", "Ana", None)]),
        (
            ["Ben: hm", "Ana: Ben, can you rotate the tokens tomorrow?"],
            [("action", "m1", "Ben", "2026-03-03")],
        ),
        (["Ben: hm", "Ana: Ben, send them the archive file."], [("action", "m1", "Ben", None)]),
        (["Ana: Where does the replica of the store run?"], [("question", "m0", None, None)]),
        (["Ana: Where does the replica run?", "Ben>m0: On gannet."], []),
        (["opsbot: We decided to deploy. Can you approve?"], []),
        (["Jana: Dann ist es entschieden: wir nehmen die Halle."], [("decision", "m0", None, None)]),
        (["Peer: Mache ich bis Freitag."], [("action", "m0", "Peer", "2026-03-06")]),
        (["Olli: Wer bringt am Mittwoch das Metronom mit?"], [("question", "m0", None, None)]),
        (["Raúl: Aprobado: el arquitecto viene mañana."], [("decision", "m0", None, None)]),
        (["Raúl: Los llamo mañana."], [("action", "m0", "Raúl", "2026-03-03")]),
        (["佐藤: 公開日は6月18日に決まりました。"], [("decision", "m0", None, None)]),
        (["森: 私が書きます。水曜日までに送ります。"], [("action", "m0", "森", "2026-03-04")]),
        (["佐藤: 広告のバナーは誰が持っていますか?"], [("question", "m0", None, None)]),
    ],
)
def test_decisions_actions_and_open_questions_are_found_in_four_languages(
    lines: list[str], found: list[tuple[str, str, str | None, str | None]]
) -> None:
    assert items(*lines) == found


def test_a_question_answered_soon_by_somebody_else_is_not_open() -> None:
    asked = "Ana: How many rows did the import of the bookings reject?"
    assert items(asked, "Ben: 37 rows of the bookings were double") == []
    assert items(asked, "Ben: who wants lunch?", "Cem: me") == [("question", "m0", None, None)]


def test_the_main_language_is_that_of_most_words() -> None:
    lines = ["Ana: ok", "Ana: Wir haben das gestern schon mit der Druckerei besprochen und bestellt."]
    assert main_book(analyse_turns(chat(*lines))).code == "de"


def test_a_quote_is_whole_sentences_around_the_important_one() -> None:
    text = "First. " + "A long sentence about the harbour. " * 8 + "This one counts. Last."
    start = text.index("This")
    line = quoted(text, start, start + 16)
    assert "This one counts. Last." in line
    assert len(line) <= 220
    assert line in text


@given(st.lists(st.tuples(st.sampled_from(["Ana", "林", "דנה"]), st.text(max_size=80)), max_size=6))
def test_every_item_quotes_one_message_verbatim(said: list[tuple[str, str]]) -> None:
    turns = chat(*(f"{name}: {text}" for name, text in said))
    people = [Person.named(name, [turn.author for turn in turns]) for name in ("Ana", "林")]
    found = find_items(analyse_turns(turns), people, UTC)
    assert len({one.turn.id for one in found}) == len(found)
    for one in found:
        assert one.text.removesuffix(" …") in " ".join(one.turn.text.split())
