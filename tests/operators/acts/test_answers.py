from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.operators.acts.answers import answer_figures, answers_to, candidates, is_question
from backscroll.operators.acts.features import Neighbourhood
from backscroll.operators.acts.linear import LinearModel
from backscroll.operators.catchup.act_items import ANSWERS
from support.acting import acts_of, read
from support.building import HashingEmbedder

BOTH = pytest.mark.parametrize("vectors", [False, True], ids=["words", "vectors"])


def around(*lines: str) -> Neighbourhood:
    return Neighbourhood(read(*lines, minutes=1))


def test_messages_that_ask_are_questions_unless_a_bot_wrote_them() -> None:
    near = around(
        "Ana: Where is the key?", "Ben: I wonder who has it.", "Cem: On the hook.", "bot: Deploy now?"
    )
    assert [is_question(near, place) for place in range(4)] == [True, True, False, False]


def test_candidates_are_messages_of_other_people_after_the_question() -> None:
    near = around(
        "Ben: hello",
        "Ana: Where is the key?",
        "Ana: I need it.",
        "Ben: On the hook.",
        "bot: Done.",
        "Cem: ok",
    )
    assert candidates(near, 1) == [3, 5]


def test_a_reply_is_a_candidate_however_late() -> None:
    talk = [f"Ben: The tide is at {n}." for n in range(60)]
    near = around("Ana: Where is the key?", *talk, "Cem>m0: On the hook.")
    found = candidates(near, 0)
    assert found[-1] == 61
    assert 10 < len(found) < 61
    assert 61 not in candidates(around("Ana: Where is the key?", *talk, "Cem: On the hook."), 0)


@BOTH
def test_a_question_after_which_nobody_else_speaks_has_no_answer(vectors: bool) -> None:
    acts = acts_of(
        "Ben: hello", "Ana: Where is the key?", "Ana: I need it.", "Ana: Found it!", vectors=vectors
    )
    assert acts[1].probabilities["question"] > 0
    assert acts[1].answers == ()
    assert not acts[1].answered(0.0)


def test_figures_of_a_reply() -> None:
    near = around(
        "Ana: Where is the key?",
        "Ana: I need it.",
        "Cem: The key is wet.",
        "Ben>m0: Behind it.",
        "Ana: thanks",
    )
    found, talk = answer_figures(near, 0, 3), answer_figures(near, 0, 2)
    assert (found["reply"], talk["reply"]) == (1, 0)
    assert (found["others between"], talk["others between"]) == (log(2), 0)
    assert (found["messages between"], talk["messages between"]) == (log(3), log(2))
    assert (found["asker went on"], talk["asker went on"]) == (1, 1)
    assert (found["seconds"], talk["seconds"]) == (log(181), log(121))
    assert (found["asker thanks"], talk["asker thanks"]) == (1, 1)
    assert talk["shared"] > found["shared"] == 0


def test_figures_of_names() -> None:
    near = around(
        "Ana: Ben, where is the key?", "Cem: @Dora lunch?", "Ben: @Ana on the hook.", "Ben: No, it fell."
    )
    lunch, told, more = (answer_figures(near, 0, place) for place in (1, 2, 3))
    assert [one["names asker"] for one in (lunch, told, more)] == [0, 1, 0]
    assert [one["addresses another"] for one in (lunch, told, more)] == [1, 0, 0]
    assert [one["was asked"] for one in (lunch, told, more)] == [0, 1, 1]
    assert [one["was asked, first words"] for one in (lunch, told, more)] == [0, 1, 0]


def test_likeness_is_a_figure_if_there_are_vectors() -> None:
    texts = ["Where is the key?", "Where is the key?"]
    messages = read(f"Ana: {texts[0]}", f"Ben: {texts[1]}")
    with_vectors = Neighbourhood(messages, HashingEmbedder().embed_passages(texts))
    assert answer_figures(with_vectors, 0, 1)["alike"] == pytest.approx(1)
    assert "alike" not in answer_figures(Neighbourhood(messages), 0, 1)


def test_answers_are_sorted_by_probability_then_place() -> None:
    near = around("Ana: Where is the key?", "Ben: On the hook.", "Cem>m0: In the drawer.", "Dora: hm")
    found = answers_to(near, 0, LinearModel(-1.0, {"reply": 3.0}))
    assert [answer.place for answer in found] == [2, 1, 3]
    assert found[0].probability == pytest.approx(0.881, abs=0.001)


@given(
    st.lists(
        st.tuples(st.sampled_from(["Ana", "Ben", "林", "bot"]), st.text(max_size=40)), min_size=1, max_size=8
    )
)
def test_no_answer_is_by_the_asker_or_a_bot_or_before_the_question(said: list[tuple[str, str]]) -> None:
    acts = acts_of(*(f"{name}: {text}?" for name, text in said))
    for place, one in enumerate(acts):
        for answer in one.answers:
            author = acts[answer.place].message.turn.author
            assert answer.place > place
            assert author.id != one.message.turn.author.id
            assert not author.bot
            assert 0 <= answer.probability <= 1


