"""A channel's history: its closed windows, in memory for retrieval and durable in a store.

A lookup states how much it may see, `as_of(before_seq)`, and returns what a fresh index over just
those closed windows would return. So several windows of a channel can be in flight at once, a replay
gives the same result as a live run, and a window's memory never contains the window itself or
anything after it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.history.chunk_index import ChunkIndex
from backscroll.operators.history.columns import Columns, KeptTurns, RecordedWindow
from backscroll.operators.history.store import HistoryError
from backscroll.operators.history.window_index import ReadTurns, WindowIndex
from backscroll.operators.index.arrays import GrowingArray
from backscroll.operators.index.embedder import Embedder, Vectors, VectorSearch
from backscroll.operators.index.ranking import Ranking
from backscroll.operators.messages import ChannelKey, Turn
from backscroll.operators.stream.windows import WindowRef

__all__ = ["AsOf", "ChannelHistory"]

_TINY = np.float32(1e-12)
_OBJECT_BYTES = 160  # of a small object with its place in a dict

_Index = TypeVar("_Index", bound=WindowIndex)


class ChannelHistory:
    """The in-memory index of one channel: turns, their vectors, chunks, and the strategies' indexes.

    It grows one window at a time. When turns change, everything computed from their window is
    replaced. `revision` counts the changes; a window's own revision is the channel's revision when
    the window closed or last changed.

    Args:
        key: the channel.
        dimensions: length of a vector; None for a history without vectors.
        search: searches chunks by vector once there are too many vectors to keep in memory.
    """

    def __init__(
        self, key: ChannelKey, dimensions: int | None, *, search: VectorSearch | None = None
    ) -> None:
        self.key = key
        self.revision = 0
        self.summary_ids: set[str] = set()
        self.stale_ids: set[str] = set()
        self.erased_ids: set[str] = set()
        self._windows: list[WindowRef] = []
        self._last_seqs: list[int] = []
        self._turns = KeptTurns()
        self._turn_vectors = None if dimensions is None else GrowingArray(np.float16, (dimensions,))
        self._indexes: dict[type[WindowIndex], WindowIndex] = {}
        self.chunks = ChunkIndex(key, dimensions, search=search)

    @property
    def nbytes(self) -> int:
        """Approximate size of the history in memory, in bytes."""
        return sum(self.sizes().values())

    def sizes(self) -> dict[str, int]:
        """Approximate size of each part, in bytes."""
        ids = len(self.summary_ids) + len(self.stale_ids) + len(self.erased_ids)
        of_chunks = self.chunks.sizes()
        return of_chunks | {
            "turn_vectors": 0 if self._turn_vectors is None else self._turn_vectors.nbytes,
            "turns": self._turns.nbytes,
            "window_indexes": sum(index.nbytes for index in self._indexes.values()),
            "places": of_chunks["places"] + _OBJECT_BYTES * (1 + ids + len(self._windows)),
        }

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
        return self._turns.find(message_id)

    def is_erased(self, message_id: str) -> bool:
        """Whether the message was deleted before it arrived."""
        return message_id in self.erased_ids

    def turn(self, seq: int) -> Turn:
        """A recorded turn."""
        return self._turns[seq]

    def turns(self, first_seq: int, last_seq: int) -> Sequence[Turn]:
        """Recorded turns `first_seq` to `last_seq`, inclusive."""
        return self._turns.between(first_seq, last_seq + 1)

    @property
    def has_vectors(self) -> bool:
        """Whether the history has vectors, that is, an embedder."""
        return self._turn_vectors is not None

    def turn_vectors(self, seqs: Sequence[int] | slice) -> Vectors:
        """Unit vectors of turns, float32 `[seqs, dimensions]`; stored in half precision.

        Raises:
            HistoryError: the history has no embedder.
        """
        vectors = self._kept_vectors(seqs)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _TINY)
        return vectors

    def kept_turn_vectors(self, ref: WindowRef) -> Vectors:
        """The vectors of a window's turns exactly as stored, for storing again; nearly unit length.

        Raises:
            HistoryError: the history has no embedder.
        """
        return self._kept_vectors(slice(ref.first_seq, ref.last_seq + 1))

    def _kept_vectors(self, seqs: Sequence[int] | slice) -> Vectors:
        if self._turn_vectors is None:
            raise HistoryError(f"{self.key}: turn vectors need a history with an embedder")
        chosen = seqs if isinstance(seqs, slice) else np.asarray(seqs, dtype=np.intp)
        vectors: Vectors = self._turn_vectors.view[chosen].astype(np.float32)
        return vectors

    def index(self, kind: type[_Index]) -> _Index:
        """A strategy's own index of the recorded windows; created on first use."""
        found = self._indexes.get(kind)
        if found is None:
            found = self._indexes[kind] = kind(self._reader())
        return cast(_Index, found)

    def _reader(self) -> ReadTurns:
        # No reference back to the history, so that a dropped history is freed at once.
        windows, turns = self._windows, self._turns

        def read(window: int) -> Sequence[Turn]:
            return turns.between(windows[window].first_seq, windows[window].last_seq + 1)

        return read

    def recorded_window(self, turns: Sequence[Turn]) -> WindowRef | None:
        """The recorded window with exactly these turns, unchanged; None if there is none."""
        first, last = turns[0].seq, turns[-1].seq
        if last >= self.recorded_until:
            return None
        ref = self.window_of(last)
        if (ref.first_seq, ref.last_seq) != (first, last):
            return None
        return ref if list(self.turns(first, last)) == list(turns) else None

    def as_of(self, before_seq: int) -> AsOf:
        """The history as it was before turn `before_seq`: only the windows that end before it."""
        return AsOf(self, bisect_left(self._last_seqs, before_seq))

    def changed_since(self, revision: int, seqs: Iterable[int]) -> bool:
        """Whether a window that holds one of these recorded turns changed after a revision."""
        return any(self.window_of(seq).revision > revision for seq in seqs)

    def check(self, windows: Sequence[RecordedWindow], *, unfinished: frozenset[int] = frozenset()) -> None:
        """Check that windows can be appended; `unfinished` ones may lack vectors.

        Raises:
            HistoryError: they do not follow the last recorded window, or vectors are missing.
        """
        columns = Columns.of(windows)
        until = self.recorded_until
        for index, ref in enumerate(columns.refs, len(self._windows)):
            if ref.index != index or ref.first_seq != until:
                msg = (
                    f"{self.key}: window {ref.index} starts at turn {ref.first_seq}, but the history "
                    f"holds {index} windows up to turn {until - 1}"
                )
                raise HistoryError(msg)
            until = ref.last_seq + 1
        for index in sorted(columns.lacking - unfinished) if self._turn_vectors is not None else ():
            raise HistoryError(f"{self.key}: window {index} was recorded without vectors")

    def append(self, recorded: RecordedWindow) -> None:
        """Index the next closed window.

        Raises:
            HistoryError: as `check`.
        """
        self.extend([recorded])

    def extend(self, windows: Sequence[RecordedWindow], *, unfinished: frozenset[int] = frozenset()) -> None:
        """Index closed windows all at once, which is fast for a long history.

        `unfinished` windows have no chunks and vectors yet: call `replace` to supply them.

        Raises:
            HistoryError: as `check`.
        """
        columns = Columns.of(windows)
        self.check(columns, unfinished=unfinished)
        if not columns.refs:
            return
        self._turns.extend(columns.turns, columns.ids)
        self.chunks.append(columns)
        if self._turn_vectors is not None:
            vectors = columns.turn_vectors
            if vectors is None:  # of windows whose change is unfinished
                vectors = np.zeros((len(columns.turns), *self._turn_vectors.view.shape[1:]), np.float32)
            self._turn_vectors.extend(vectors)
        self.revision = max(self.revision, *(ref.revision for ref in columns.refs))
        self._windows.extend(columns.refs)
        # Last: a cut never sees half a window.
        self._last_seqs.extend(ref.last_seq for ref in columns.refs)

    def replace(self, recorded: RecordedWindow) -> None:
        """Replace the content of a recorded window; its boundaries stay the same."""
        ref = recorded.window.ref
        self._turns.replace(recorded.window.turns)
        self.chunks.replace(recorded)
        if self._turn_vectors is not None and recorded.turn_vectors is not None:
            self._turn_vectors.view[ref.first_seq : ref.last_seq + 1] = recorded.turn_vectors
        for index in self._indexes.values():
            index.replace(recorded.window)
        self.revision = max(self.revision, ref.revision)
        self._windows[ref.index] = ref


