"""Indexing a closed window: its chunks, and the vectors of its chunks and turns.

With torch and many servers, the last bits of a vector depend on its batch, so the batch has to be the
same every time. A window is therefore embedded on its own, in two calls of the embedder, unless you
ask for several windows together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np

from backscroll.operators.history.chunks import Chunk, Chunker
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.index.embedder import Embedder, OneAtATime, Vectors
from backscroll.operators.stream.changes import Changes
from backscroll.operators.stream.windows import Window

__all__ = ["Indexer"]


class Indexer:
    """Turns closed windows into what a history records; safe to use from several threads.

    Args:
        chunker: how windows are chunked.
        embedder: None for windows without vectors.
    """

    def __init__(self, chunker: Chunker, embedder: Embedder | None) -> None:
        self.chunker = chunker
        self.embedder = None if embedder is None else OneAtATime(embedder)

    def index(self, windows: Iterable[Window]) -> list[RecordedWindow]:
        """Chunk and embed windows, each on its own."""
        return [self._index(window) for window in windows]

    def index_together(self, items: Sequence[Window | Changes]) -> list[RecordedWindow | Changes]:
        """Chunk and embed windows of any channels in one batch; changes keep their place in the order.

        The last bits of a vector may differ from those of `index`.
        """
        windows = [item for item in items if isinstance(item, Window)]
        indexed = iter(self._batch(windows) if len(windows) > 1 else self.index(windows))
        return [next(indexed) if isinstance(item, Window) else item for item in items]

    def index_again(self, window: Window, kept: Vectors | None, changed: Iterable[int]) -> RecordedWindow:
        """Chunk a changed window and embed what is new.

        Args:
            window: the window with its changed turns.
            kept: the previous vectors of its turns, float32 `[turns, dimensions]`; None without an
                embedder. Those of changed turns are replaced in place.
            changed: `seq` of the changed turns, in this window and others.
        """
        if self.embedder is None or kept is None:
            return self._index(window)
        ref = window.ref
        places = [seq - ref.first_seq for seq in changed if ref.first_seq <= seq <= ref.last_seq]
        kept[places] = self.embedder.embed_passages([window.turns[place].rendered for place in places])
        return self._with_chunks(window, kept)

    def _index(self, window: Window) -> RecordedWindow:
        if self.embedder is None:
            return self._with_chunks(window, None)
        vectors = self.embedder.embed_passages([turn.rendered for turn in window.turns])
        return self._with_chunks(window, vectors)

    def _with_chunks(self, window: Window, turn_vectors: Vectors | None) -> RecordedWindow:
        chunks = self.chunker.chunk(window.turns)
        return RecordedWindow(window, chunks, self._embed_chunks(chunks), turn_vectors)

    def _embed_chunks(self, chunks: Sequence[Chunk]) -> Vectors | None:
        if self.embedder is None:
            return None
        if not chunks:  # every turn of the window is deleted
            return np.zeros((0, self.embedder.dimensions), np.float32)
        return self.embedder.embed_passages([chunk.text for chunk in chunks])

    def _batch(self, windows: Sequence[Window]) -> list[RecordedWindow]:
        if self.embedder is None:
            return self.index(windows)
        chunks = [self.chunker.chunk(window.turns) for window in windows]
        of_turns = self.embedder.embed_passages(
            [turn.rendered for window in windows for turn in window.turns]
        )
        of_chunks = self.embedder.embed_passages([chunk.text for of_window in chunks for chunk in of_window])
        return [
            RecordedWindow(window, of_window, chunk_vectors, turn_vectors)
            for window, of_window, chunk_vectors, turn_vectors in zip(
                windows,
                chunks,
                np.split(of_chunks, list(accumulate(map(len, chunks)))[:-1]),
                np.split(of_turns, list(accumulate(len(window.turns) for window in windows))[:-1]),
                strict=True,
            )
        ]
