from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.gaps.stage import Detection
from backscroll.operators.memory.additive import AdditiveModel
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.summary.build_record import summary_record
from backscroll.operators.summary.evidence import (
    Evidence,
    EvidenceModels,
    Resolution,
    exchange_vectors,
    resolve_gaps,
)
from backscroll.operators.summary.evidence_features import ASKED, DENSE, EVIDENCE, RANKED, Exchange
from backscroll.operators.summary.stage import Written
from backscroll.training.evidence.train import FORMS
from support.building import HashingEmbedder, history_of, turn, window

WINDOW = [turn(20, "Yes, it works now, thanks!", "Ben"), turn(21, "Great, then we ship it.", "Ana")]
GAPS = [Gap("m20", "it works now", "", "earlier: it works"), Gap("m21", "we ship it", "", "earlier: ship")]
ALWAYS = AdditiveModel.from_json({"constant": 9.0, "features": {"place": {}}})
NEVER = AdditiveModel.from_json({"constant": -9.0, "features": {"place": {}}})


def entry(seq: int, text: str, author: str = "Ana", relevance: Sequence[float] = ()) -> MemoryTurn:
    return MemoryTurn(turn(seq, text, author), None, 9, 0, 1, 0.5, tuple(relevance))


def by_words(*, asked: AdditiveModel = ALWAYS, constant: float = -4.0) -> EvidenceModels:
    """Models that find every gap asked for, and longer turns more likely to explain it."""
    evidence = AdditiveModel.from_json({"constant": constant, "features": {"salience": {"slope": 9.0}}})
    return EvidenceModels(asked, evidence)


def chosen(resolution: Resolution) -> dict[int, list[int]]:
    return {index: [one.entry.turn.seq for one in found] for index, found in resolution.evidence.items()}


PLAIN, LONG = "ok", "We decided to replace the leaking pump at quay four on Friday and to test the valve."
OTHER = "Cem ordered the new gasket from Kelsund for 640 euros because the old ones were cracked."


def test_the_likeliest_turn_explains_and_an_unlikely_one_is_not_shown() -> None:
    memory = [entry(3, PLAIN), entry(4, LONG)]
    assert chosen(resolve_gaps(WINDOW, GAPS[:1], memory, models=by_words())) == {0: [4]}
    assert chosen(resolve_gaps(WINDOW, GAPS[:1], memory, models=by_words(constant=-9.0))) == {}


def test_a_second_turn_of_the_same_conversation_explains_with_the_first() -> None:
    near, far = [entry(3, OTHER), entry(4, LONG)], [entry(3, OTHER), entry(14, LONG)]
    (found,) = chosen(resolve_gaps(WINDOW, GAPS[:1], near, models=by_words())).values()
    assert sorted(found) == [3, 4]
    assert len(chosen(resolve_gaps(WINDOW, GAPS[:1], far, models=by_words()))[0]) == 1


def test_a_gap_that_nobody_would_ask_about_is_neither_explained_nor_listed() -> None:
    resolution = resolve_gaps(WINDOW, GAPS, [entry(4, LONG)], models=by_words(asked=NEVER))
    assert resolution == Resolution({}, frozenset())


def test_a_message_of_a_bot_is_not_explained() -> None:
    bot = replace(WINDOW[0], author=replace(WINDOW[0].author, bot=True))
    resolution = resolve_gaps([bot], GAPS[:1], [entry(4, LONG)], models=by_words())
    assert resolution == Resolution({}, frozenset())


def test_a_gap_that_is_asked_about_is_listed_even_if_nothing_explains_it() -> None:
    assert resolve_gaps(WINDOW, GAPS, [], models=by_words()) == Resolution({}, frozenset({0, 1}))


def test_an_exchange_explains_only_the_first_of_its_gaps() -> None:
    resolution = resolve_gaps(WINDOW, GAPS, [entry(4, LONG)], models=by_words())
    assert (chosen(resolution), resolution.asked) == ({0: [4]}, {0})


def test_a_message_with_the_words_of_the_utterance_explains_nothing() -> None:
    repeated = entry(4, "Yes,  it works now, thanks!")
    assert chosen(resolve_gaps(WINDOW, GAPS[:1], [repeated], models=by_words(constant=9.0))) == {}


def test_a_message_without_text_explains_nothing() -> None:
    assert chosen(resolve_gaps(WINDOW, GAPS[:1], [entry(4, " ")], models=by_words(constant=9.0))) == {}


def test_the_quote_is_what_informs_and_not_what_the_utterance_repeats() -> None:
    filler = "It works now, yes, it works, thanks, it all works now."
    informs = "The valve from Kelsund costs 640 euros and fits the leaking pump at quay four."
    long = entry(4, f"{filler} {filler} {informs} {filler} {filler}")
    (found,) = resolve_gaps(WINDOW, GAPS[:1], [long], models=by_words()).evidence[0]
    assert informs in found.quote
    assert len(found.quote) <= 160
    assert found.quote in long.text


def test_a_long_sentence_is_cut_at_a_word() -> None:
    long = entry(4, "pump valve gasket crane quay harbor " * 12)
    (found,) = resolve_gaps(WINDOW, GAPS[:1], [long], models=by_words(constant=9.0)).evidence[0]
    assert found.quote.endswith(" …")
    assert 100 < len(found.quote) <= 160
    assert long.text.startswith(found.quote.removesuffix("…"))