@dataclass(frozen=True, slots=True)
class AsOf:
    """A view of a channel's history that ends after its first `windows` windows.

    Positions count the chunks in view.
    """

    history: ChannelHistory
    windows: int

    @property
    def before_seq(self) -> int:
        """The first turn that is not in view."""
        return self.history.windows[self.windows - 1].last_seq + 1 if self.windows else 0

    @property
    def chunks(self) -> int:
        """Number of chunks in view."""
        return self.history.chunks.count(self.windows)

    def sparse(self, query: str, *, most: float = 1.0) -> NDArray[np.float64]:
        """BM25 score of every chunk, float64 `[chunks]`; words in more than `most` of them are ignored."""
        return self.history.chunks.bm25(query, windows=self.windows, most=most)

    def nearest(self, queries: Vectors, k: int) -> list[Ranking]:
        """The `k` chunks with the largest cosine to each query.

        Exact, in one matrix product, if the history keeps its chunk vectors in memory; otherwise the
        store searches.

        Raises:
            HistoryError: the history has no embedder.
        """
        return self.history.chunks.nearest(queries, k, windows=self.windows)

    @property
    def chunk_vectors(self) -> Vectors:
        """Unit vectors of every chunk in view, float32 `[chunks, dimensions]`, not copied.

        Raises:
            HistoryError: the history does not keep them in memory.
        """
        return self.history.chunks.vectors(self.windows)

    def chunk_turns(self, position: int) -> range:
        """The turns that a chunk in view covers, in whole or in part.

        Raises:
            IndexError: the chunk is not in view.
        """
        self._check_chunk(position)
        return self.history.chunks.turns(position)

    def chunk_tokens(self, position: int) -> tuple[WindowRef, int, int]:
        """The window of a chunk in view, and the chunk's token range `[start, end)` in it.

        Raises:
            IndexError: the chunk is not in view.
        """
        self._check_chunk(position)
        window, start, end = self.history.chunks.tokens(position)
        return self.history.windows[window], start, end

    def _check_chunk(self, position: int) -> None:
        if not 0 <= position < self.chunks:
            raise IndexError(f"chunk {position} is not in view: the history ends before chunk {self.chunks}")

    def turn(self, seq: int) -> Turn:
        """A turn in view.

        Raises:
            IndexError: the turn is not in view.
        """
        self._check_turn(seq)
        return self.history.turn(seq)

    def _check_turn(self, seq: int) -> None:
        if not 0 <= seq < self.before_seq:
            raise IndexError(f"turn {seq} is not in view: the history ends before turn {self.before_seq}")

    def index(self, kind: type[_Index]) -> _Index:
        """A strategy's own index of the channel; query it only about the first `windows` windows."""
        return self.history.index(kind)

    @property
    def has_vectors(self) -> bool:
        """Whether the history has vectors, that is, an embedder."""
        return self.history.has_vectors

    @property
    def all_turn_vectors(self) -> Vectors:
        """Unit vectors of every turn in view, float32 `[turns, dimensions]`."""
        return self.history.turn_vectors(slice(0, self.before_seq))

    def turn_vectors(self, seqs: Sequence[int]) -> Vectors:
        """Unit vectors of turns in view, float32 `[seqs, dimensions]`.

        Raises:
            IndexError: a turn is not in view.
            HistoryError: the history has no embedder.
        """
        for seq in (min(seqs), max(seqs)) if seqs else ():
            self._check_turn(seq)
        return self.history.turn_vectors(seqs)

    def window_vectors(self, turns: Sequence[Turn], embedder: Embedder) -> Vectors:
        """Unit vectors of the window's own turns: stored ones if it is recorded, else computed now."""
        if self.history.recorded_window(turns) is not None:
            return self.history.turn_vectors(range(turns[0].seq, turns[-1].seq + 1))
        return embedder.embed_passages([turn.rendered for turn in turns])
