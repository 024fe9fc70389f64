"""The durable history: a LanceDB directory with turns, chunks, vectors, windows and summaries.

A window is appended as a whole, its `windows` row last as the commit marker. What lies beyond the
last marker of a channel was left by a crash and is dropped when the channel is loaded. A `meta`
row names everything that stored rows depend on; a store made differently is refused.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa

from connectors.lancedb_answers import LanceAnswers
from connectors.lancedb_tables import (
    SCHEMAS,
    StoreError,
    add_vectors,
    first_line,
    literal,
    occupy,
    place,
    to_chunk,
    to_turn,
    turn_row,
    vector_positions,
    vectors_schema,
    where,
)
from operators.dense import Vectors
from operators.history import RecordedWindow
from operators.messages import ChannelKey
from operators.windows import Window, WindowRef

__all__ = ["Fingerprint", "LanceStore"]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What the rows of a store depend on. `embedder` is None for a history without vectors."""

    tokenizer: str
    window_tokens: int
    chunk_tokens: int
    chunk_overlap: int
    analyser: str
    embedder: str | None
    schema: int = 1


class LanceStore:
    """A history store in a directory, for one running engine at a time.

    Args:
        path: the directory; made, readable by its owner alone, if it does not exist.
        fingerprint: what the engine would write.
        dimensions: length of a vector; None for a history without vectors.
        shared: another process of the same engine holds the directory already.

    Raises:
        StoreError: the path is not a store, another engine is using it, or it was made with
            another fingerprint.
    """

    def __init__(
        self, path: Path, fingerprint: Fingerprint, dimensions: int | None, *, shared: bool = False
    ) -> None:
        self.path = path
        self._dimensions = dimensions
        self._lock = None if shared else occupy(path)
        schemas = dict(SCHEMAS)
        if dimensions is not None:
            for kind in ("chunk", "turn"):
                schemas[f"{kind}_vectors_{fingerprint.embedder}"] = vectors_schema(dimensions)
        try:
            self._database = lancedb.connect(str(path))
            self._tables = {
                name: self._database.create_table(name, schema=schema, exist_ok=True)
                for name, schema in schemas.items()
            }
            self._check(fingerprint)
        except (OSError, ValueError, RuntimeError) as err:
            self.close()
            if isinstance(err, StoreError):
                raise
            raise StoreError(f"store {path} cannot be read: {first_line(err)}") from err
        self.answers = LanceAnswers(self._tables["answers"])
        self._chunk_vectors = self._tables.get(f"chunk_vectors_{fingerprint.embedder}")
        self._turn_vectors = self._tables.get(f"turn_vectors_{fingerprint.embedder}")

    def load(self, key: ChannelKey) -> list[RecordedWindow]:
        """The committed windows of a channel, in order."""
        with self._usable():
            return list(self._load(key))

    def _load(self, key: ChannelKey) -> Iterator[RecordedWindow]:
        windows = sorted(self._rows("windows", key), key=lambda row: row["window"])
        until = windows[-1]["last_seq"] + 1 if windows else 0
        self._drop_uncommitted(key, windows=len(windows), turns=until)
        turns = sorted(self._rows("turns", key), key=lambda row: row["seq"])
        chunks = sorted(self._rows("chunks", key), key=lambda row: (row["window"], row["start"]))
        chunk_vectors = self._vectors(self._chunk_vectors, key)
        turn_vectors = self._vectors(self._turn_vectors, key)
        cuts = np.searchsorted([row["window"] for row in chunks], np.arange(len(windows) + 1)).tolist()
        complete = len(turns) == until and all(
            vectors is None or len(vectors) == len(rows)
            for vectors, rows in ((chunk_vectors, chunks), (turn_vectors, turns))
        )
        if not complete:
            raise StoreError(f"store {self.path}: rows of {key} are missing: restore it from a backup")
        for row, (first_chunk, end_chunk) in zip(windows, pairwise(cuts), strict=True):
            first, end = row["first_seq"], row["last_seq"] + 1
            ref = WindowRef(key, row["window"], first, end - 1, row["revision"])
            yield RecordedWindow(
                Window(ref, tuple(to_turn(turn) for turn in turns[first:end])),
                tuple(to_chunk(chunk) for chunk in chunks[first_chunk:end_chunk]),
                None if chunk_vectors is None else chunk_vectors[first_chunk:end_chunk],
                None if turn_vectors is None else turn_vectors[first:end],
            )

    def append(self, recorded: RecordedWindow) -> None:
        """Commit one window: turns, chunks and vectors, then the `windows` row."""
        with self._usable():
            self._append(recorded)

    def _append(self, recorded: RecordedWindow) -> None:
        window, ref = recorded.window, recorded.window.ref
        columns = place(ref.key)
        self._add("turns", [{**columns, **turn_row(turn)} for turn in window.turns])
        self._add("chunks", [{**columns, "window": ref.index, **asdict(chunk)} for chunk in recorded.chunks])
        if recorded.chunk_vectors is not None and recorded.turn_vectors is not None:
            chunk_positions, turn_positions = vector_positions(recorded)
            add_vectors(self._chunk_vectors, ref.key, chunk_positions, recorded.chunk_vectors)
            add_vectors(self._turn_vectors, ref.key, turn_positions, recorded.turn_vectors)
        row = {"window": ref.index, "first_seq": ref.first_seq, "last_seq": ref.last_seq}
        row |= {"revision": ref.revision, "tokens": window.tokens}
        self._add("windows", [{**columns, **row, "start": window.start, "end": window.end}])

    def summary_ids(self, key: ChannelKey) -> set[str]:
        """Ids of the channel's finished summaries."""
        query = self._tables["summaries"].search().where(where(key)).select(["summary_id"]).limit(None)
        return set(query.to_arrow()["summary_id"].to_pylist())

    def summary(self, summary_id: str) -> bytes:
        """The finished summary, byte for byte as it was emitted."""
        query = self._tables["summaries"].search().where(f"summary_id = {literal(summary_id)}")
        rows = query.select(["body"]).limit(1).to_list()
        if not rows:
            raise StoreError(f"store {self.path}: there is no summary {summary_id}")
        body: bytes = rows[0]["body"]
        return body

    def put_summary(self, key: ChannelKey, summary_id: str, body: bytes) -> None:
        """Keep a finished summary."""
        with self._usable():
            self._add("summaries", [{**place(key), "summary_id": summary_id, "body": body}])

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Failures of LanceDB and the disk in our words."""
        try:
            yield
        except (OSError, ValueError, RuntimeError) as err:
            if isinstance(err, StoreError):
                raise
            raise StoreError(f"store {self.path} cannot be used: {first_line(err)}") from err

    def close(self) -> None:
        """Let another engine use the store."""
        if self._lock is not None:
            self._lock.close()

    def _check(self, fingerprint: Fingerprint) -> None:
        recorded = self._tables["meta"].search().limit(None).to_list()
        if not recorded:
            self._add("meta", [{"fingerprint": json.dumps(asdict(fingerprint))}])
            return
        found: Mapping[str, Any] = json.loads(recorded[0]["fingerprint"])
        # The embedder last: a reindex helps where nothing else differs.
        for name, wanted in sorted(asdict(fingerprint).items(), key=lambda item: item[0] == "embedder"):
            if found.get(name) != wanted:
                help_ = "use that setting, or ingest the source again into another --store"
                if name == "embedder" and wanted is not None:
                    command = f"backscroll reindex --store {shlex.quote(str(self.path))}"
                    help_ = f"use that embedding model, or run: {command}"
                raise StoreError(
                    f"store {self.path} was made with {name} {found.get(name)!r}, not {wanted!r}: {help_}"
                )

    def _rows(self, table: str, key: ChannelKey) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._tables[table].search().where(where(key)).limit(None).to_list()
        return rows

    def _vectors(self, table: Any, key: ChannelKey) -> Vectors | None:
        if table is None:
            return None
        rows = table.search().where(where(key)).select(["position", "vector"]).limit(None).to_arrow()
        rows = rows.sort_by("position").combine_chunks()
        flat = rows["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        return np.asarray(flat, dtype=np.float32).reshape(-1, self._dimensions or 0)

    def _drop_uncommitted(self, key: ChannelKey, *, windows: int, turns: int) -> None:
        beyond = {
            self._tables["turns"]: f"seq >= {turns}",
            self._tables["chunks"]: f"window >= {windows}",
            self._chunk_vectors: f"position >= {windows << 32}",
            self._turn_vectors: f"position >= {turns}",
        }
        for table, condition in beyond.items():
            if table is not None and table.count_rows(f"{where(key)} AND {condition}"):
                table.delete(f"{where(key)} AND {condition}")

    def _add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._tables[table].add(pa.Table.from_pylist(list(rows), schema=SCHEMAS[table]))
