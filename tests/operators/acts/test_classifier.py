from __future__ import annotations

from math import isfinite

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.operators.acts.classifier import KINDS, WEIGHTS, ActKind, ActModel, find_acts, present
from backscroll.operators.acts.features import Neighbourhood
from backscroll.operators.acts.linear import LinearModel
from backscroll.operators.catchup.act_items import LEAST
from support.acting import CHATS, ENGLISH, SMALL_TALK, acts_of, read
from support.building import HashingEmbedder

BOTH = pytest.mark.parametrize("vectors", [False, True], ids=["words", "vectors"])
NOTHING = LinearModel(-2.0, {})


def model(**kinds: LinearModel) -> ActModel:
    """A model of one's own: kinds that are not given are unlikely."""
    return ActModel({kind: kinds.get(kind, NOTHING) for kind in KINDS}, NOTHING, {"characters": [2.0, 5.0]})


@BOTH
def test_the_packaged_models_know_every_kind(vectors: bool) -> None:
    packaged = ActModel.shipped(vectors=vectors)
    assert tuple(packaged.kinds) == KINDS
    for one in packaged.kinds.values():
        assert one.weights
        assert all(map(isfinite, [one.bias, *one.weights.values()]))
        assert (one.vector is not None) is vectors
    assert ("alike" in packaged.answer.weights) is vectors
    assert all(at == sorted(at) for at in packaged.thresholds.values())
    assert ActModel.shipped(vectors=vectors) is packaged


@BOTH
def test_a_model_is_the_same_after_json(vectors: bool) -> None:
    fields = ActModel.read(WEIGHTS, vectors=vectors).to_json()
    assert ActModel.from_json(orjson.loads(orjson.dumps(fields))).to_json() == fields


@BOTH
def test_the_weights_of_figures_belong_to_figures_that_are_computed(vectors: bool) -> None:
    messages = read("Ana: Where is it?", "Ben: there")
    around = Neighbourhood(messages, np.eye(2, dtype=np.float32) if vectors else None)
    packaged = ActModel.shipped(vectors=vectors)
    assert set(packaged.thresholds) == set(around.figures(0)) | {"answered"}


@BOTH
def test_the_same_chat_gives_the_same_acts(vectors: bool) -> None:
    first, second = (acts_of(*ENGLISH.lines, vectors=vectors) for _ in range(2))
    for one, again in zip(first, second, strict=True):
        assert one.probabilities == again.probabilities
        assert one.answers == again.answers
        assert one.weight == again.weight


@BOTH
@pytest.mark.parametrize("name", CHATS)
def test_clear_acts_are_likely_enough_to_be_shown(name: str, vectors: bool) -> None:
    chat = CHATS[name]
    acts = {one.message.turn.id: one for one in acts_of(*chat.lines, vectors=vectors)}
    for id_, (kind, _, _) in chat.items.items():
        assert acts[id_].probabilities[kind] >= LEAST[kind], (id_, acts[id_].probabilities)


@BOTH
@pytest.mark.parametrize("name", CHATS)
def test_what_is_said_between_clear_acts_is_not_shown(name: str, vectors: bool) -> None:
    chat = CHATS[name]
    acts = {one.message.turn.id: one for one in acts_of(*chat.lines, vectors=vectors)}
    for id_ in chat.quiet:
        for kind, least in LEAST.items():
            assert acts[id_].probabilities[kind] < least, (id_, kind)


@BOTH
@pytest.mark.parametrize("name", SMALL_TALK)
def test_small_talk_is_not_shown(name: str, vectors: bool) -> None:
    for one in acts_of(*SMALL_TALK[name], vectors=vectors):
        for kind, least in LEAST.items():
            assert one.probabilities[kind] < least, (one.message.turn.id, kind)


@BOTH
def test_a_clear_decision_is_worth_more_to_tell_than_a_greeting(vectors: bool) -> None:
    points = [one.probabilities["point"] for one in acts_of(*ENGLISH.lines, vectors=vectors)]
    assert points[7] > 5 * max(points[0], points[1])


def test_only_messages_that_may_ask_are_questions() -> None:
    acts = find_acts(
        read("Ana: Where is it?", "Ben: On the hook.", "bot: Deploy now?"),
        model=model(question=LinearModel(3.0, {})),
    )
    assert [one.probabilities["question"] > 0.9 for one in acts] == [True, False, False]
    assert acts[1].probabilities["question"] == acts[2].probabilities["question"] == 0


def test_the_best_sentence_is_the_one_whose_words_weigh_most() -> None:
    weights = LinearModel(-1.0, {"c:commits": 2.0, "w:haha": -1.0})
    (one,) = find_acts(read("Ana: Hm. I'll write it. I'll send it. haha."), model=model(action=weights))
    assert one.best_sentence("action") == 1
    assert one.weight["action"] == (0.0, 2.0, 2.0, -1.0)
    assert one.best_sentence("decision") == 0


def test_a_vector_counts_if_the_model_has_weights_for_it() -> None:
    messages, vectors = read("Ana: a", "Ben: b"), np.eye(2, dtype=np.float32)
    learned = model(point=LinearModel(0.0, {}, np.array([3.0, -3.0], np.float32)))
    points = [one.probabilities["point"] for one in find_acts(messages, vectors, learned)]
    assert points == [pytest.approx(0.953, abs=0.001), pytest.approx(0.047, abs=0.001)]


def test_figures_are_features_for_every_threshold_they_pass() -> None:
    around = Neighbourhood(read("Ana: hello", "Ben: Thanks!"))
    thresholds = {"characters": [2.0, 5.0], "salience": [0.5], "unknown": [0.0]}
    sentences, whole = present(around, 0, {"characters": 5.5, "salience": 0.5}, thresholds)
    assert whole == {"f:characters>0", "f:characters>1", "after:thanks", "after:social"}
    assert len(sentences) == 1
    assert {"w:hello", "c:social"} <= sentences[0]


SAID = st.tuples(
    st.sampled_from(["Ana", "林", "דנה", "bot"]),
    st.one_of(st.text(max_size=60), st.sampled_from(["", "👍🎉", "שלום, מה נשמע?", "مرحبا؟", "+1"])),
)


@given(st.lists(SAID, max_size=6), st.booleans())
def test_any_chat_gives_probabilities(said: list[tuple[str, str]], embedded: bool) -> None:
    messages = read(*(f"{name}: {text}" for name, text in said))
    vectors = None
    if embedded:
        size = len(ActModel.shipped(vectors=True).kinds["point"].vector)  # type: ignore[arg-type]
        hashed = HashingEmbedder().embed_passages([text for _, text in said])
        vectors = np.pad(hashed, ((0, 0), (0, size - hashed.shape[1])))
    acts = find_acts(messages, vectors)
    assert [one.message for one in acts] == messages
    for one in acts:
        assert set(one.probabilities) == set(KINDS)
        assert all(0 <= probability <= 1 for probability in one.probabilities.values())
        kinds: tuple[ActKind, ...] = KINDS
        assert all(len(one.weight[kind]) == len(one.message.sentences) for kind in kinds)
