from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.operators.acts.answers import Answer
from backscroll.operators.acts.classifier import KINDS, ActKind, Acts
from backscroll.operators.catchup.act_items import (
    ANSWERS,
    CatchupItem,
    find_highlights,
    find_items,
    quoted,
)
from backscroll.operators.catchup.people import Person
from backscroll.operators.language.chat_language import main_book
from backscroll.operators.language.salience import analyse_turns
from support.acting import CHATS, ENGLISH, SMALL_TALK, acts_of
from support.chats import chat

BOTH = pytest.mark.parametrize("vectors", [False, True], ids=["words", "vectors"])
ACTING = frozenset({"commits", "requests", "asks"})
Found = tuple[str, str | None, str | None]


def people_of(acts: Sequence[Acts]) -> list[Person]:
    authors = {one.message.turn.author.id: one.message.turn.author for one in acts}
    return [Person.named(author.id, authors.values()) for author in authors.values()]


def items(acts: Sequence[Acts], first: int = 0) -> dict[str, Found]:
    """The kind, owner and due date of each item in a chat, by message id."""
    found = find_items(acts, people_of(acts), UTC, first=first)
    return {
        one.turn.id: (one.kind, one.owner, None if one.due is None else one.due.date.isoformat())
        for one in found
    }


def told(kind: ActKind, *lines: str, answers: tuple[Answer, ...] = ()) -> list[Acts]:
    """A chat whose last message is of a kind for certain, and the others of none."""
    acts = acts_of(*lines)
    nothing = dict.fromkeys(KINDS, 0.0)
    return [
        replace(
            one,
            probabilities={**nothing, kind: 0.9} if one is acts[-1] or answers else nothing,
            answers=answers if one is acts[0] else (),
            weight=dict.fromkeys(
                KINDS, tuple(float(bool(ACTING & said.cues)) for said in one.message.sentences)
            ),
        )
        for one in acts
    ]


@BOTH
@pytest.mark.parametrize("name", CHATS)
def test_decisions_actions_and_open_questions_are_found_in_four_languages(name: str, vectors: bool) -> None:
    found = items(acts_of(*CHATS[name].lines, vectors=vectors))
    assert {id_: found.get(id_) for id_ in CHATS[name].items} == CHATS[name].items
    assert not set(found) & set(CHATS[name].quiet)


@BOTH
@pytest.mark.parametrize("name", SMALL_TALK)
def test_small_talk_gives_no_items(name: str, vectors: bool) -> None:
    assert items(acts_of(*SMALL_TALK[name], vectors=vectors)) == {}


@BOTH
def test_words_of_deciding_and_promising_are_no_items_alone(vectors: bool) -> None:
    acts = acts_of(
        "Ana: Good morning, how was the harbour party?",
        "Ben: Morning! Loud, and very late.",
        "Cem: hi",
        "Ana: The berths that we agreed on are closed now, by the way.",
        "Ben: Oh, since when?",
        "Ana: Since Monday, the storm broke the pier.",
        "Ben: I will not write about that in the newsletter, it is too sad.",
        "Cem: Poor pier.",
        "Ana: Let's take the second parser as an example, it reads the same file.",
        "Cem: And it never fails?",
        "Ana: It fails as well, but later.",
        "Ben: I'm taking it one day at a time.",
        "opsbot: We decided to deploy. Can you approve?",
        "Cem: haha",
        vectors=vectors,
    )
    assert not {"m3", "m6", "m8", "m11", "m12"} & set(items(acts))


@pytest.mark.parametrize(
    ("lines", "owner", "due"),
    [
        (["Ben: I'll write the release notes by Friday."], "Ben", "2026-03-06"),
        (["Ana: I'll write the notes. How is your berth today?"], "Ana", None),
        (["Ben: hm", "Ana: Ben, can you rotate the tokens tomorrow?"], "Ben", "2026-03-03"),
        (["Ben: hm", "Ana: Ben, send them the archive file."], "Ben", None),
        (["Ben: hm", "Ana: @Ben please send them the archive file."], "Ben", None),
        (["Ana: Can somebody send them the archive file?"], None, None),
        (["Peer: Mache ich bis Freitag."], "Peer", "2026-03-06"),
        (["Peer: hm", "Jana: Peer, kannst du den Vertrag morgen schicken?"], "Peer", "2026-03-03"),
        (["Raúl: Los llamo mañana."], "Raúl", "2026-03-03"),
        (["森: 私が書きます。水曜日までに送ります。"], "森", "2026-03-04"),
    ],
)
def test_an_action_has_its_owner_and_due_date(lines: list[str], owner: str | None, due: str | None) -> None:
    assert items(told("action", *lines)) == {f"m{len(lines) - 1}": ("action", owner, due)}


