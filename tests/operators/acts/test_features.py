from __future__ import annotations

from math import isfinite, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.operators.acts.features import Neighbourhood, sentence_features
from backscroll.operators.acts.reading import ReadSentence
from support.acting import read
from support.building import HashingEmbedder

LIKENESS = {"like next", "like soon", "like later", "like before", "like own", "central"}
# Figures that count over all messages given, or weigh words by how rare they are there.
OVERALL = {"two people", "share", "leads", "share of leads", "to come"}
RARITY = {"done later", "taken up", "taken up next", "takes up"}


def test_the_features_of_a_sentence_are_its_words_runs_and_cues() -> None:
    sentence = ReadSentence(0, 7, ("on", "it"), frozenset({"offers", "accepts"}), False)
    assert sentence_features(sentence) == {
        *("w:^", "w:on", "w:it", "w:$", "w:^ on", "w:on it", "w:it $", "w:^ on it", "w:on it $"),
        *("c:offers", "c:accepts", "c:accepts&offers"),
    }


def test_shared_words_weigh_by_how_rare_they_are() -> None:
    around = Neighbourhood(
        read("Ana: crane harbour", "Ben: crane", "Cem: harbour crane", "Dora: lantern", "Ana: crane lantern")
    )
    assert around.shared(0, 1) == pytest.approx(log(5 / 4))  # `crane`, in four of five
    assert around.shared(0, 2) == pytest.approx(log(5 / 4) + log(5 / 2))
    assert around.shared(0, 3) == 0
    assert around.shared(3, 4) == pytest.approx(log(5 / 2))


def test_likeness_is_the_cosine_to_messages_around() -> None:
    half = 1 / sqrt(2)
    vectors = np.array([[1, 0], [0, 1], [half, half], [1, 0]], np.float32)
    around = Neighbourhood(read("Ana: a", "Ben: b", "Ana: c", "Cem: d"), vectors)
    figures = around.figures(0)
    assert figures["like next"] == pytest.approx(0)
    assert figures["like soon"] == pytest.approx(1)
    assert figures["like own"] == pytest.approx(1)
    assert figures["central"] == pytest.approx((0 + half + 1) / 3)
    assert figures["like before"] == 0
    figures = around.figures(2)
    assert figures["like before"] == pytest.approx(half)  # not the author's own message
    assert figures["like next"] == pytest.approx(half)
    mine = Neighbourhood(read("Ana: a", "Ben: b", "Ana: c"), np.array([[1, 0], [0, 1], [1, 0]], np.float32))
    assert mine.figures(0)["like soon"] == 0
    assert mine.figures(0)["like own"] == 1  # the author's own count here


def test_without_vectors_no_figure_needs_them() -> None:
    messages = read("Ana: one boat", "Ben: two boats")
    vectors = HashingEmbedder().embed_passages(["one boat", "two boats"])
    without, found = Neighbourhood(messages).figures(0), Neighbourhood(messages, vectors).figures(0)
    assert set(found) - set(without) == LIKENESS
    assert {name: found[name] for name in without} == without


def test_figures_of_a_small_chat() -> None:
    around = Neighbourhood(
        read(
            "Ana: Where is the ferry timetable?",
            "Ben>m0: In the drawer of the office. See https://example.com/1",
            "Ben: And `ls` shows it.",
            "Ana: Thanks Ben!",
            minutes=1,
        )
    )
    asked, first, second, last = map(around.figures, range(4))
    assert (asked["questions"], asked["question at end"], asked["replies"]) == (1, 1, 1)
    assert (asked["is reply"], first["is reply"], first["link"], second["code"]) == (0, 1, 1, 1)
    assert (first["is continued"], second["continues"], second["is continued"]) == (1, 1, 0)
    assert (asked["thanks later"], first["calls back"], first["reactions"]) == (1, 1, 1)
    assert asked["silence after"] == pytest.approx(log(61))
    assert first["silence of others"] == pytest.approx(log(121))
    assert asked["silence before"] == last["silence after"] == 14
    assert (asked["distance of others"], last["distance of others"]) == (1, 12)
    assert (asked["share"], asked["two people"]) == (0.5, 1)
    assert asked["to come"] == pytest.approx(log(4))


@pytest.mark.parametrize(("between", "thanked"), [(6, 1), (7, 0)])
def test_thanks_count_if_they_come_soon(between: int, thanked: int) -> None:
    talk = [f"Ben: The tide is at {n}." for n in range(between)]
    figures = Neighbourhood(read("Ana: Where is the key?", *talk, "Ana: thanks")).figures(0)
    assert figures["thanks later"] == thanked


def test_cues_of_the_nearest_messages_by_others_are_taken() -> None:
    around = Neighbourhood(
        read("Ana: Can you print the posters?", "Ben: yes, will do", "Ben: on Friday.", "Ana: Thanks!")
    )
    assert {"before:asks", "before:requests", "after:thanks"} <= around.cues_around(1)
    assert {"before:asks", "after:thanks"} <= around.cues_around(2)
    assert not any(cue.startswith("after:") for cue in around.cues_around(3))


def test_messages_far_away_change_no_figure_that_is_about_the_neighbourhood() -> None:
    near = [
        f"{['Ana', 'Ben', 'Cem'][n % 3]}: The boat {n} is at the pier, can you see it?" for n in range(230)
    ]
    far = [f"Dora: We decided on lantern {n}." for n in range(20)]
    texts = [line.split(": ", 1)[1] for line in near + far]
    vectors = HashingEmbedder().embed_passages(texts)
    alone = Neighbourhood(read(*near), vectors[: len(near)])
    longer = Neighbourhood(read(*near, *far), vectors)
    for place in (0, 30, len(near) - 201):
        before, after = alone.figures(place), longer.figures(place)
        for name in set(before) - OVERALL - RARITY:
            assert after[name] == pytest.approx(before[name]), name
        assert longer.cues_around(place) == alone.cues_around(place)


SAID = st.tuples(
    st.sampled_from(["Ana", "林", "דנה", "bot"]),
    st.one_of(
        st.text(max_size=60), st.sampled_from(["", "👍🎉", "שלום, מה נשמע?", "مرحبا؟", "+1", "😀" * 9])
    ),
)


@given(st.lists(SAID, min_size=1, max_size=9), st.booleans())
def test_any_chat_gives_finite_figures(said: list[tuple[str, str]], embedded: bool) -> None:
    messages = read(*(f"{name}: {text}" for name, text in said))
    vectors = HashingEmbedder().embed_passages([text for _, text in said]) if embedded else None
    around = Neighbourhood(messages, vectors)
    for place in range(len(messages)):
        figures = around.figures(place)
        assert all(map(isfinite, figures.values()))
        assert (set(figures) >= LIKENESS) is embedded
