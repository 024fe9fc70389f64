"""Switch a store to another embedding model: build the new vectors beside the old ones, then switch.

Until the switch the store is unchanged, and an interrupted run resumes where it stopped. Chunks and turns
stay the same; only their vectors are recomputed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backscroll.connectors.lancedb.schema import (
    StoreError,
    first_line,
    occupy,
    vector_positions,
    vector_rows,
    vectors_schema,
    where,
)
from backscroll.connectors.lancedb.store import Fingerprint, LanceStore
from backscroll.connectors.lancedb.tables import SharedTable, connect, is_remote, table_names
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.index.embedder import Embedder, Vectors
from backscroll.operators.messages import ChannelKey

__all__ = ["check_store", "reindex"]

_GROUP = 32  # windows per append, as every append adds a version to its table


def check_store(path: Path | str) -> None:
    """Check that a directory holds a store; an object store is checked when it is opened.

    Raises:
        StoreError: it holds none.
    """
    if not is_remote(path) and not (Path(path) / "meta.lance").is_dir():
        raise StoreError(f"there is no store at {path}: give the directory that you used as --store")


def reindex(
    path: Path | str,
    embedder: Embedder,
    fingerprint: Fingerprint,
    *,
    progress: Callable[[int, int], None],
    drop: bool = False,
) -> int:
    """Embed all committed windows of a store with another embedder, and switch the store to it.

    Vectors that this embedder already has in the store are kept, whether from an interrupted run or from
    earlier use. If the store already uses this embedder, only missing vectors are computed. A window with
    an unfinished change is left to the engine, which must first rebuild its chunks.

    Args:
        path: the store's directory, or its address in an object store. No engine may be using it.
        embedder: the new embedder.
        fingerprint: the fingerprint of an engine with the new embedder.
        progress: called in this thread with the number of windows done and of all windows.
        drop: whether to delete the vectors of all other embedders after the switch.

    Returns:
        The number of windows in the store.

    Raises:
        StoreError: the store does not exist, is in use or damaged, or differs in more than the embedder.
        EmbedderError: the embedder failed. The store still uses the old vectors.
    """
    check_store(path)
    wanted = replace(fingerprint, embedder=embedder.fingerprint)
    with nullcontext() if is_remote(path) else occupy(Path(path)):
        try:
            database = connect(path)
            if "meta" not in table_names(database):
                raise StoreError(f"there is no store at {path}: give the address that you used as --store")
            meta = SharedTable(database, "meta")
            recorded = _recorded(meta, path, wanted)
            store = LanceStore(path, recorded, None, shared=True)
            keys, total = _channels(store.tables["windows"])
            vectors = _NewVectors(database, embedder)
        except (OSError, ValueError, RuntimeError) as err:
            raise StoreError(f"store {path} cannot be read: {first_line(err)}") from err
        done = 0
        for key in keys:
            stored = store.load(key)
            whole = [one for one in stored.windows if one.window.ref.index not in stored.unfinished]
            lacking = vectors.keep_complete(key, whole)
            done += len(stored.windows) - len(lacking)
            progress(done, total)
            for start in range(0, len(lacking), _GROUP):
                done = vectors.make(lacking[start : start + _GROUP], done, total, progress)
        if recorded != wanted:
            meta.overwrite([{"fingerprint": json.dumps(asdict(wanted))}])
        if drop:
            for name in table_names(database):
                if name.startswith(("chunk_vectors_", "turn_vectors_")) and name not in vectors.names:
                    database.drop_table(name)
    return done


class _NewVectors:
    """The new embedder's tables of chunk and turn vectors."""

    def __init__(self, database: Any, embedder: Embedder) -> None:
        self.names = tuple(f"{kind}_vectors_{embedder.fingerprint}" for kind in ("chunk", "turn"))
        self._embedder = embedder
        self._chunks, self._turns = (
            SharedTable(database, name, vectors_schema(embedder.dimensions)) for name in self.names
        )

    def keep_complete(self, key: ChannelKey, windows: Sequence[RecordedWindow]) -> list[RecordedWindow]:
        """Return the windows of a channel that lack vectors; deletes incomplete and stray vectors.

        `windows` are the channel's windows in order, without those with an unfinished change.
        """
        chunks, turns = self._positions(self._chunks, key), self._positions(self._turns, key)
        lacking, kept = list[RecordedWindow](), list[tuple[list[int], list[int]]]()
        for recorded in windows:
            ref, (of_chunks, of_turns) = recorded.window.ref, vector_positions(recorded)
            complete = np.array_equal(
                _within(chunks, ref.index << 32, (ref.index + 1) << 32), of_chunks
            ) and np.array_equal(_within(turns, ref.first_seq, ref.last_seq + 1), of_turns)
            if complete:
                kept.append((of_chunks, of_turns))
            else:
                lacking.append(recorded)
        self._delete_others(self._chunks, key, chunks, [of_chunks for of_chunks, _ in kept])
        self._delete_others(self._turns, key, turns, [of_turns for _, of_turns in kept])
        return lacking

    def make(
        self, windows: Sequence[RecordedWindow], done: int, total: int, progress: Callable[[int, int], None]
    ) -> int:
        """Embed windows of one channel, each with the same two calls as `Histories.record`.

        Vectors computed before a failure are kept.
        """
        chunks, turns = list[Vectors](), list[Vectors]()
        try:
            for recorded in windows:
                chunk_vectors = self._embed([chunk.text for chunk in recorded.chunks])
                turns.append(self._embedder.embed_passages([turn.rendered for turn in recorded.window.turns]))
                chunks.append(chunk_vectors)
                progress(done + len(chunks), total)
        finally:
            self._add(windows[: len(chunks)], chunks, turns)
        return done + len(chunks)

    def _add(self, made: Sequence[RecordedWindow], chunks: list[Vectors], turns: list[Vectors]) -> None:
        if not made:
            return
        key = made[0].window.ref.key
        positions = [vector_positions(recorded) for recorded in made]
        # Chunks first: a window counts as complete only with its turns' vectors.
        if any(of_chunks for of_chunks, _ in positions):
            self._chunks.add(vector_rows([(key, of_chunks) for of_chunks, _ in positions], chunks))
        self._turns.add(vector_rows([(key, of_turns) for _, of_turns in positions], turns[: len(made)]))

    def _embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of texts; a window with only deleted messages has no chunks."""
        if not texts:
            return np.zeros((0, self._embedder.dimensions), np.float32)
        return self._embedder.embed_passages(texts)

    def _positions(self, table: SharedTable, key: ChannelKey) -> NDArray[np.int64]:
        return np.sort(table.read(where(key), ["position"])["position"].to_numpy())

    def _delete_others(
        self, table: SharedTable, key: ChannelKey, found: NDArray[np.int64], kept: Sequence[Sequence[int]]
    ) -> None:
        """Delete a channel's rows except the kept ones, as ranges of positions."""
        others = np.setdiff1d(found, np.asarray([position for group in kept for position in group], np.int64))
        runs = np.split(others, np.flatnonzero(np.diff(np.searchsorted(found, others)) > 1) + 1)
        ranges = [f"(position >= {run[0]} AND position <= {run[-1]})" for run in runs if len(run)]
        for start in range(0, len(ranges), _GROUP):
            table.delete(f"{where(key)} AND ({' OR '.join(ranges[start : start + _GROUP])})")