@pytest.mark.parametrize(("reply", "owner"), [("Yes, I'll do it.", "Cem"), ("It is a nice file.", None)])
def test_a_request_to_everybody_belongs_to_whoever_accepts_it(reply: str, owner: str | None) -> None:
    lines = ("Ana: Can somebody send them the archive file?", "Ben: hm", f"Cem: {reply}")
    request = told("action", *lines, answers=(Answer(2, 0.9), Answer(1, 0.2)))
    assert items(request)["m0"] == ("action", owner, None)


def test_messages_before_the_first_are_no_items() -> None:
    acts = acts_of(*ENGLISH.lines)
    every, later = items(acts), items(acts, first=8)
    assert "m7" in every
    assert later == {id_: item for id_, item in every.items() if int(id_[1:]) >= 8}


@pytest.mark.parametrize("kind", ["decision", "action", "question"])
def test_bots_give_no_items_and_no_highlights(kind: ActKind) -> None:
    acts = told(kind, "Ana: hello", "opsbot: Where do we deploy? We decided to deploy. I'll deploy tomorrow.")
    assert items(acts) == {}
    assert [one.turn.id for one in find_highlights(acts)] == ["m0"]


def test_a_question_with_a_likely_answer_is_not_open() -> None:
    lines = ("Ana: How many rows did the import reject?", "Ben: 37 rows were double.")
    (asked, said) = told("question", *lines, answers=(Answer(1, ANSWERS),))
    assert items([asked, replace(said, probabilities=dict.fromkeys(KINDS, 0.0))]) == {}
    (asked, said) = told("question", *lines, answers=(Answer(1, ANSWERS - 0.01),))
    assert items([asked, replace(said, probabilities=dict.fromkeys(KINDS, 0.0))]) == {
        "m0": ("question", None, None)
    }


@BOTH
def test_a_question_answered_soon_by_somebody_else_is_not_open(vectors: bool) -> None:
    talk = ("Ana: Morning!", "Ben: hey", "Cem: hi all")
    asked = "Ana: How many rows did the import of the bookings reject?"
    answered = acts_of(
        *talk, asked, "Ben: 37 rows of the bookings were double", "Ana: thanks", vectors=vectors
    )
    assert "m3" not in items(answered)
    opened = acts_of(*talk, asked, "Cem: @Ben who wants lunch?", "Ben: @Cem me", vectors=vectors)
    assert items(opened)["m3"] == ("question", None, None)


def test_a_question_and_its_answer_are_one_highlight_that_cites_both() -> None:
    lines = ("Ana: How many rows did the import reject?", "Ben: 37 rows were double.", "Ben: Lunch was good.")
    (answer, lunch) = find_highlights(told("point", *lines, answers=(Answer(1, 0.9),)))
    assert (answer.turn.id, answer.text, [one.id for one in answer.also]) == (
        "m1",
        "37 rows were double.",
        ["m0"],
    )
    assert (lunch.turn.id, lunch.also) == ("m2", ())


def test_a_question_without_an_answer_is_no_highlight() -> None:
    found = find_highlights(told("point", "Ben: Lunch was good.", "Ana: How many rows did it reject?"))
    assert [one.turn.id for one in found] == ["m0"]


def test_highlights_are_sorted_by_how_likely_they_are_worth_telling() -> None:
    acts = acts_of(*ENGLISH.lines)
    found = find_highlights(acts, first=2)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert found[0].turn.id == "m7"
    assert all(one.turn.seq >= 2 for one in found)


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
    found = list[CatchupItem]()
    for kind in KINDS:
        acts = [
            replace(one, probabilities={**one.probabilities, kind: 1.0})
            for one in acts_of(*(f"{name}: {text}" for name, text in said))
        ]
        of_kind = find_items(acts, people_of(acts), UTC)
        assert len({one.turn.id for one in of_kind}) == len(of_kind)
        found += [*of_kind, *find_highlights(acts)]
    for one in found:
        assert one.text.removesuffix(" …") in " ".join(one.turn.text.split())
