"""Dense search: the embedder interface and exact cosine over any prefix of a channel's chunks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from operators.arrays import GrowingArray
from operators.messages import ChannelKey
from operators.metrics import EMBEDDING_SECONDS

__all__ = ["AsOfDense", "Embedder", "Found", "IndexedSearch", "OneAtATime", "Vectors"]

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors; queries and passages may be encoded differently."""

    @property
    def name(self) -> str:
        """The model's name, as shown in records."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever vectors of the same text would; a valid part of a table name."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of stored texts, float32 `[texts, dimensions]`, as one batch."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of queries, float32 `[texts, dimensions]`, as one batch."""
        ...


class Found(NamedTuple):
    """A chunk that a search has found: its window, its first token there, and its cosine."""

    window: int
    start: int
    cosine: float


class IndexedSearch(Protocol):
    """A store's own search by vectors, for channels too long to keep those of their chunks hot."""

    @property
    def beyond(self) -> int:
        """Chunks of a channel from which on it is used; up to these, search is exact."""
        ...

    def nearest(self, key: ChannelKey, queries: Vectors, *, windows: int, k: int) -> list[list[Found]]:
        """About the `k` chunks of the first `windows` windows with the largest cosine to each query."""
        ...


class OneAtATime:
    """An embedder that several threads may use: their calls wait for each other, and are timed."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self.name = inner.name
        self.fingerprint = inner.fingerprint
        self.dimensions = inner.dimensions

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """As the inner embedder's."""
        return self._timed(self._inner.embed_passages, texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """As the inner embedder's."""
        return self._timed(self._inner.embed_queries, texts)

    def _timed(self, embed: Callable[[Sequence[str]], Vectors], texts: Sequence[str]) -> Vectors:
        with self._lock:
            started = time.perf_counter()
            try:
                return embed(texts)
            finally:
                EMBEDDING_SECONDS.inc(time.perf_counter() - started)


class AsOfDense:
    """Unit vectors of a channel's chunks, window by window; scores are cosines. One thread uses it."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._vectors = GrowingArray(np.float32, (dimensions,))
        self._cuts = GrowingArray(np.int64)
        self._cuts.append(0)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._vectors.nbytes + self._cuts.nbytes

    def append_window(self, vectors: Vectors) -> None:
        """Add the chunk vectors of the next closed window, float32 `[chunks, dimensions]`."""
        self.append_windows(vectors, [0, len(vectors)])

    def append_windows(self, vectors: Vectors, cuts: Sequence[int] | NDArray[np.int64]) -> None:
        """Add the chunk vectors of windows; `cuts` are the chunks before each, and in all."""
        self._cuts.extend(self._cuts.view[-1] + np.asarray(cuts)[1:])
        self._vectors.extend(vectors)

    def replace_window(self, window: int, vectors: Vectors) -> None:
        """Give window `window`, counted from 0, other chunk vectors; the chunks after it move along.

        Raises:
            IndexError: the index has no such window.
        """
        if not 0 <= window < len(self._cuts) - 1:
            raise IndexError(f"window {window} is not in an index of {len(self._cuts) - 1} windows")
        start, stop = self._cuts.view[window : window + 2].tolist()
        self._vectors.replace(start, stop, vectors)
        self._cuts.view[window + 1 :] += len(vectors) - (stop - start)

    def vectors(self, windows: int) -> Vectors:
        """The vectors of the first `windows` windows, float32 `[chunks, dimensions]`, not copied."""
        vectors: Vectors = self._vectors.view[: self._cuts.view[windows]]
        return vectors

    def scores(self, queries: Vectors, *, windows: int) -> NDArray[Any]:
        """Cosine of every query to every chunk of the first `windows` windows, `[queries, chunks]`."""
        scores: NDArray[Any] = queries @ self.vectors(windows).T
        return scores
