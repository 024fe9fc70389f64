from __future__ import annotations

import numpy as np

from backscroll.operators.memory.packing import LONG, best_span, pack
from support.building import sized, turn


def packed(turns: list, probability: list[float], budget: int) -> list[int]:  # type: ignore[type-arg]
    tokens = np.array([item.tokens for item in turns], np.float64)
    taken = pack(np.array(probability), tokens, turns.__getitem__, lambda _seq, _word: 1.0, budget=budget)
    assert sum(item.tokens for item in taken) <= budget
    return [item.seq for item in taken]


def test_a_turn_that_does_not_fit_is_skipped_and_packing_continues() -> None:
    turns = [sized(0, 60), sized(1, 60), sized(2, 20)]
    assert packed(turns, [0.9, 0.8, 0.1], 85) == [0, 2]


def test_worth_is_probability_over_the_square_root_of_tokens() -> None:
    turns = [sized(0, 64), sized(1, 16)]
    assert packed(turns, [0.5, 0.26], 100) == [1, 0]
    assert packed(turns, [0.5, 0.24], 100) == [0, 1]


def test_a_turn_without_text_is_never_taken() -> None:
    assert packed([turn(0, ""), turn(1, "the pump")], [0.9, 0.1], 50) == [1]


def test_a_long_turn_is_shortened_to_its_wanted_sentences() -> None:
    filler = "We talked about many other things for a very long while that day. "
    said = turn(0, filler * 6 + "The zeppelin lands in Turin. " + filler * 6)
    assert said.tokens > LONG
    span, tokens = best_span(said, lambda word: 3.0 if word in ("zeppelin", "turin") else 0.25)
    assert span is not None
    text = said.text[slice(*span)]
    assert "The zeppelin lands in Turin." in text
    assert text.startswith("We talked")
    assert text.endswith(".")
    assert tokens <= LONG


def test_a_turn_of_one_sentence_stays_whole() -> None:
    said = turn(0, "word " * 200)
    assert best_span(said, lambda _word: 1.0) == (None, said.tokens)
