"""Recorded windows in columns: the form in which a store loads them and an index takes them in.

Turn objects can be created on access, so that a long history loads without one object per message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, cast, overload

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.history.chunks import Chunk
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import Window, WindowRef

__all__ = ["Columns", "KeptTurns", "LoadedTurns", "RecordedWindow"]

_TURN_BYTES = 600  # of a turn's objects, without its text


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """A closed window with everything that is computed from it when it closes.

    `chunk_vectors` is float32 `[chunks, dimensions]`, `turn_vectors` float32 `[turns, dimensions]`;
    both are None if the history has no embedder.
    """

    window: Window
    chunks: tuple[Chunk, ...]
    chunk_vectors: Vectors | None
    turn_vectors: Vectors | None


@dataclass(frozen=True, slots=True, eq=False)
class Columns(Sequence[RecordedWindow]):
    """Consecutive windows of one channel; a sequence whose items are created on access.

    Attributes:
        refs: the windows.
        turns: their turns, as a list or as a sequence that creates them on access.
        ids: the message ids of the turns.
        chunks: token range `[start, end)`, first and last turn of every chunk, int64 `[chunks, 4]`.
        texts: the texts of the chunks.
        cuts: number of chunks before each window, then the total, int64 `[windows + 1]`.
        chunk_vectors, turn_vectors: of all chunks and turns; None without an embedder. Rows that
            belong to a `lacking` window are meaningless.
        lacking: indexes of windows without vectors.
    """

    refs: Sequence[WindowRef]
    turns: Sequence[Turn]
    ids: Sequence[str]
    chunks: NDArray[np.int64]
    texts: Sequence[str]
    cuts: NDArray[np.int64]
    chunk_vectors: Vectors | None
    turn_vectors: Vectors | None
    lacking: frozenset[int] = frozenset()

    @classmethod
    def of(cls, windows: Sequence[RecordedWindow]) -> Columns:
        """The columns of windows."""
        if isinstance(windows, Columns):
            return windows
        turns = list(chain.from_iterable(one.window.turns for one in windows))
        chunks = list(chain.from_iterable(one.chunks for one in windows))
        rows = [(chunk.start, chunk.end, chunk.first_seq, chunk.last_seq) for chunk in chunks]
        return cls(
            [one.window.ref for one in windows],
            turns,
            [turn.id for turn in turns],
            np.array(rows, np.int64).reshape(-1, 4),
            [chunk.text for chunk in chunks],
            np.cumsum([0, *(len(one.chunks) for one in windows)]),
            _stacked([one.chunk_vectors for one in windows], [len(one.chunks) for one in windows]),
            _stacked([one.turn_vectors for one in windows], [len(one.window.turns) for one in windows]),
            frozenset(one.window.ref.index for one in windows if one.turn_vectors is None),
        )

    def __len__(self) -> int:
        return len(self.refs)

    @overload
    def __getitem__(self, index: int) -> RecordedWindow: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RecordedWindow]: ...
    def __getitem__(self, index: int | slice) -> RecordedWindow | Sequence[RecordedWindow]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        ref, first = self.refs[place], self.refs[0].first_seq
        turns = slice(ref.first_seq - first, ref.last_seq - first + 1)
        chunks = slice(*self.cuts[place : place + 2].tolist())
        whole = ref.index not in self.lacking
        return RecordedWindow(
            Window(ref, tuple(self.turns[turns])),
            tuple(map(Chunk, *self.chunks[chunks].T.tolist(), self.texts[chunks])),
            self.chunk_vectors[chunks] if self.chunk_vectors is not None and whole else None,
            self.turn_vectors[turns] if self.turn_vectors is not None and whole else None,
        )

    def __iter__(self) -> Iterator[RecordedWindow]:
        return (self[place] for place in range(len(self)))


class LoadedTurns(Protocol):
    """A sequence of turns that are created on access."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: slice) -> Sequence[Turn]:
        """Create the turns."""
        ...

    @property
    def nbytes(self) -> int:
        """Size of the data that the turns are created from, in bytes."""
        ...

    def blank(self, places: Sequence[int]) -> None:
        """Discard the texts of changed turns."""
        ...


