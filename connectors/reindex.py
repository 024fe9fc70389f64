"""A store under another embedding model: its vectors built beside the old ones, then one switch.

Until the switch the store is what it was, and an interrupted run goes on where it stopped. Chunks
and turns stay as they are; only their vectors are made anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from connectors.lancedb_store import Fingerprint, LanceStore
from connectors.lancedb_tables import (
    SCHEMAS,
    StoreError,
    add_vectors,
    first_line,
    occupy,
    vector_positions,
    vectors_schema,
    where,
)
from operators.dense import Embedder, Vectors
from operators.history import RecordedWindow
from operators.messages import ChannelKey

__all__ = ["reindex"]

_GROUP = 32  # windows in one append: every append is a version of its table


def reindex(
    path: Path,
    embedder: Embedder,
    fingerprint: Fingerprint,
    *,
    progress: Callable[[int, int], None],
    drop: bool = False,
) -> int:
    """Embed the committed windows of a store anew, and switch the store to that embedder.

    Windows whose new vectors are there already are kept: those of an interrupted run, or of a
    model that the store was switched away from before. Where the store has this embedder
    already, vectors that are missing are made.

    Args:
        path: the store's directory; no engine may be using it.
        embedder: the new embedder.
        fingerprint: what an engine with the new embedder would write.
        progress: called with the windows done so far and all windows, in this thread.
        drop: after the switch, delete the vectors of every other embedder.

    Returns:
        The number of windows in the store.

    Raises:
        StoreError: there is no store, it is in use or damaged, or it differs in more than the embedder.
        EmbedderError: the embedder failed; the old vectors are still in use.
    """
    if not (path / "meta.lance").is_dir():
        raise StoreError(f"there is no store at {path}: name the directory that was given as --store")
    wanted = replace(fingerprint, embedder=embedder.fingerprint)
    with occupy(path):
        try:
            database = lancedb.connect(str(path))
            recorded = _recorded(database, path, wanted)
            store = LanceStore(path, recorded, None, shared=True)
            keys, total = _channels(database)
            vectors = _NewVectors(database, embedder)
        except (OSError, ValueError, RuntimeError) as err:
            if isinstance(err, StoreError):
                raise
            raise StoreError(f"store {path} cannot be read: {first_line(err)}") from err
        done = 0
        for key in keys:
            windows = list(store.load(key))
            kept = vectors.keep_complete(key, windows)
            done += kept
            progress(done, total)
            for start in range(kept, len(windows), _GROUP):
                done = vectors.make(windows[start : start + _GROUP], done, total, progress)
        if recorded != wanted:
            row = pa.Table.from_pylist([{"fingerprint": json.dumps(asdict(wanted))}], SCHEMAS["meta"])
            database.open_table("meta").add(row, mode="overwrite")
        if drop:
            for folder in sorted([*path.glob("chunk_vectors_*.lance"), *path.glob("turn_vectors_*.lance")]):
                if folder.stem not in vectors.names:
                    database.drop_table(folder.stem)
    return done


class _NewVectors:
    """The two tables of the new embedder."""

    def __init__(self, database: Any, embedder: Embedder) -> None:
        self.names = tuple(f"{kind}_vectors_{embedder.fingerprint}" for kind in ("chunk", "turn"))
        self._embedder = embedder
        self._chunks, self._turns = (
            database.create_table(name, schema=vectors_schema(embedder.dimensions), exist_ok=True)
            for name in self.names
        )

    def keep_complete(self, key: ChannelKey, windows: Sequence[RecordedWindow]) -> int:
        """How many windows from the channel's first have all their vectors; the others' are deleted."""
        expected = [vector_positions(recorded) for recorded in windows]
        kept = min(
            _complete(self._positions(self._chunks, key), [chunks for chunks, _ in expected]),
            _complete(self._positions(self._turns, key), [turns for _, turns in expected]),
        )
        first_seq = windows[kept - 1].window.ref.last_seq + 1 if kept else 0
        for table, first in ((self._chunks, kept << 32), (self._turns, first_seq)):
            beyond = f"{where(key)} AND position >= {first}"
            if table.count_rows(beyond):
                table.delete(beyond)
        return kept

    def make(
        self, windows: Sequence[RecordedWindow], done: int, total: int, progress: Callable[[int, int], None]
    ) -> int:
        """Embed windows of one channel, each by the same two calls as `Histories.record`.

        What was made before a failure is kept.
        """
        chunks, turns = list[Vectors](), list[Vectors]()
        try:
            for recorded in windows:
                chunk_vectors = self._embedder.embed_passages([chunk.text for chunk in recorded.chunks])
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
        # Chunks first: a window is complete when it has its turns' vectors, too.
        flat = [position for of_chunks, _ in positions for position in of_chunks]
        add_vectors(self._chunks, key, flat, np.concatenate(chunks))
        flat = [position for _, of_turns in positions for position in of_turns]
        add_vectors(self._turns, key, flat, np.concatenate(turns[: len(made)]))

    def _positions(self, table: Any, key: ChannelKey) -> NDArray[np.int64]:
        rows = table.search().where(where(key)).select(["position"]).limit(None).to_arrow()
        return np.sort(rows["position"].to_numpy())


def _recorded(database: Any, path: Path, wanted: Fingerprint) -> Fingerprint:
    """What the store was made with, if it differs from what is wanted in nothing but the embedder."""
    rows = database.open_table("meta").search().limit(None).to_list()
    found: dict[str, Any] = json.loads(rows[0]["fingerprint"]) if rows else asdict(wanted)
    for name, value in asdict(wanted).items():
        if name != "embedder" and found.get(name) != value:
            raise StoreError(
                f"store {path} was made with {name} {found.get(name)!r}, not {value!r}: reindex changes the "
                f"embedding model alone, so give the other settings as they were, or ingest the source again "
                f"into another --store"
            )
    return replace(wanted, embedder=found["embedder"])


def _channels(database: Any) -> tuple[list[ChannelKey], int]:
    """The channels with committed windows, in order, and the number of all windows."""
    rows = database.open_table("windows").search().select(["namespace", "channel"]).limit(None).to_arrow()
    channels = rows.group_by(["namespace", "channel"]).aggregate([]).to_pylist()
    return sorted(ChannelKey(row["namespace"], row["channel"]) for row in channels), len(rows)


def _complete(found: NDArray[np.int64], expected: Sequence[Sequence[int]]) -> int:
    """How many of the expected groups of positions, from the first, are all found."""
    wanted = np.asarray([position for group in expected for position in group], dtype=np.int64)
    common = min(len(found), len(wanted))
    differing = np.flatnonzero(found[:common] != wanted[:common])
    same = int(differing[0]) if len(differing) else common
    return int(np.searchsorted(np.cumsum([len(group) for group in expected]), same, side="right"))
