"""What a search finds, as a value: positions of chunks, windows or turns, best first.

>>> best = Ranking.top(np.array([0.1, 0.7, 0.0, 0.7]), 3)
>>> best.positions
(1, 3, 0)
>>> list(best[:2])
[(1, 0.7), (3, 0.7)]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ranking", "top_k"]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Positions, best first, and what each was ranked by; it iterates over pairs of both."""

    positions: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, float]]) -> Ranking:
        """Pairs of a position and its score that are in order already."""
        pairs = list(pairs)
        return cls(tuple(position for position, _ in pairs), tuple(score for _, score in pairs))

    @classmethod
    def top(cls, scores: NDArray[np.floating], k: int) -> Ranking:
        """The `k` best positions and their scores; see `top_k`."""
        best = top_k(scores, k)
        return cls(tuple(best.tolist()), tuple(scores[best].tolist()))

    def __len__(self) -> int:
        return len(self.positions)

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return zip(self.positions, self.scores, strict=True)

    def __getitem__(self, ranks: slice) -> Ranking:
        return Ranking(self.positions[ranks], self.scores[ranks])


def top_k(scores: NDArray[np.floating], k: int) -> NDArray[np.intp]:
    """The positions of the `k` best scores, by (-score, position); zero scores are included."""
    if k <= 0:
        return np.arange(0)
    if k < len(scores):
        kth = np.partition(scores, len(scores) - k)[len(scores) - k]
        positions = np.flatnonzero(scores >= kth)
    else:
        positions = np.arange(len(scores))
    return positions[np.argsort(-scores[positions], kind="stable")][:k]