class KeptTurns:
    """The turns of a channel by `seq`: loaded at first, added since, or changed."""

    def __init__(self) -> None:
        self._loaded: LoadedTurns | None = None
        self._added: list[Turn] = []
        self._changed: dict[int, Turn] = {}
        self._hashes = np.zeros(0, np.int64)  # of the ids of loaded turns, ascending
        self._seqs = np.zeros(0, np.int32)
        self._seq_by_id: dict[str, int] = {}  # of added turns
        self._characters = 0  # of added turns

    def __len__(self) -> int:
        return self._from + len(self._added)

    @property
    def _from(self) -> int:
        return 0 if self._loaded is None else len(self._loaded)

    @property
    def nbytes(self) -> int:
        """Approximate size of the turns, in bytes."""
        loaded = 0 if self._loaded is None else self._loaded.nbytes
        objects = (len(self._added) + len(self._changed)) * _TURN_BYTES + self._characters
        return loaded + self._hashes.nbytes + self._seqs.nbytes + objects

    def __getitem__(self, seq: int) -> Turn:
        (turn,) = self.between(seq, seq + 1)
        return turn

    def between(self, first: int, end: int) -> Sequence[Turn]:
        """Turns `first` (inclusive) to `end` (exclusive)."""
        loaded = self._from
        if self._loaded is None or first >= loaded:
            return self._added[first - loaded : end - loaded]
        turns = [*self._loaded[first:end], *self._added[: max(end - loaded, 0)]]
        if not self._changed:
            return turns
        return [self._changed.get(seq, turn) for seq, turn in enumerate(turns, first)]

    def extend(self, turns: Sequence[Turn], ids: Sequence[str]) -> None:
        """Add turns and their message ids; the first batch may be created on access."""
        if not len(self) and not isinstance(turns, list):
            self._loaded = cast(LoadedTurns, turns)
            hashes = np.fromiter(map(hash, ids), np.int64, len(ids))
            order = np.argsort(hashes, kind="stable")
            self._hashes, self._seqs = hashes[order], order.astype(np.int32)
            return
        self._seq_by_id.update(zip(ids, range(len(self), len(self) + len(ids)), strict=True))
        self._added.extend(turns)
        self._characters += sum(len(turn.text) for turn in turns)

    def replace(self, turns: Sequence[Turn]) -> None:
        """Replace the turns with the same `seq`; message ids stay the same."""
        loaded = self._from
        for turn in turns:
            if turn.seq < loaded:
                self._changed[turn.seq] = turn
            else:
                self._added[turn.seq - loaded] = turn
        if self._loaded is not None:
            self._loaded.blank([turn.seq for turn in turns if turn.seq < loaded])

    def find(self, message_id: str) -> Turn | None:
        """The turn of a message, by the message's id."""
        seq = self._seq_by_id.get(message_id)
        if seq is not None:
            return self[seq]
        wanted = np.int64(hash(message_id))
        low, high = (int(self._hashes.searchsorted(wanted, side)) for side in ("left", "right"))
        for seq in self._seqs[low:high].tolist():
            turn = self[seq]
            if turn.id == message_id:
                return turn
        return None


def _stacked(parts: Sequence[Vectors | None], lengths: Sequence[int]) -> Vectors | None:
    """Concatenate vectors, with zeros for missing ones; None if all are missing."""
    dimensions = next((part.shape[1] for part in parts if part is not None), None)
    if dimensions is None:
        return None
    return np.concatenate(
        [
            np.zeros((length, dimensions), np.float32) if part is None else part
            for part, length in zip(parts, lengths, strict=True)
        ]
    )
