"""Reciprocal rank fusion, which merges several rankings into one.

>>> reciprocal_rank_fusion([Ranking((7, 3), (0.9, 0.2)), Ranking((3, 9), (5.1, 4.0))]).positions
(3, 7, 9)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from backscroll.operators.index.ranking import Ranking

__all__ = ["reciprocal_rank_fusion"]


def reciprocal_rank_fusion(rankings: Iterable[Ranking], *, k: int = 60) -> Ranking:
    """The positions of several rankings, by the sum of `1 / (k + rank)`, ranks from 1; ties by position.

    The sums are the scores of the result; the scores of the rankings do not count. A position that a
    ranking holds more than once counts with each of its ranks.

    Source: Cormack et al. 2009; ReMEMBER, section 4.1.
    """
    sums: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, position in enumerate(ranking.positions, start=1):
            sums[position] += 1 / (k + rank)
    return Ranking.of(sorted(sums.items(), key=lambda pair: (-pair[1], pair[0])))
