"""The chunks of a channel: their positions, and BM25 and vectors to search them.

Chunks are numbered through the whole channel, window by window. A question about the first windows
gets the answer that a fresh index of just those windows would give.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.history.columns import Columns, RecordedWindow
from backscroll.operators.history.store import HistoryError
from backscroll.operators.index.arrays import GrowingArray
from backscroll.operators.index.bm25 import AsOfBM25
from backscroll.operators.index.dense import AsOfDense
from backscroll.operators.index.embedder import Vectors, VectorSearch
from backscroll.operators.index.ranking import Ranking
from backscroll.operators.messages import ChannelKey

__all__ = ["ChunkIndex"]

_TERM_BYTES = 160  # of a term with its place in a dict

_AT_ONCE = 128  # windows of a long history indexed together: their words fit the processor's cache


class ChunkIndex:
    """Chunks of one channel; for use by one thread.

    Args:
        key: the channel.
        dimensions: length of a vector; None for chunks without vectors.
        search: searches chunks by vector once there are too many vectors to keep in memory.
    """

    def __init__(
        self, key: ChannelKey, dimensions: int | None, *, search: VectorSearch | None = None
    ) -> None:
        self._key = key
        self._turns = GrowingArray(np.int32, (2,))
        self._tokens = GrowingArray(np.int32, (3,))  # window index, start, end
        self._bm25 = AsOfBM25()
        self._has_vectors = dimensions is not None
        self._dense = None if dimensions is None else AsOfDense(dimensions)
        self._search = search

    def sizes(self) -> dict[str, int]:
        """Approximate size of each part, in bytes."""
        return {
            "index": self._bm25.nbytes + _TERM_BYTES * self._bm25.terms,
            "chunk_vectors": 0 if self._dense is None else self._dense.nbytes,
            "places": self._turns.nbytes + self._tokens.nbytes,
        }

    def append(self, windows: Columns) -> None:
        """Index the chunks of the next recorded windows."""
        of_window = np.repeat([ref.index for ref in windows.refs], np.diff(windows.cuts))
        self._tokens.extend(np.column_stack([of_window, windows.chunks[:, :2]]))
        self._turns.extend(windows.chunks[:, 2:])
        texts, cuts = windows.texts, windows.cuts.tolist()
        for first in range(0, len(windows), _AT_ONCE):
            within = cuts[first : first + _AT_ONCE + 1]
            self._bm25.append_windows([texts[start:end] for start, end in pairwise(within)])
        if self._search is not None and len(self._turns) > self._search.beyond:
            self._dense = None
        if self._dense is not None:
            vectors = windows.chunk_vectors
            if vectors is None:  # of windows whose change is unfinished
                vectors = np.zeros((cuts[-1], self._dense.dimensions), np.float32)
            self._dense.append_windows(vectors, windows.cuts)

    def replace(self, recorded: RecordedWindow) -> None:
        """Replace the chunks of a recorded window; later chunks shift their positions."""
        window, chunks = recorded.window.ref.index, recorded.chunks
        start, stop = self.count(window), self.count(window + 1)
        self._turns.replace(start, stop, [(chunk.first_seq, chunk.last_seq) for chunk in chunks])
        self._tokens.replace(start, stop, [(window, chunk.start, chunk.end) for chunk in chunks])
        self._bm25.replace_window(window, [chunk.text for chunk in chunks])
        if self._dense is not None and recorded.chunk_vectors is not None:
            self._dense.replace_window(window, recorded.chunk_vectors)

    def count(self, windows: int) -> int:
        """Number of chunks in the first `windows` windows."""
        return self._bm25.size(windows)

    def turns(self, position: int) -> range:
        """The turns that a chunk covers, in whole or in part."""
        first, last = self._turns.view[position].tolist()
        return range(first, last + 1)

    def tokens(self, position: int) -> tuple[int, int, int]:
        """The index of a chunk's window, and the chunk's token range `[start, end)` in it."""
        window, start, end = self._tokens.view[position].tolist()
        return window, start, end

    def bm25(self, query: str, *, windows: int, most: float = 1.0) -> NDArray[np.float64]:
        """BM25 score of every chunk of the first `windows` windows, float64 `[chunks]`.

        Words that occur in more than the share `most` of the chunks are ignored.
        """
        return self._bm25.scores(query, windows=windows, most=most)

    def nearest(self, queries: Vectors, k: int, *, windows: int) -> list[Ranking]:
        """The `k` chunks of the first `windows` windows with the largest cosine to each query.

        Returns:
            One ranking by cosine for each query: exact, in one matrix product, if the vectors are in
            memory; otherwise the store searches.

        Raises:
            HistoryError: the chunks have no vectors.
        """
        if not self._has_vectors:
            raise HistoryError(f"{self._key}: dense search needs a history with vectors")
        if self._dense is not None:
            return [Ranking.top(row, k) for row in self._dense.scores(queries, windows=windows)]
        assert self._search is not None
        found = self._search.nearest(self._key, queries, windows=windows, k=k)
        return [
            Ranking.of(
                sorted(
                    ((self._position(one.window, one.start), one.cosine) for one in of_query),
                    key=lambda pair: (-pair[1], pair[0]),
                )
            )
            for of_query in found
        ]

    def vectors(self, windows: int) -> Vectors:
        """Unit vectors of every chunk of the first `windows` windows, float32, not copied.

        Raises:
            HistoryError: they are not kept in memory.
        """
        if self._dense is None:
            raise HistoryError(f"{self._key}: chunk vectors are not kept in memory")
        return self._dense.vectors(windows)

    def _position(self, window: int, start: int) -> int:
        """The position of the chunk that starts at a token of a window."""
        first, end = self.count(window), self.count(window + 1)
        return first + int(np.searchsorted(self._tokens.view[first:end, 1], start))
