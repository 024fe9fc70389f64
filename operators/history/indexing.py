"""Closed windows chunked and embedded: each by itself, or several at once where that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from backscroll.operators.history.channel import RecordedWindow
from backscroll.operators.history.histories import Histories
from backscroll.operators.stream.changes import Changes
from backscroll.operators.stream.windows import Window

__all__ = ["prepare"]


def prepare(histories: Histories, items: Sequence[Window | Changes]) -> Sequence[RecordedWindow | Changes]:
    """Chunk and embed windows, of any channels, together; changes stay what they are, in their places.

    Texts of several windows share the embedder's batches. Where vectors depend on their batch, as
    torch's and many servers' do, their last bits are then others than a window by itself would get.
    """
    windows = [item for item in items if isinstance(item, Window)]
    prepared = iter(_together(histories, windows))
    return [next(prepared) if isinstance(item, Window) else item for item in items]


def _together(histories: Histories, windows: Sequence[Window]) -> Sequence[RecordedWindow]:
    embedder = histories.embedder
    if embedder is None or len(windows) < 2:
        return [histories.prepare(window) for window in windows]
    chunks = [histories.chunker.chunk(window.turns) for window in windows]
    of_turns = embedder.embed_passages([turn.rendered for window in windows for turn in window.turns])
    of_chunks = embedder.embed_passages([chunk.text for of_window in chunks for chunk in of_window])
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
