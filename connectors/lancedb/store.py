"""The durable history: a LanceDB store with turns, chunks, vectors, windows and summaries.

Windows are appended completely, with their `windows` rows last as the commit marker. Rows beyond the
last marker of a channel were left by a crash, and are dropped when the channel is loaded. A `meta` row
records everything that stored rows depend on; a store with other values is rejected.

Several processes may write a store, each its own channels.
"""

from __future__ import annotations

import json
import random
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from backscroll.connectors.lancedb import changes as lancedb_changes
from backscroll.connectors.lancedb import loading as lancedb_loading
from backscroll.connectors.lancedb.answers import LanceAnswers
from backscroll.connectors.lancedb.schema import (
    StoreError,
    depending_on,
    first_line,
    literal,
    occupy,
    place,
    turn_row,
    vector_positions,
    vector_rows,
    where,
)
from backscroll.connectors.lancedb.search import LanceSearch
from backscroll.connectors.lancedb.tables import SharedTable, Tables, is_remote
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.store import StoredChannel, StoredSummary
from backscroll.operators.messages import ChannelKey, Turn

__all__ = ["Fingerprint", "LanceStore"]

_READS = 20  # of a channel that another process is changing
_PAUSE = 0.05  # seconds
_TABLES = 4  # that a window is written to before it counts


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What the rows of a store depend on. `embedder` is None for a history without vectors."""

    tokenizer: str
    window_tokens: int
    chunk_tokens: int
    chunk_overlap: int
    analyser: str
    embedder: str | None
    schema: int = 2


class LanceStore:
    """A history store in a directory, for one running engine at a time, or in an object store.

    Args:
        path: the directory, created (readable only by its owner) if it does not exist; or an address in
            an object store, `s3://bucket/prefix`. An object store has no lock: do not run two engines.
        fingerprint: the engine's fingerprint.
        dimensions: length of a vector; None for a history without vectors.
        shared: another process of the same engine already holds the directory.
        reader: only read channels, while others write them; the store must exist.
        exact_chunks: channels with more chunks are searched by vector in the store; None to never do so.

    Raises:
        StoreError: the path is not a store, another engine is using it, or it was created with another
            fingerprint.
    """

    def __init__(
        self,
        path: Path | str,
        fingerprint: Fingerprint,
        dimensions: int | None,
        *,
        shared: bool = False,
        reader: bool = False,
        exact_chunks: int | None = None,
    ) -> None:
        self.path = path
        self._reader = reader
        self._clean: set[ChannelKey] = set()  # no rows beyond their last window
        if reader and not is_remote(path) and not Path(path).is_dir():
            raise StoreError(f"store {path} cannot be read: there is no such directory")
        self._writers = ThreadPoolExecutor(_TABLES, thread_name_prefix="backscroll-store")
        self._lock = None if shared or reader or is_remote(path) else occupy(Path(path))
        try:
            self.tables = Tables(path, fingerprint.embedder, dimensions, make=not reader)
            self._check(fingerprint)
        except StoreError:
            self.close()
            raise
        except (OSError, ValueError, RuntimeError) as err:
            self.close()
            raise StoreError(f"store {path} cannot be read: {first_line(err)}") from err
        self.answers = LanceAnswers(self.tables["answers"])
        vectors = self.tables.chunk_vectors
        self.search = None if vectors is None or exact_chunks is None else LanceSearch(vectors, exact_chunks)

    def load(self, key: ChannelKey) -> StoredChannel:
        """Everything committed for a channel; rows beyond its last window are dropped.

        Raises:
            StoreError: committed rows are missing.
        """
        with self.usable():
            for number in range(_READS):
                try:
                    clean = not self._reader and key not in self._clean
                    most = None if self.search is None else self.search.beyond
                    stored = lancedb_loading.load(self.tables, key, clean=clean, exact_chunks=most)
                except lancedb_loading.IncompleteError as err:
                    if not self._reader or number == _READS - 1:
                        raise StoreError(f"store {self.path}: {err}: restore it from a backup") from err
                else:
                    self._clean.add(key)
                    return stored
                time.sleep(random.uniform(0, _PAUSE))
        raise AssertionError

    def append(self, recorded: Sequence[RecordedWindow]) -> None:
        """Commit windows, in one commit per table: turns, chunks and vectors, then the `windows` rows."""
        keys = {one.window.ref.key for one in recorded}
        cleaned = keys & self._clean
        self._clean -= keys  # until it succeeds, partial rows may have to be removed
        with self.usable():
            self._append(recorded)
        self._clean |= cleaned

    def _append(self, recorded: Sequence[RecordedWindow]) -> None:
        columns = [place(one.window.ref.key) for one in recorded]
        turns = [
            {**columns_, **turn_row(turn)}
            for columns_, one in zip(columns, recorded, strict=True)
            for turn in one.window.turns
        ]
        chunks = list(chain.from_iterable(map(lancedb_changes.chunk_rows, recorded)))
        # In parallel, because a commit mostly waits for the disk or the object store.
        adding = [
            self._writers.submit(table.add, rows)
            for table, rows in (
                (self.tables["turns"], turns),
                (self.tables["chunks"], chunks),
                *self._vector_rows(recorded),
            )
        ]
        wait(adding)
        for done in adding:
            done.result()
        self.tables["windows"].add(
            [
                {
                    **columns_,
                    "window": one.window.ref.index,
                    "first_seq": one.window.ref.first_seq,
                    "last_seq": one.window.ref.last_seq,
                    "revision": one.window.ref.revision,
                    "tokens": one.window.tokens,
                    "start": one.window.start,
                    "end": one.window.end,
                }
                for columns_, one in zip(columns, recorded, strict=True)
            ]
        )

    def _vector_rows(self, recorded: Sequence[RecordedWindow]) -> Iterator[tuple[SharedTable, pa.Table]]:
        positions = [vector_positions(one) for one in recorded]
        keys = [one.window.ref.key for one in recorded]
        for table, place_, vectors in (
            (self.tables.chunk_vectors, 0, [one.chunk_vectors for one in recorded]),
            (self.tables.turn_vectors, 1, [one.turn_vectors for one in recorded]),
        ):
            there = [of_window for of_window in vectors if of_window is not None]
            if table is not None and there:
                named = [(key, of_both[place_]) for key, of_both in zip(keys, positions, strict=True)]
                yield table, vector_rows(named, there)

    def begin_change(self, key: ChannelKey, turns: Sequence[Turn], windows: Sequence[int]) -> None:
        """Replace recorded turns, and mark the windows (by index) that hold them as unfinished.

        Paid answers and summary bodies that used the turns are erased, and so are the turns' vectors of
        every embedder. Their data stays in files until the next maintenance.
        """
        with self.usable():
            lancedb_changes.begin_change(self.tables, self.answers, key, turns, windows)

    def finish_change(self, recorded: RecordedWindow) -> None:
        """Replace the chunks, vectors and revision of a window; this finishes its change."""
        with self.usable():
            lancedb_changes.finish_change(self.tables, recorded)

    def depending_on(self, key: ChannelKey, seqs: Sequence[int]) -> list[StoredSummary]:
        """The summaries whose window or memory holds one of the turns, in window order."""
        if not seqs:
            return []
        with self.usable():
            rows = self.tables["summaries"].rows(f"{where(key)} AND {depending_on(seqs)}")
        found = [
            StoredSummary(
                key,
                row["summary_id"],
                row["first_seq"],
                row["last_seq"],
                tuple(row["recalled"]),
                row["revision"],
                row["body"],
                row["reissued"],
            )
            for row in rows
        ]
        return sorted(found, key=lambda summary: (summary.first_seq, summary.summary_id))

    def put_erased(self, key: ChannelKey, ids: Sequence[str]) -> None:
        """Remember messages that were deleted before they arrived."""
        rows = [{**place(key), "id": id_} for id_ in dict.fromkeys(ids)]
        if rows:
            with self.usable():
                self.tables["erased"].put(rows)

    def summary(self, summary_id: str) -> bytes:
        """The finished summary, byte for byte as it was emitted.

        Raises:
            StoreError: it does not exist, or was erased together with a message that it used.
        """
        with self.usable():
            rows = self.tables["summaries"].rows(f"summary_id = {literal(summary_id)}", ["body"])
        if not rows or not rows[0]["body"]:
            why = "it was erased with a message" if rows else "there is no such summary"
            raise StoreError(f"store {self.path}: summary {summary_id} cannot be read: {why}")
        body: bytes = rows[0]["body"]
        return body

    def put_summaries(self, summaries: Sequence[StoredSummary]) -> None:
        """Store finished summaries; a reissued one replaces the older one with its id, and the last wins."""
        last = {summary.summary_id: summary for summary in summaries}
        if not last:
            return
        rows = [{**place(summary.key), **_summary_row(summary)} for summary in last.values()]
        table = self.tables["summaries"]
        with self.usable():
            # Appending is far cheaper than replacing, and nearly all summaries are new.
            table.add([row for row in rows if not row["reissued"]])
            if again := [row for row in rows if row["reissued"]]:
                table.put(again)

    @contextmanager
    def usable(self) -> Iterator[None]:
        """Turn errors of LanceDB and the disk into a one-line `StoreError`."""
        try:
            yield
        except (OSError, ValueError, RuntimeError) as err:
            raise StoreError(f"store {self.path} cannot be used: {first_line(err)}") from err

    def close(self) -> None:
        """Let another engine use the store."""
        self._writers.shutdown()
        if self._lock is not None:
            self._lock.close()

    def _check(self, fingerprint: Fingerprint) -> None:
        rows = self.tables["meta"].rows("")
        if not rows and not self._reader:
            self.tables["meta"].add([{"fingerprint": json.dumps(asdict(fingerprint))}])
        for row in rows:
            self._compare(json.loads(row["fingerprint"]), fingerprint)

    def _compare(self, found: Mapping[str, Any], fingerprint: Fingerprint) -> None:
        # Check the embedder last: if nothing else differs, a reindex helps.
        for name, wanted in sorted(asdict(fingerprint).items(), key=lambda item: item[0] == "embedder"):
            if found.get(name) != wanted:
                help_ = "use that setting, or ingest the source again into another --store"
                if name == "embedder" and wanted is not None:
                    command = f"backscroll reindex --store {shlex.quote(str(self.path))}"
                    help_ = f"use that embedding model, or run: {command}"
                raise StoreError(
                    f"store {self.path} was made with {name} {found.get(name)!r}, not {wanted!r}: {help_}"
                )


def _summary_row(summary: StoredSummary) -> dict[str, Any]:
    row = asdict(summary)
    del row["key"]
    return row
