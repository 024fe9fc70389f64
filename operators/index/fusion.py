"""Reciprocal rank fusion, which merges sparse and dense rankings into one.

>>> reciprocal_rank_fusion([[7, 3], [3, 9]], k=60)
[3, 7, 9]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

__all__ = ["reciprocal_rank_fusion"]


def reciprocal_rank_fusion(rankings: Iterable[Sequence[int]], *, k: int = 60) -> list[int]:
    """The items of several rankings, ordered by the sum of `1 / (k + rank)`, ranks from 1; ties by item.

    Source: Cormack et al. 2009; ReMEMBER, section 4.1.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            scores[int(item)] += 1 / (k + rank)
    return sorted(scores, key=lambda item: (-scores[item], item))
