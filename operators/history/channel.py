"""A channel's history: its closed windows, hot for retrieval and durable in a store.

A lookup names what it may see, `as_of(before_seq)`, and gets what a fresh index over those closed
windows would give. So windows of one channel can be in flight at once, a replay equals live, and
nothing from a window or after it leaks into its own memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.history.columns import Columns, KeptTurns, RecordedWindow
from backscroll.operators.history.store import HistoryError
from backscroll.operators.index.arrays import GrowingArray
from backscroll.operators.index.bm25 import AsOfBM25, ranking
from backscroll.operators.index.dense import AsOfDense
from backscroll.operators.index.embedder import Embedder, Vectors, VectorSearch
from backscroll.operators.memory.turn_features import TurnIndex, TurnRows
from backscroll.operators.messages import ChannelKey, Turn
from backscroll.operators.stream.windows import WindowRef

__all__ = ["AsOf", "ChannelHistory", "RecordedWindow"]

_TINY = np.float32(1e-12)


_OBJECT_BYTES = 160  # of a small object with its place in a dict


_AT_ONCE = 128  # windows of a long history indexed together: their words fit the processor's cache


class ChannelHistory:
    """The hot index of one channel: turns, chunk ranges, BM25 postings and vectors.

    It grows by windows; a change of turns replaces what was made of their window. `revision` counts
    the changes; a window's own revision is the channel's when it closed, or when it last changed.

    Args:
        key: the channel.
        dimensions: length of a vector; None for a history without vectors.
        search: what finds chunks by their vectors once there are too many to keep them here.
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
        self._chunk_turns = GrowingArray(np.int32, (2,))
        self._chunk_tokens = GrowingArray(np.int32, (3,))  # window index, start, end
        self._bm25 = AsOfBM25()
        self._dense = None if dimensions is None else AsOfDense(dimensions)
        self._search = search
        self._turn_vectors = None if dimensions is None else GrowingArray(np.float16, (dimensions,))
        self._turn_index = TurnIndex()  # filled when a strategy first asks

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory the history takes."""
        return sum(self.sizes().values())

    def sizes(self) -> dict[str, int]:
        """About how many bytes its parts take."""
        ids = len(self.summary_ids) + len(self.stale_ids) + len(self.erased_ids)
        places = self._chunk_turns.nbytes + self._chunk_tokens.nbytes
        return {
            "index": self._bm25.nbytes + _OBJECT_BYTES * self._bm25.terms,
            "chunk_vectors": 0 if self._dense is None else self._dense.nbytes,
            "turn_vectors": 0 if self._turn_vectors is None else self._turn_vectors.nbytes,
            "turns": self._turns.nbytes,
            "turn_index": self._turn_index.nbytes,
            "places": places + _OBJECT_BYTES * (1 + ids + len(self._windows)),
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
        """Whether the message was deleted before it came."""
        return message_id in self.erased_ids

    def turns(self, first_seq: int, last_seq: int) -> Sequence[Turn]:
        """Recorded turns `first_seq` to `last_seq`, inclusive."""
        return self._turns.between(first_seq, last_seq + 1)

    def kept_turn_vectors(self, ref: WindowRef) -> Vectors:
        """The vectors of a window's turns as they are kept, of nearly unit length; to be kept again."""
        assert self._turn_vectors is not None
        vectors: Vectors = self._turn_vectors.view[ref.first_seq : ref.last_seq + 1].astype(np.float32)
        return vectors

    def rows_of(self, windows: Iterable[int]) -> TurnRows:
        """What the evidence ranker knows of the turns of some windows, by index."""
        refs = [self._windows[index] for index in windows]
        ends = {ref.first_seq: ref.last_seq for ref in refs}
        return self._turn_index.among(list(ends), lambda seq: self.turns(seq, ends[seq]))

    def as_of(self, before_seq: int) -> AsOf:
        """The history as it was before turn `before_seq`: windows that end before it."""
        return AsOf(self, bisect_left(self._last_seqs, before_seq))

    def changed_since(self, revision: int, seqs: Iterable[int]) -> bool:
        """Whether a window with one of these recorded turns was changed after a revision."""
        return any(self.window_of(seq).revision > revision for seq in seqs)

    def check(self, windows: Sequence[RecordedWindow], *, unfinished: frozenset[int] = frozenset()) -> None:
        """Make sure that windows can be appended; `unfinished` ones may have no vectors.

        Raises:
            HistoryError: they do not follow the last one recorded, or their vectors are missing.
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
        """Index closed windows, those of a long history in little time.

        `unfinished` are windows without chunks and vectors, which `replace` has to follow with.

        Raises:
            HistoryError: as `check`.
        """
        columns = Columns.of(windows)
        self.check(columns, unfinished=unfinished)
        if not columns.refs:
            return
        self._turns.extend(columns.turns, columns.ids)
        of_window = np.repeat([ref.index for ref in columns.refs], np.diff(columns.cuts))
        self._chunk_tokens.extend(np.column_stack([of_window, columns.chunks[:, :2]]))
        self._chunk_turns.extend(columns.chunks[:, 2:])
        texts, cuts = columns.texts, columns.cuts.tolist()
        for first in range(0, len(columns), _AT_ONCE):
            within = cuts[first : first + _AT_ONCE + 1]
            self._bm25.append_windows([texts[start:end] for start, end in pairwise(within)])
        if self._turn_vectors is not None:
            self._extend_vectors(self._turn_vectors, columns)
        self.revision = max(self.revision, *(ref.revision for ref in columns.refs))
        self._windows.extend(columns.refs)
        # Last: a cut never sees half a window.
        self._last_seqs.extend(ref.last_seq for ref in columns.refs)

    def _extend_vectors(self, turn_vectors: GrowingArray, columns: Columns) -> None:
        dimensions = turn_vectors.view.shape[1]
        of_chunks, of_turns = (
            np.zeros((length, dimensions), np.float32) if of is None else of
            for of, length in (
                (columns.chunk_vectors, columns.cuts[-1]),
                (columns.turn_vectors, len(columns.turns)),
            )
        )
        turn_vectors.extend(of_turns)
        if self._search is not None and len(self._chunk_turns) > self._search.beyond:
            self._dense = None
        if self._dense is not None:
            self._dense.append_windows(of_chunks, columns.cuts)

    def replace(self, recorded: RecordedWindow) -> None:
        """Replace the content of a recorded window, whose boundaries stay."""
        ref, turns = recorded.window.ref, recorded.window.turns
        start, stop = self._bm25.size(ref.index), self._bm25.size(ref.index + 1)
        self._turns.replace(turns)
        self._turn_index.forget(ref.first_seq)
        self._chunk_turns.replace(
            start, stop, [(chunk.first_seq, chunk.last_seq) for chunk in recorded.chunks]
        )
        self._chunk_tokens.replace(
            start, stop, [(ref.index, chunk.start, chunk.end) for chunk in recorded.chunks]
        )
        self._bm25.replace_window(ref.index, [chunk.text for chunk in recorded.chunks])
        if self._dense is not None and recorded.chunk_vectors is not None:
            self._dense.replace_window(ref.index, recorded.chunk_vectors)
        if self._turn_vectors is not None and recorded.turn_vectors is not None:
            self._turn_vectors.view[ref.first_seq : ref.last_seq + 1] = recorded.turn_vectors
        self.revision = max(self.revision, ref.revision)
        self._windows[ref.index] = ref


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

    def sparse(self, query: str, *, most: float = 1.0) -> NDArray[np.float64]:
        """BM25 score of every chunk, float64 `[chunks]`, by words in at most a share of the chunks."""
        return self.history._bm25.scores(query, windows=self.windows, most=most)

    def nearest(self, queries: Vectors, k: int) -> list[list[tuple[int, float]]]:
        """The `k` chunks with the largest cosine to each query, `(position, cosine)`, best first.

        Exact, in one matrix product, while the history keeps the vectors of its chunks; otherwise
        what the store finds.

        Raises:
            HistoryError: the history is kept without an embedder.
        """
        history = self.history
        if history._turn_vectors is None:
            raise HistoryError(f"{history.key}: dense search needs a history with vectors")
        if history._dense is not None:
            return [ranking(row, k) for row in history._dense.scores(queries, windows=self.windows)]
        assert history._search is not None
        found = history._search.nearest(history.key, queries, windows=self.windows, k=k)
        return [
            sorted(
                ((self._position(one.window, one.start), one.cosine) for one in of_query),
                key=lambda pair: (-pair[1], pair[0]),
            )
            for of_query in found
        ]

    def _position(self, window: int, start: int) -> int:
        """The position of the chunk that starts at a token of a window."""
        first, end = self.history._bm25.size(window), self.history._bm25.size(window + 1)
        starts = self.history._chunk_tokens.view[first:end, 1]
        return first + int(np.searchsorted(starts, start))

    @property
    def chunk_vectors(self) -> Vectors:
        """Unit vectors of every chunk in sight, float32 `[chunks, dimensions]`, not copied.

        Raises:
            HistoryError: the history does not keep them.
        """
        if self.history._dense is None:
            raise HistoryError(f"{self.history.key}: the vectors of the chunks are not kept")
        return self.history._dense.vectors(self.windows)

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

    def turn_rows(self) -> TurnRows:
        """What the evidence ranker knows of every turn in sight."""
        history = self.history
        return history._turn_index.rows(
            self.before_seq, lambda seq: history.turns(seq, history.window_of(seq).last_seq)
        )

    def window_rows(self, turns: Sequence[Turn]) -> NDArray[np.float64]:
        """`turn_index.COLUMNS` of the window's own turns, `[turns, columns]`; as kept, once recorded."""
        if self._records(turns):
            return self.history._turn_index.window(turns[0].seq, turns)
        moved = [replace(turn, seq=place) for place, turn in enumerate(turns)]
        return TurnIndex().rows(len(turns), lambda _: moved).columns

    @property
    def has_vectors(self) -> bool:
        """Whether the history is kept with an embedder."""
        return self.history._turn_vectors is not None

    @property
    def all_turn_vectors(self) -> Vectors:
        """Unit vectors of every turn in sight, float32 `[turns, dimensions]`."""
        return self.turn_vectors(slice(0, self.before_seq))

    def window_vectors(self, turns: Sequence[Turn], embedder: Embedder) -> Vectors:
        """Unit vectors of the window's own turns: the recorded ones, or, while it is open, new ones."""
        if self._records(turns):
            return self.turn_vectors(range(turns[0].seq, turns[-1].seq + 1))
        return embedder.embed_passages([turn.rendered for turn in turns])

    def _records(self, turns: Sequence[Turn]) -> bool:
        """Whether these turns, as they are, are a window that the history has recorded."""
        first, last = turns[0].seq, turns[-1].seq
        if last >= self.history.recorded_until or self.history.window_of(last).last_seq != last:
            return False
        return list(self.history.turns(first, last)) == list(turns)

    def turn_vectors(self, seqs: Sequence[int] | slice) -> Vectors:
        """Unit vectors of turns, float32 `[seqs, dimensions]`; they are kept in half precision."""
        if self.history._turn_vectors is None:
            raise HistoryError(f"{self.history.key}: turn vectors need a history with an embedder")
        chosen = seqs if isinstance(seqs, slice) else np.asarray(seqs, dtype=np.intp)
        vectors = self.history._turn_vectors.view[chosen].astype(np.float32)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _TINY)
        return vectors