# Chats with the places of a question and of its obvious answer.
ANSWERED = [
    (
        "the next speaker",
        (1, 2),
        [
            "Ana: Morning!",
            "Ben: Where did you put the keys of the boat shed?",
            "Ana: They hang on the hook behind the door.",
            "Ben: Thanks!",
        ],
    ),
    (
        "a reply after other talk",
        (0, 3),
        [
            "Ben: Which version of the driver do we need for the new scanner?",
            "Cem: I had a terrible night, the neighbours were dancing.",
            "Dora: oh no",
            "Ana>m0: Version 4.2 of the driver, the older ones cannot read the new scanner.",
            "Ben: Great, thanks Ana.",
            "Cem: I need coffee.",
        ],
    ),
    (
        "the asker is mentioned",
        (0, 2),
        [
            "Ben: How do I restart the import of the bookings after it fails?",
            "Cem: Lunch at noon?",
            "Ana: @Ben run the import again with --resume, it continues after the last booking.",
            "Dora: Noon is fine for me, Cem.",
            "Ben: that worked, thank you",
        ],
    ),
    (
        "German",
        (0, 1),
        [
            "Jana: Wann fängt die Probe am Mittwoch an?",
            "Peer: Die Probe fängt um halb acht an, wie immer.",
            "Jana: Danke!",
            "Olli: Ich habe noch Kuchen mitgebracht.",
        ],
    ),
    (
        "German, the asker is mentioned",
        (0, 2),
        [
            "Jana: Wer hat den Schlüssel für den Proberaum?",
            "Olli: Bei mir regnet es schon wieder.",
            "Peer: @Jana den Schlüssel für den Proberaum habe ich, ich bringe ihn mit.",
            "Jana: Super, danke!",
        ],
    ),
    (
        "Spanish",
        (0, 1),
        [
            "Raúl: ¿A qué hora llega el arquitecto mañana?",
            "Eva: El arquitecto llega a las diez.",
            "Raúl: Gracias, Eva!",
            "Leo: Qué frío hace hoy.",
        ],
    ),
    (
        "Japanese",
        (1, 2),
        [
            "佐藤: おはようございます。",
            "森: 会議室はどこですか?",
            "佐藤: 会議室は三階の奥です。",
            "森: ありがとうございます。",
        ],
    ),
    (
        "the person asked answers",
        (0, 2),
        [
            "Ana: Ben, did the harbour master sign the berth plan?",
            "Ana: I need it for the meeting.",
            "Ben: Yes, he signed the berth plan this morning, Ana.",
            "Ana: Great.",
            "Cem: My bike has a flat tyre.",
        ],
    ),
]
TWO_TALKS = [
    "Ana: Does the printer in the control room take A3 paper?",
    "Ben: Where does the ferry to the island leave from?",
    "Cem>m0: Yes, the printer takes A3 from the lower tray.",
    "Dora>m1: The ferry leaves from pier four.",
    "Ana: perfect, thanks",
    "Ben: thanks Dora",
]
ANSWERED += [("the first of two talks", (0, 2), TWO_TALKS), ("the second of two talks", (1, 3), TWO_TALKS)]


@BOTH
@pytest.mark.parametrize(("places", "lines"), [row[1:] for row in ANSWERED], ids=[row[0] for row in ANSWERED])
def test_the_obvious_answer_comes_first(places: tuple[int, int], lines: list[str], vectors: bool) -> None:
    question, answer = places
    one = acts_of(*lines, vectors=vectors)[question]
    assert one.probabilities["question"] > 0
    assert one.answers[0].place == answer
    assert one.answered(ANSWERS)


@BOTH
@pytest.mark.parametrize(
    ("question", "lines"),
    [
        (
            2,
            [
                "Ana: The berth plan is printed.",
                "Ben: Nice.",
                "Ana: Does anyone know where the reports of the harbour master end up?",
            ],
        ),
        (1, ["Ana: hi", "Ben: Which pier does the ferry use?", "Ben: I have to be there at nine."]),
        (
            1,
            [
                "Ana: Morning all",
                "Ben: Does anyone have a spare charger for the old radio?",
                "Cem: @Dora happy birthday!",
                "Dora: @Cem thank you so much!",
                "Cem: @Dora any cake left?",
                "Dora: haha no",
            ],
        ),
        (1, ["Jana: Hallo", "Peer: Weiß jemand, wo das Metronom liegt?"]),
    ],
)
def test_an_open_question_has_no_answer(question: int, lines: list[str], vectors: bool) -> None:
    one = acts_of(*lines, vectors=vectors)[question]
    assert one.probabilities["question"] > 0
    assert not one.answered(ANSWERS)
