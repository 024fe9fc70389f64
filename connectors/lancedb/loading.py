"""Load a channel's committed windows from its rows, and find changes that were not finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from backscroll.connectors.lancedb.schema import StoreError, where
from backscroll.connectors.lancedb.tables import SharedTable, Tables
from backscroll.connectors.lancedb.turns import StoredTurns
from backscroll.operators.history.columns import Columns
from backscroll.operators.history.store import StoredChannel
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.messages import ChannelKey
from backscroll.operators.stream.windows import WindowRef

__all__ = ["IncompleteError", "load"]


class IncompleteError(StoreError):
    """Rows of committed windows are missing."""


def load(tables: Tables, key: ChannelKey, *, clean: bool, exact_chunks: int | None = None) -> StoredChannel:
    """Load what is committed of a channel.

    Args:
        tables: the store's tables.
        key: the channel.
        clean: delete rows beyond the last window, which a crash may have left. Only if nobody else writes
            the channel.
        exact_chunks: if the channel has more chunks than this, their vectors are not read.

    Raises:
        IncompleteError: rows are missing, or another process changed the channel while it was read.
    """
    here = where(key)
    # Changes first: a change that starts while the rest is read then shows as missing rows.
    begun = {row["window"] for row in tables["changes"].rows(here, ["window"])}
    windows = sorted(tables["windows"].rows(here), key=lambda row: row["window"])
    if [row["window"] for row in windows] != list(range(len(windows))):
        raise IncompleteError(f"rows of {key} are missing")
    if clean:
        _drop_uncommitted(tables, here, windows)
    summaries = tables["summaries"].read(here, {"summary_id": "summary_id", "stale": "body = X''"})
    stale = summaries["stale"]
    finished = summaries.filter(pc.invert(stale))["summary_id"]
    erased = tables["erased"].read(here, ["id"])
    unfinished = frozenset(begun & set(range(len(windows))))
    return StoredChannel(
        windows=_columns(tables, key, windows, unfinished, exact_chunks),
        summary_ids=frozenset(finished.to_pylist()),
        stale_ids=frozenset(summaries.filter(stale)["summary_id"].to_pylist()),
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


def _columns(
    tables: Tables,
    key: ChannelKey,
    windows: Sequence[dict[str, Any]],
    unfinished: frozenset[int],
    exact_chunks: int | None,
) -> Columns:
    here, until = where(key), _end(windows)
    refs = [
        WindowRef(key, row["window"], row["first_seq"], row["last_seq"], row["revision"]) for row in windows
    ]
    turns = StoredTurns(tables["turns"].read(f"{here} AND seq < {until}"))
    columns = ["window", "start", "end", "first_seq", "last_seq", "text"]
    chunks = tables["chunks"].read(f"{here} AND window < {len(windows)}", columns)
    chunks = chunks.sort_by([("window", "ascending"), ("start", "ascending")])
    if unfinished:  # chunks of an unfinished change are rebuilt
        half = pc.is_in(chunks["window"], pa.array(sorted(unfinished), pa.int64()))
        chunks = chunks.filter(pc.invert(half))
    of_window, *rows = (chunks[name].to_numpy() for name in columns[:-1])
    cuts = np.searchsorted(of_window, np.arange(len(refs) + 1))
    chunkless = set(np.flatnonzero(np.diff(cuts) == 0).tolist()) - unfinished
    complete = np.array_equal(turns.seqs, np.arange(until)) and not any(
        turns.any_live(refs[index].first_seq, refs[index].last_seq + 1) for index in chunkless
    )
    if not complete:
        raise IncompleteError(f"rows of {key} are missing")
    last_seqs, half = (
        np.array([ref.last_seq for ref in refs], np.int64),
        np.array(sorted(unfinished), np.int64),
    )
    try:
        chunk_vectors = _vectors(
            tables.chunk_vectors,
            f"{here} AND position < {len(refs) << 32}",
            (of_window << 32) + rows[0],
            lambda positions: np.isin(positions >> 32, half),
            read=exact_chunks is None or len(chunks) <= exact_chunks,
        )
        turn_vectors = _vectors(
            tables.turn_vectors,
            f"{here} AND position < {until}",
            np.arange(until),
            lambda seqs: np.isin(np.searchsorted(last_seqs, seqs), half),
        )
    except IncompleteError as err:
        raise IncompleteError(f"rows of {key} are missing") from err
    return Columns(
        refs,
        turns,
        turns.ids,
        np.column_stack(rows).astype(np.int64),
        chunks["text"].to_pylist(),
        cuts,
        chunk_vectors,
        turn_vectors,
        unfinished if tables.turn_vectors is not None else frozenset(range(len(refs))),
    )


def _vectors(
    table: SharedTable | None,
    condition: str,
    wanted: NDArray[np.int64],
    is_half: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
    *,
    read: bool = True,
) -> Vectors | None:
    """The vectors at ascending positions, float32 `[positions, dimensions]`; None without an embedder.

    Positions for which `is_half` is true may be missing or outdated; their vectors are zero. Without `read`,
    only their presence is checked, and None is returned.

    Raises:
        IncompleteError: the table's positions are not the wanted ones.
    """
    if table is None:
        return None
    if not read:
        found = np.sort(table.read(condition, ["position"])["position"].to_numpy())
        if not np.array_equal(found[~is_half(found)], wanted[~is_half(wanted)]):
            raise IncompleteError
        return None
    rows = table.read(condition, ["position", "vector"])
    flat = rows["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    vectors = np.asarray(flat, np.float32).reshape(-1, rows.schema.field("vector").type.list_size)
    found = rows["position"].to_numpy()
    if np.array_equal(found, wanted):
        return vectors
    keep = np.flatnonzero(~is_half(found))
    keep, needed = keep[np.argsort(found[keep])], ~is_half(wanted)
    if not np.array_equal(found[keep], wanted[needed]):
        raise IncompleteError
    placed = np.zeros((len(wanted), vectors.shape[1]), np.float32)
    placed[needed] = vectors[keep]
    return placed