def _recorded(meta: SharedTable, path: Path | str, wanted: Fingerprint) -> Fingerprint:
    """The store's fingerprint, which must differ from the wanted one only in the embedder."""
    rows = meta.rows("")
    found: dict[str, Any] = json.loads(rows[0]["fingerprint"]) if rows else asdict(wanted)
    for name, value in asdict(wanted).items():
        if name != "embedder" and found.get(name) != value:
            raise StoreError(
                f"store {path} was made with {name} {found.get(name)!r}, not {value!r}: reindex changes only "
                f"the embedding model, so keep the other settings, or ingest the source again into another "
                f"--store"
            )
    return replace(wanted, embedder=found["embedder"])


def _channels(windows: SharedTable) -> tuple[list[ChannelKey], int]:
    """The channels with committed windows, in order, and the number of all windows."""
    rows = windows.read("", ["namespace", "channel"])
    channels = rows.group_by(["namespace", "channel"]).aggregate([]).to_pylist()
    return sorted(ChannelKey(row["namespace"], row["channel"]) for row in channels), len(rows)


def _within(positions: NDArray[np.int64], first: int, end: int) -> NDArray[np.int64]:
    """The ascending positions from `first` up to, but not including, `end`."""
    left, right = np.searchsorted(positions, [first, end])
    return positions[left:right]
