from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as np_st

from backscroll.operators.index.ranking import Ranking, top_k


def test_a_ranking_holds_the_best_positions_with_their_scores() -> None:
    ranking = Ranking.top(np.array([0.5, 2.0, -1.0, 2.0]), 3)
    assert ranking == Ranking((1, 3, 0), (2.0, 2.0, 0.5))
    assert len(ranking) == 3
    assert list(ranking) == [(1, 2.0), (3, 2.0), (0, 0.5)]
    assert ranking[1:] == Ranking((3, 0), (2.0, 0.5))
    assert Ranking.of(ranking) == ranking


def test_a_ranking_of_nothing_is_empty() -> None:
    assert Ranking.top(np.zeros(0), 30) == Ranking.of([]) == Ranking()
    assert Ranking.top(np.ones(3), 0) == Ranking()


@given(
    scores=np_st.arrays(
        np.float64,
        st.integers(0, 40),
        elements=st.sampled_from([0.0, -0.0, -1.0, 0.25, 0.5, 1e-12, 3.0]) | st.floats(-5, 5),
    ),
    k=st.integers(0, 45),
)
@settings(database=None, deadline=None)
def test_top_k_equals_a_full_sort_by_score_and_position(scores: np.ndarray, k: int) -> None:
    expected = sorted(range(len(scores)), key=lambda position: (-scores[position], position))[:k]
    assert top_k(scores, k).tolist() == expected


def test_top_k_ranks_zero_scores_by_position() -> None:
    assert top_k(np.array([0.0, 2.0, 0.0, 2.0, 0.0]), 4).tolist() == [1, 3, 0, 2]
    assert top_k(np.zeros(3, np.float32), 30).tolist() == [0, 1, 2]
    assert top_k(np.zeros(0), 30).tolist() == []
