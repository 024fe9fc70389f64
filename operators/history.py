"""A channel's history: its closed windows, hot for retrieval and durable in a store.

A lookup names what it may see, `as_of(before_seq)`, and gets what a fresh index over those closed
windows would give. So windows of one channel can be in flight at once, a replay equals live, and
nothing from a window or after it leaks into its own memory.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from operators.arrays import GrowingArray
from operators.bm25 import AsOfBM25
from operators.chunks import Chunk, Chunker
from operators.dense import AsOfDense, Embedder, Vectors
from operators.messages import ChannelKey, Turn
from operators.windows import Window, WindowRef

__all__ = [
    "AsOf",
    "ChannelHistory",
    "Histories",
    "HistoryError",
    "HistoryStore",
    "RecordedWindow",
]


class HistoryError(RuntimeError):
    """The stored history contradicts what is asked of it."""


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """A closed window with everything computed from it once, at its close.

    `chunk_vectors` is float32 `[chunks, dimensions]`, `turn_vectors` float32 `[turns, dimensions]`;
    both are None where the history is kept without an embedder.
    """

    window: Window
    chunks: tuple[Chunk, ...]
    chunk_vectors: Vectors | None
    turn_vectors: Vectors | None


class HistoryStore(Protocol):
    """Durable windows and summaries. A window is appended as a whole, its `windows` row last."""

    def load(self, key: ChannelKey) -> Iterable[RecordedWindow]:
        """The committed windows of a channel, in order; whatever lies beyond the last is dropped."""
        ...

    def append(self, recorded: RecordedWindow) -> None:
        """Commit one window; after a crash it is there as a whole or not at all."""
        ...

    def summary_ids(self, key: ChannelKey) -> set[str]:
        """Ids of the channel's finished summaries."""
        ...

    def summary(self, summary_id: str) -> bytes:
        """The finished summary, byte for byte as it was emitted."""
        ...

    def put_summary(self, key: ChannelKey, summary_id: str, body: bytes) -> None:
        """Keep a finished summary before it is emitted."""
        ...


class ChannelHistory:
    """The hot index of one channel: turns, chunk ranges, BM25 postings and vectors, append-only."""

    def __init__(self, key: ChannelKey, dimensions: int | None) -> None:
        self.key = key
        self.summary_ids: set[str] = set()
        self._windows: list[WindowRef] = []
        self._last_seqs: list[int] = []
        self._turns: list[Turn] = []
        self._seq_by_id: dict[str, int] = {}
        self._chunk_turns = GrowingArray(np.int32, (2,))
        self._chunk_tokens = GrowingArray(np.int32, (3,))  # window index, start, end
        self._bm25 = AsOfBM25()
        self._dense = None if dimensions is None else AsOfDense(dimensions)
        self._turn_vectors = None if dimensions is None else GrowingArray(np.float32, (dimensions,))

    @property
    def recorded_until(self) -> int:
        """The first `seq` that no recorded window holds."""
        return self._last_seqs[-1] + 1 if self._last_seqs else 0

    @property
    def windows(self) -> Sequence[WindowRef]:
        """The recorded windows, in order."""
        return self._windows

    def window_of(self, seq: int) -> WindowRef:
        """The recorded window that holds turn `seq`."""
        return self._windows[bisect_left(self._last_seqs, seq)]

    def find(self, message_id: str) -> Turn | None:
        """The recorded turn of a message, by its id."""
        seq = self._seq_by_id.get(message_id)
        return None if seq is None else self._turns[seq]

    def turns(self, first_seq: int, last_seq: int) -> Sequence[Turn]:
        """Recorded turns `first_seq` to `last_seq`, inclusive."""
        return self._turns[first_seq : last_seq + 1]

    def as_of(self, before_seq: int) -> AsOf:
        """The history as it was before turn `before_seq`: windows that end before it."""
        return AsOf(self, bisect_left(self._last_seqs, before_seq))

    def check(self, recorded: RecordedWindow) -> None:
        """Make sure that a window can be appended.

        Raises:
            HistoryError: it does not follow the last one recorded, or its vectors are missing.
        """
        ref = recorded.window.ref
        if ref.index != len(self._windows) or ref.first_seq != self.recorded_until:
            msg = (
                f"{self.key}: window {ref.index} starts at turn {ref.first_seq}, but the history "
                f"holds {len(self._windows)} windows up to turn {self.recorded_until - 1}"
            )
            raise HistoryError(msg)
        if self._dense is not None and (recorded.chunk_vectors is None or recorded.turn_vectors is None):
            raise HistoryError(f"{self.key}: window {ref.index} was recorded without vectors")

    def append(self, recorded: RecordedWindow) -> None:
        """Index the next closed window.

        Raises:
            HistoryError: as `check`.
        """
        self.check(recorded)
        ref, turns = recorded.window.ref, recorded.window.turns
        self._turns.extend(turns)
        self._seq_by_id.update((turn.id, turn.seq) for turn in turns)
        self._chunk_turns.extend([(chunk.first_seq, chunk.last_seq) for chunk in recorded.chunks])
        self._chunk_tokens.extend([(ref.index, chunk.start, chunk.end) for chunk in recorded.chunks])
        self._bm25.append_window([chunk.text for chunk in recorded.chunks])
        if self._dense is not None and recorded.chunk_vectors is not None:
            self._dense.append_window(recorded.chunk_vectors)
        if self._turn_vectors is not None and recorded.turn_vectors is not None:
            self._turn_vectors.extend(recorded.turn_vectors)
        self._windows.append(ref)
        self._last_seqs.append(ref.last_seq)  # last: a cut never sees half a window


