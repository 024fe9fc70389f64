from __future__ import annotations

from backscroll.operators.index.fusion import reciprocal_rank_fusion


def test_items_are_ordered_by_the_sum_of_their_reciprocal_ranks() -> None:
    # 3: 1/62 + 1/61 = 0.03252; 7: 1/61 = 0.01639; 9: 1/62 = 0.01613
    assert reciprocal_rank_fusion([[7, 3], [3, 9]]) == [3, 7, 9]


def test_two_middling_ranks_beat_one_first_rank() -> None:
    # 5: 2/63 = 0.03175 against 1/61 = 0.01639
    assert reciprocal_rank_fusion([[1, 2, 5], [3, 4, 5]], k=60) == [5, 1, 3, 2, 4]


def test_a_larger_constant_reduces_the_effect_of_rank() -> None:
    rankings = [[1, 2, 3], [4, 3, 2]]
    # 1 and 4: 1; 2 and 3: 1/2 + 1/3
    assert reciprocal_rank_fusion(rankings, k=0) == [1, 4, 2, 3]
    # 2 and 3: 1/62 + 1/63; 1 and 4: 1/61
    assert reciprocal_rank_fusion(rankings, k=60) == [2, 3, 1, 4]


def test_ties_are_broken_by_the_item() -> None:
    assert reciprocal_rank_fusion([[9, 4], [4, 9]]) == [4, 9]
    assert reciprocal_rank_fusion([[8], [2], [5]]) == [2, 5, 8]


def test_empty_rankings_fuse_to_nothing_and_one_ranking_to_itself() -> None:
    assert reciprocal_rank_fusion([]) == []
    assert reciprocal_rank_fusion([[], []]) == []
    assert reciprocal_rank_fusion([[5, 1, 3], []]) == [5, 1, 3]
