"""A channel's rows become its windows: what is committed, as it is, and what a change left undone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connectors.lancedb_sharing import SharedTable, Tables
from connectors.lancedb_tables import StoreError, to_chunk, to_turn, vector_positions, where
from operators.dense import Vectors
from operators.history import RecordedWindow, StoredChannel
from operators.messages import ChannelKey
from operators.windows import Window, WindowRef

__all__ = ["IncompleteError", "load"]


class IncompleteError(StoreError):
    """Rows of committed windows are missing."""


def load(tables: Tables, key: ChannelKey, *, owned: bool) -> StoredChannel:
    """What is committed of a channel.

    Args:
        tables: the store.
        key: the channel.
        owned: nobody else writes the channel, so what lies beyond its last window was left by a
            crash, and is deleted.

    Raises:
        IncompleteError: rows are missing; or somebody changed the channel while it was read.
    """
    here = where(key)
    # Changes first: a change that begins while the rest is read shows as rows that are missing.
    begun = {row["window"] for row in tables["changes"].rows(here, ["window"])}
    windows = sorted(tables["windows"].rows(here), key=lambda row: row["window"])
    if [row["window"] for row in windows] != list(range(len(windows))):
        raise IncompleteError(f"rows of {key} are missing")
    if owned:
        _drop_uncommitted(tables, here, windows)
    finished = tables["summaries"].read(f"{here} AND body != X''", ["summary_id"])
    stale = tables["summaries"].read(f"{here} AND body = X''", ["summary_id"])
    erased = tables["erased"].read(here, ["id"])
    unfinished = frozenset(begun & set(range(len(windows))))
    return StoredChannel(
        windows=list(_windows(tables, key, windows, unfinished)),
        summary_ids=frozenset(finished["summary_id"].to_pylist()),
        stale_ids=frozenset(stale["summary_id"].to_pylist()),
        erased_ids=frozenset(erased["id"].to_pylist()),
        unfinished=unfinished,
    )


def _end(windows: Sequence[dict[str, Any]]) -> int:
    """The first turn after the committed windows."""
    return windows[-1]["last_seq"] + 1 if windows else 0


def _drop_uncommitted(tables: Tables, here: str, windows: Sequence[dict[str, Any]]) -> None:
    turns, chunks = _end(windows), len(windows) << 32
    tables["turns"].delete(f"{here} AND seq >= {turns}")
    tables["chunks"].delete(f"{here} AND window >= {len(windows)}")
    for kind, end in (("chunk", chunks), ("turn", turns)):
        for table in tables.vectors(kind):
            table.delete(f"{here} AND position >= {end}")


def _windows(
    tables: Tables, key: ChannelKey, windows: Sequence[dict[str, Any]], unfinished: frozenset[int]
) -> Iterator[RecordedWindow]:
    here, until = where(key), _end(windows)
    turns = sorted(tables["turns"].rows(f"{here} AND seq < {until}"), key=lambda row: row["seq"])
    chunks = tables["chunks"].rows(f"{here} AND window < {len(windows)}")
    chunks.sort(key=lambda row: (row["window"], row["start"]))
    cuts = np.searchsorted([row["window"] for row in chunks], np.arange(len(windows) + 1)).tolist()
    chunk_vectors = _PositionedVectors.read(tables.chunk_vectors, here, len(windows) << 32)
    turn_vectors = _PositionedVectors.read(tables.turn_vectors, here, until)
    if [row["seq"] for row in turns] != list(range(until)):
        raise IncompleteError(f"rows of {key} are missing")
    for index, row in enumerate(windows):
        first, end = row["first_seq"], row["last_seq"] + 1
        ref = WindowRef(key, index, first, end - 1, row["revision"])
        window = Window(ref, tuple(to_turn(turn) for turn in turns[first:end]))
        if index in unfinished:
            yield RecordedWindow(window, (), None, None)
            continue
        of_window = tuple(to_chunk(chunk) for chunk in chunks[cuts[index] : cuts[index + 1]])
        recorded = RecordedWindow(window, of_window, None, None)
        if not of_window and window.live.turns:
            raise IncompleteError(f"rows of {key} are missing")
        if chunk_vectors is None or turn_vectors is None:
            yield recorded
            continue
        chunks_at, turns_at = vector_positions(recorded)
        of_chunks = chunk_vectors.at(chunks_at, index << 32, (index + 1) << 32)
        of_turns = turn_vectors.at(turns_at, first, end)
        if of_chunks is None or of_turns is None:
            raise IncompleteError(f"rows of {key} are missing")
        yield RecordedWindow(window, of_window, of_chunks, of_turns)


class _PositionedVectors:
    """Vectors in the order of their positions: int64 `[rows]`, float32 `[rows, dimensions]`."""

    def __init__(self, positions: NDArray[np.int64], vectors: Vectors) -> None:
        self._positions = positions
        self._vectors = vectors

    @classmethod
    def read(cls, table: SharedTable | None, here: str, end: int) -> _PositionedVectors | None:
        """The channel's vectors before position `end`."""
        if table is None:
            return None
        rows = table.read(f"{here} AND position < {end}", ["position", "vector"])
        rows = rows.sort_by("position").combine_chunks()
        flat = rows["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        dimensions = rows.schema.field("vector").type.list_size
        return cls(rows["position"].to_numpy(), np.asarray(flat, dtype=np.float32).reshape(-1, dimensions))

    def at(self, positions: Sequence[int], first: int, end: int) -> Vectors | None:
        """The vectors from position `first` until before `end`; None if they stand at other positions."""
        left, right = np.searchsorted(self._positions, [first, end]).tolist()
        if not np.array_equal(self._positions[left:right], positions):
            return None
        return self._vectors[left:right]
