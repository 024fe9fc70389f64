"""Interfaces of embedders and of vector search, and an embedder that threads share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.messages import ChannelKey
from backscroll.operators.runtime.metrics import EMBEDDING_SECONDS

__all__ = ["ChunkHit", "Embedder", "OneAtATime", "VectorSearch", "Vectors"]

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


class ChunkHit(NamedTuple):
    """A chunk that a search has found: its window, its first token there, and its cosine."""

    window: int
    start: int
    cosine: float


class VectorSearch(Protocol):
    """A store's own search by vectors, for channels too long to keep those of their chunks hot."""

    @property
    def beyond(self) -> int:
        """Chunks of a channel from which on it is used; up to these, search is exact."""
        ...

    def nearest(self, key: ChannelKey, queries: Vectors, *, windows: int, k: int) -> list[list[ChunkHit]]:
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
