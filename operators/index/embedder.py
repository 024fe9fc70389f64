"""The interfaces for embedders and vector search, and a thread-safe wrapper for embedders."""

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
        """The model's name, as stored in records."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies the vectors: it changes whenever they would, and can be part of a table name."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The unit vectors of stored texts, computed as one batch, float32 `[texts, dimensions]`."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The unit vectors of queries, computed as one batch, float32 `[texts, dimensions]`."""
        ...


class ChunkHit(NamedTuple):
    """A chunk found by a search: its window, its first token in the window, and its cosine."""

    window: int
    start: int
    cosine: float


class VectorSearch(Protocol):
    """Vector search in the store, for channels with too many chunk vectors to keep in memory."""

    @property
    def beyond(self) -> int:
        """The number of chunks above which it is used; channels up to that size are searched exactly."""
        ...

    def nearest(self, key: ChannelKey, queries: Vectors, *, windows: int, k: int) -> list[list[ChunkHit]]:
        """Approximately the `k` nearest chunks to each query by cosine, in the first `windows` windows."""
        ...


class OneAtATime:
    """Makes an embedder safe to share between threads: calls run one at a time, and are timed."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self.name = inner.name
        self.fingerprint = inner.fingerprint
        self.dimensions = inner.dimensions

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        return self._timed(self._inner.embed_passages, texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        return self._timed(self._inner.embed_queries, texts)

    def _timed(self, embed: Callable[[Sequence[str]], Vectors], texts: Sequence[str]) -> Vectors:
        with self._lock:
            started = time.perf_counter()
            try:
                return embed(texts)
            finally:
                EMBEDDING_SECONDS.inc(time.perf_counter() - started)