@dataclass(frozen=True, slots=True)
class AsOf:
    """A channel's history cut after its first `windows` windows. Positions count its chunks."""

    history: ChannelHistory
    windows: int

    @property
    def before_seq(self) -> int:
        """The first turn that is out of sight."""
        return self.history._last_seqs[self.windows - 1] + 1 if self.windows else 0

    @property
    def chunks(self) -> int:
        """Number of chunks in sight."""
        return self.history._bm25.size(self.windows)

    def sparse(self, query: str) -> NDArray[np.float64]:
        """BM25 score of every chunk, float64 `[chunks]`."""
        return self.history._bm25.scores(query, windows=self.windows)

    def dense(self, queries: Vectors) -> NDArray[Any]:
        """Cosine of every query to every chunk, float32 `[queries, chunks]`.

        Raises:
            HistoryError: the history is kept without an embedder.
        """
        if self.history._dense is None:
            raise HistoryError(f"{self.history.key}: dense search needs a history with vectors")
        return self.history._dense.scores(queries, windows=self.windows)

    def chunk_turns(self, position: int) -> range:
        """The turns that a chunk touches."""
        first, last = self.history._chunk_turns.view[position].tolist()
        return range(first, last + 1)

    def chunk_tokens(self, position: int) -> tuple[WindowRef, int, int]:
        """The window of a chunk, and the chunk's token range `[start, end)` in it."""
        index, start, end = self.history._chunk_tokens.view[position].tolist()
        return self.history._windows[index], start, end

    def turn(self, seq: int) -> Turn:
        """A turn in sight."""
        return self.history._turns[seq]

    def turn_vectors(self, seqs: Sequence[int]) -> Vectors:
        """Unit vectors of turns, float32 `[seqs, dimensions]`."""
        if self.history._turn_vectors is None:
            raise HistoryError(f"{self.history.key}: turn vectors need a history with an embedder")
        vectors: Vectors = self.history._turn_vectors.view[np.asarray(seqs, dtype=np.intp)]
        return vectors


class Histories:
    """The hot histories of this process, loaded from the store on first use."""

    def __init__(self, store: HistoryStore, embedder: Embedder | None, chunker: Chunker) -> None:
        self.store = store
        self.embedder = embedder
        self.chunker = chunker
        self._hot: dict[ChannelKey, ChannelHistory] = {}
        self._lock = threading.Lock()

    def __getitem__(self, key: ChannelKey) -> ChannelHistory:
        with self._lock:
            history = self._hot.get(key)
            if history is None:
                history = ChannelHistory(key, self.embedder.dimensions if self.embedder else None)
                for recorded in self.store.load(key):
                    history.append(recorded)
                history.summary_ids = self.store.summary_ids(key)
                self._hot[key] = history
            return history

    def record(self, window: Window) -> bool:
        """Chunk, embed, store and index a closed window; False if the history already has it."""
        history = self[window.ref.key]
        if window.ref.last_seq < history.recorded_until:
            return False
        chunks = self.chunker.chunk(window.turns)
        chunk_vectors = turn_vectors = None
        if self.embedder:
            chunk_vectors = self.embedder.embed_passages([chunk.text for chunk in chunks])
            turn_vectors = self.embedder.embed_passages([turn.rendered for turn in window.turns])
        recorded = RecordedWindow(window, chunks, chunk_vectors, turn_vectors)
        history.check(recorded)
        self.store.append(recorded)
        history.append(recorded)
        return True

    def window_turns(self, ref: WindowRef) -> Sequence[Turn]:
        """The turns of a recorded window."""
        return self[ref.key].turns(ref.first_seq, ref.last_seq)

    def put_summary(self, key: ChannelKey, summary_id: str, body: bytes) -> None:
        """Keep a finished summary, so that a replay emits it again instead of making it again."""
        self.store.put_summary(key, summary_id, body)
        self[key].summary_ids.add(summary_id)
