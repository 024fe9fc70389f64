"""Exact cosine similarity over any prefix of a channel's chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.index.arrays import GrowingArray
from backscroll.operators.index.embedder import Vectors

__all__ = ["AsOfDense"]


class AsOfDense:
    """The unit vectors of a channel's chunks by window; scores are cosines. Not thread-safe."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._vectors = GrowingArray(np.float32, (dimensions,))
        self._cuts = GrowingArray(np.int64)
        self._cuts.append(0)

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        return self._vectors.nbytes + self._cuts.nbytes

    def append_window(self, vectors: Vectors) -> None:
        """Add the chunk vectors of the next closed window, float32 `[chunks, dimensions]`."""
        self.append_windows(vectors, [0, len(vectors)])

    def append_windows(self, vectors: Vectors, cuts: Sequence[int] | NDArray[np.int64]) -> None:
        """Add the chunk vectors of windows; `cuts` are the numbers of chunks before each, and the total."""
        self._cuts.extend(self._cuts.view[-1] + np.asarray(cuts)[1:])
        self._vectors.extend(vectors)

    def replace_window(self, window: int, vectors: Vectors) -> None:
        """Replace the chunk vectors of window `window`, counted from 0; later chunks move accordingly.

        Raises:
            IndexError: the index has no such window.
        """
        if not 0 <= window < len(self._cuts) - 1:
            raise IndexError(f"window {window} is out of range: the index has {len(self._cuts) - 1} windows")
        start, stop = self._cuts.view[window : window + 2].tolist()
        self._vectors.replace(start, stop, vectors)
        self._cuts.view[window + 1 :] += len(vectors) - (stop - start)

    def vectors(self, windows: int) -> Vectors:
        """The vectors of the first `windows` windows, float32 `[chunks, dimensions]`, without a copy."""
        vectors: Vectors = self._vectors.view[: self._cuts.view[windows]]
        return vectors

    def scores(self, queries: Vectors, *, windows: int) -> NDArray[Any]:
        """The cosine of each query with each chunk of the first `windows` windows, `[queries, chunks]`."""
        scores: NDArray[Any] = queries @ self.vectors(windows).T
        return scores
