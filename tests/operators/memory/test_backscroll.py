from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.memory.excerpt import Excerpt
from backscroll.operators.memory.features import FEATURES, evidence_features, log_rank
from backscroll.operators.memory.ranker import Ranker
from backscroll.operators.memory.request import MemoryParameters, MemoryRequest
from support.building import HashingEmbedder, history_of, turn, window, windows_of
from support.memories import remembered

SAID = [
    ["The zeppelin lands in Turin on Monday.", "Nice weather today.", "Lunch at noon?"],
    ["Yes, lunch at noon.", "The printer is out of paper.", "I ordered new paper for the printer."],
    ["So it lands there after all.", "And the printer works again."],
]


def request_for(embedder: HashingEmbedder | None, *, budget: int = 1024) -> MemoryRequest:
    windows = windows_of(SAID)
    history = history_of(windows, embedder=embedder)
    gap = Gap("m6", "it lands there", "what lands is open", "which zeppelin lands where", ("zeppelin",))
    return MemoryRequest(windows[2].turns, [gap], history.as_of(6), MemoryParameters(embedder, budget))


@pytest.mark.parametrize("embedder", [HashingEmbedder(), None])
def test_the_turn_a_gap_asks_for_comes_first(embedder: HashingEmbedder | None) -> None:
    memory = remembered("backscroll", request_for(embedder, budget=14))
    assert [entry.turn.id for entry in memory] == ["m0"]
    assert (memory[0].gap, memory[0].rank) == (0, 1)


@pytest.mark.parametrize("budget", [0, 3, 20, 40, 1024])
def test_a_memory_stays_within_its_budget_and_in_channel_order(budget: int) -> None:
    memory = remembered("backscroll", request_for(HashingEmbedder(), budget=budget))
    seqs = [entry.turn.seq for entry in memory]
    assert sum(entry.tokens for entry in memory) <= budget
    assert seqs == sorted(set(seqs))
    assert all(seq < 6 for seq in seqs)


def test_later_windows_do_not_change_a_memory() -> None:
    embedder, windows = HashingEmbedder(), windows_of(SAID)
    whole, part = history_of(windows, embedder=embedder), history_of(windows[:2], embedder=embedder)
    request = MemoryRequest(windows[2].turns, [], whole.as_of(6), MemoryParameters(embedder, 30))
    Excerpt.whole(whole.as_of(8)).rows()
    fresh = replace(request, history=part.as_of(6))
    assert remembered("backscroll", request) == remembered("backscroll", fresh)


def test_a_window_without_gaps_uses_its_utterances_as_queries() -> None:
    memory = remembered("backscroll", replace(request_for(HashingEmbedder(), budget=24), gaps=[]))
    assert memory
    assert {entry.gap for entry in memory} == {None}


def test_an_empty_history_gives_an_empty_memory() -> None:
    history = history_of([])
    request = MemoryRequest(window([turn(0, "Hi")]).turns, [], history.as_of(0))
    assert remembered("backscroll", request) == ()


def test_features_are_finite_with_one_row_per_turn() -> None:
    request = request_for(HashingEmbedder())
    rows = evidence_features(
        request, Excerpt.whole(request.history), Ranker.shipped(vectors=True).relevance
    ).rows
    assert rows.shape == (6, len(FEATURES))
    assert np.isfinite(rows).all()
    distance = rows[:, FEATURES.index("age_turns")]
    assert distance.round(2).tolist() == [2.58, 2.32, 2.0, 1.58, 1.0, 0.0]


def test_ranks_are_logarithms_and_equal_scores_share_one() -> None:
    assert log_rank(np.array([[0.1, 0.9, 0.1, 0.5]])).tolist() == [[np.log2(3), 0.0, np.log2(3), 1.0]]
