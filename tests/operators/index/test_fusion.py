from __future__ import annotations

import pytest

from backscroll.operators.index.fusion import reciprocal_rank_fusion
from backscroll.operators.index.ranking import Ranking


def fused(rankings: list[list[int]], k: int = 60) -> list[int]:
    """The positions of fused rankings; scores of rankings do not count."""
    values = [Ranking(tuple(positions), (0.0,) * len(positions)) for positions in rankings]
    return list(reciprocal_rank_fusion(values, k=k).positions)


def test_positions_are_ordered_by_the_sum_of_their_reciprocal_ranks() -> None:
    both = reciprocal_rank_fusion([Ranking((7, 3), (0.9, 0.1)), Ranking((3, 9), (8.0, 7.5))])
    assert both.positions == (3, 7, 9)
    assert both.scores == pytest.approx((1 / 62 + 1 / 61, 1 / 61, 1 / 62), abs=0)


def test_two_middling_ranks_beat_one_first_rank() -> None:
    # 5: 2/63 = 0.03175 against 1/61 = 0.01639
    assert fused([[1, 2, 5], [3, 4, 5]]) == [5, 1, 3, 2, 4]


def test_a_larger_constant_reduces_the_effect_of_rank() -> None:
    rankings = [[1, 2, 3], [4, 3, 2]]
    # 1 and 4: 1; 2 and 3: 1/2 + 1/3
    assert fused(rankings, k=0) == [1, 4, 2, 3]
    # 2 and 3: 1/62 + 1/63; 1 and 4: 1/61
    assert fused(rankings, k=60) == [2, 3, 1, 4]


def test_a_position_that_a_ranking_holds_twice_counts_twice() -> None:
    # 2: 1/62 + 1/63 against 1/61
    assert fused([[1, 2, 2]]) == [2, 1]


def test_ties_are_broken_by_the_position() -> None:
    assert fused([[9, 4], [4, 9]]) == [4, 9]
    assert fused([[8], [2], [5]]) == [2, 5, 8]


def test_empty_rankings_fuse_to_nothing_and_one_ranking_to_itself() -> None:
    assert fused([]) == []
    assert fused([[], []]) == []
    assert fused([[5, 1, 3], []]) == [5, 1, 3]