def test_a_question_right_before_the_window_explains_its_answer() -> None:
    memory = [
        entry(5, "The crane at quay two was painted last spring.", "Cem", (0.0, 0.0)),
        entry(6, "Lunch is at noon.", "Ben", (0.0, 0.0)),
        entry(18, "The old one expired.", "Cem", (0.0, 0.0)),
        entry(19, "Ben, does the login page work with the new certificate?", "Ana", (0.0, 0.0)),
    ]
    found = resolve_gaps(WINDOW, GAPS[:1], memory).evidence
    assert found[0][0].entry.turn.seq == 19


@pytest.mark.parametrize("form", FORMS)
def test_the_packaged_models_use_only_features_of_their_form(form: str) -> None:
    models = EvidenceModels.shipped(form)
    assert set(models.asked.terms) <= set(ASKED)
    assert set(models.evidence.terms) <= set(EVIDENCE) - FORMS[form]


def test_the_form_is_that_of_what_is_known_about_the_memory() -> None:
    def form(memory: list[MemoryTurn], embedder: HashingEmbedder | None) -> str:
        history = history_of([], embedder=embedder)
        vectors = exchange_vectors(WINDOW, memory, history.as_of(0), embedder)
        models = EvidenceModels.fitting(Exchange(WINDOW, memory, vectors))
        return next(name for name in FORMS if EvidenceModels.shipped(name) is models)

    ranked, unranked = [entry(4, LONG, relevance=(1.0, 2.0))], [entry(4, LONG)]
    assert form(ranked, HashingEmbedder()) == "vectors"
    assert form(unranked, HashingEmbedder()) == "vectors_unranked"
    assert form(ranked, None) == "words"
    assert form(unranked, None) == "words_unranked"


def test_features_say_who_speaks_to_whom_and_what_was_asked() -> None:
    turns = [turn(20, "Ana, I fixed the valve.", "Ben")]
    memory = [
        entry(17, "Ben, is the valve fixed?", "Ana", (2.0,)),
        entry(18, "Not yet.", "Ben", (1.0,)),
        entry(19, "We wait for the valve.", "Ana", (0.0,)),
    ]
    exchange = Exchange(turns, memory, None)
    found = exchange.evidence(Gap("m20", "the valve", "", "valve"), 0)
    assert set(found) == set(EVIDENCE)
    assert found["named"].tolist() == [1, 0, 1]
    assert found["named_last"].tolist() == [0, 0, 1]
    assert found["asks_author"].tolist() == [1, 0, 0]
    assert found["previous_asks"].tolist() == [0, 1, 0]
    assert found["opening_same_author"].tolist() == [0, 1, 0]
    assert found["relevance"].tolist() == [2, 1, 0]
    assert found["relevance_rank"].tolist() == [0, 1, pytest.approx(np.log2(3))]
    assert found["rarest"][0] > found["rarest"][2] > found["rarest"][1] == 0  # "fixed" is rarer
    assert all((found[name] == 0).all() for name in DENSE)
    assert {"relevance", "score"} <= set(RANKED)


words = st.sampled_from(["pump", "valve", "leaks", "is", "it", "Friday", "no.", "Yes!", "ok?", "漢字", "🧭"])
texts = st.lists(words, max_size=12).map(" ".join)


@given(st.lists(texts, max_size=5), st.lists(texts, min_size=1, max_size=4), st.booleans())
@settings(database=None, deadline=None, max_examples=60)
def test_any_memory_gives_evidence_of_at_most_two_verbatim_turns(
    earlier: list[str], said: list[str], vectors: bool
) -> None:
    turns = [turn(seq, text, "Ben") for seq, text in enumerate(said, start=20)]
    gaps = [Gap(one.id, one.text, "", one.text) for one in turns]
    memory = [entry(seq, text, relevance=[0.5] * len(gaps)) for seq, text in enumerate(earlier)]
    embedder = HashingEmbedder() if vectors else None
    history = history_of([], embedder=embedder).as_of(0)
    resolution = resolve_gaps(turns, gaps, memory, exchange_vectors(turns, memory, history, embedder))
    assert set(resolution.evidence) <= resolution.asked <= set(range(len(gaps)))
    for found in resolution.evidence.values():
        assert 1 <= len(found) <= 2
        assert all(one.entry in memory and one.quote.removesuffix(" …") in one.entry.text for one in found)


def test_a_record_lists_asked_gaps_only_and_its_memory_names_no_other() -> None:
    memory = [replace(entry(4, LONG), gap=0), replace(entry(5, OTHER), gap=1)]
    record = summary_record(
        window(WINDOW),
        Detection(tuple(GAPS), "rules"),
        memory,
        Resolution({1: (Evidence(memory[1], OTHER), Evidence(memory[0], LONG))}, frozenset({1})),
        Written("", "extractive", "extractive"),
        strategy="backscroll",
        embedding="none",
        timings_ms={},
    )
    assert [(gap.utterance, gap.evidence) for gap in record.gaps] == [("m21", ["m5", "m4"])]
    assert [one.gap for one in record.memory] == [None, 0]
