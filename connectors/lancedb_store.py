"""The durable history: a LanceDB directory with turns, chunks, vectors, windows and summaries.

A window is appended as a whole, its `windows` row last as the commit marker. What lies beyond the
last marker of a channel was left by a crash and is dropped when the channel is loaded. A `meta`
row names everything that stored rows depend on; a store made differently is refused.
"""

from __future__ import annotations

import fcntl
import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import lancedb
import numpy as np
import pyarrow as pa

from operators.chunks import Chunk
from operators.dense import Vectors
from operators.history import HistoryError, RecordedWindow
from operators.llm import Usage
from operators.messages import Author, ChannelKey, Turn
from operators.paid import PaidAnswer
from operators.windows import Window, WindowRef

__all__ = [
    "Fingerprint",
    "LanceStore",
    "PaidTokens",
    "StoreError",
    "add_vectors",
    "occupy",
    "paid_tokens",
    "vector_positions",
    "vectors_schema",
]

_PLACE = [pa.field("namespace", pa.string(), False), pa.field("channel", pa.string(), False)]
_TIME = pa.timestamp("us", tz="UTC")
_SCHEMAS = {
    "turns": pa.schema(
        [
            *_PLACE,
            pa.field("seq", pa.int64(), False),
            pa.field("id", pa.string(), False),
            pa.field("ts", _TIME, False),
            pa.field("author_id", pa.string(), False),
            pa.field("author_name", pa.string(), False),
            pa.field("author_bot", pa.bool_(), False),
            pa.field("text", pa.string(), False),
            pa.field("tokens", pa.int32(), False),
            pa.field("digest", pa.int64(), False),
            pa.field("thread", pa.string()),
            pa.field("reply_to", pa.string()),
            pa.field("permalink", pa.string()),
            pa.field("late", pa.bool_(), False),
        ]
    ),
    "chunks": pa.schema(
        [
            *_PLACE,
            pa.field("window", pa.int64(), False),
            pa.field("start", pa.int32(), False),
            pa.field("end", pa.int32(), False),
            pa.field("first_seq", pa.int64(), False),
            pa.field("last_seq", pa.int64(), False),
            pa.field("text", pa.string(), False),
        ]
    ),
    "windows": pa.schema(
        [
            *_PLACE,
            pa.field("window", pa.int64(), False),
            pa.field("first_seq", pa.int64(), False),
            pa.field("last_seq", pa.int64(), False),
            pa.field("revision", pa.int64(), False),
            pa.field("tokens", pa.int64(), False),
            pa.field("start", _TIME, False),
            pa.field("end", _TIME, False),
        ]
    ),
    "summaries": pa.schema(
        [*_PLACE, pa.field("summary_id", pa.string(), False), pa.field("body", pa.binary(), False)]
    ),
    "answers": pa.schema(
        [
            *_PLACE,
            pa.field("first_seq", pa.int64(), False),
            pa.field("last_seq", pa.int64(), False),
            pa.field("stage", pa.string(), False),
            pa.field("digest", pa.string(), False),
            pa.field("model", pa.string(), False),
            pa.field("day", pa.date32(), False),
            pa.field("prompt_tokens", pa.int64(), False),
            pa.field("completion_tokens", pa.int64(), False),
            pa.field("raw", pa.string(), False),
        ]
    ),
    "meta": pa.schema([pa.field("fingerprint", pa.string(), False)]),
}


class StoreError(HistoryError):
    """The store cannot be used; the text says which, why and what would help."""


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
        schemas = dict(_SCHEMAS)
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
            raise StoreError(f"store {path} cannot be read: {_first_line(err)}") from err
        self._chunk_vectors = self._tables.get(f"chunk_vectors_{fingerprint.embedder}")
        self._turn_vectors = self._tables.get(f"turn_vectors_{fingerprint.embedder}")

    def load(self, key: ChannelKey) -> Iterator[RecordedWindow]:
        """The committed windows of a channel, in order."""
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
                Window(ref, tuple(_turn(turn) for turn in turns[first:end])),
                tuple(_chunk(chunk) for chunk in chunks[first_chunk:end_chunk]),
                None if chunk_vectors is None else chunk_vectors[first_chunk:end_chunk],
                None if turn_vectors is None else turn_vectors[first:end],
            )

    def append(self, recorded: RecordedWindow) -> None:
        """Commit one window: turns, chunks and vectors, then the `windows` row."""
        window, ref = recorded.window, recorded.window.ref
        place = _place(ref.key)
        self._add("turns", [{**place, **_turn_row(turn)} for turn in window.turns])
        self._add("chunks", [{**place, "window": ref.index, **asdict(chunk)} for chunk in recorded.chunks])
        if recorded.chunk_vectors is not None and recorded.turn_vectors is not None:
            chunk_positions, turn_positions = vector_positions(recorded)
            add_vectors(self._chunk_vectors, ref.key, chunk_positions, recorded.chunk_vectors)
            add_vectors(self._turn_vectors, ref.key, turn_positions, recorded.turn_vectors)
        row = {"window": ref.index, "first_seq": ref.first_seq, "last_seq": ref.last_seq}
        row |= {"revision": ref.revision, "tokens": window.tokens}
        self._add("windows", [{**place, **row, "start": window.start, "end": window.end}])

    def summary_ids(self, key: ChannelKey) -> set[str]:
        """Ids of the channel's finished summaries."""
        query = self._tables["summaries"].search().where(_where(key)).select(["summary_id"]).limit(None)
        return set(query.to_arrow()["summary_id"].to_pylist())

    def summary(self, summary_id: str) -> bytes:
        """The finished summary, byte for byte as it was emitted."""
        query = self._tables["summaries"].search().where(f"summary_id = {_literal(summary_id)}")
        rows = query.select(["body"]).limit(1).to_list()
        if not rows:
            raise StoreError(f"store {self.path}: there is no summary {summary_id}")
        body: bytes = rows[0]["body"]
        return body

    def put_summary(self, key: ChannelKey, summary_id: str, body: bytes) -> None:
        """Keep a finished summary."""
        self._add("summaries", [{**_place(key), "summary_id": summary_id, "body": body}])

    def answer(self, key: ChannelKey, digest: str) -> str | None:
        """The raw usable answer to a question, by its digest."""
        query = self._tables["answers"].search()
        query = query.where(f"{_where(key)} AND digest = {_literal(digest)} AND raw != ''")
        rows = query.select(["raw"]).limit(1).to_list()
        return rows[0]["raw"] if rows else None

    def put_answer(self, paid: PaidAnswer) -> None:
        """Keep an answer and what it cost."""
        row = {
            "first_seq": paid.first_seq,
            "last_seq": paid.last_seq,
            "stage": paid.stage,
            "digest": paid.digest,
            "model": paid.model,
            "day": paid.day,
            "prompt_tokens": paid.usage.prompt,
            "completion_tokens": paid.usage.completion,
            "raw": paid.raw,
        }
        self._add("answers", [{**_place(paid.key), **row}])

    def spent(self, day: date) -> Mapping[ChannelKey, int]:
        """Tokens paid for on a day (UTC), by channel."""
        columns = ["namespace", "channel", "prompt_tokens", "completion_tokens"]
        query = self._tables["answers"].search().where(f"day = date '{day.isoformat()}'")
        spent: Counter[ChannelKey] = Counter()
        for row in query.select(columns).limit(None).to_list():
            key = ChannelKey(row["namespace"], row["channel"])
            spent[key] += row["prompt_tokens"] + row["completion_tokens"]
        return spent

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
        rows: list[dict[str, Any]] = self._tables[table].search().where(_where(key)).limit(None).to_list()
        return rows

    def _vectors(self, table: Any, key: ChannelKey) -> Vectors | None:
        if table is None:
            return None
        rows = table.search().where(_where(key)).select(["position", "vector"]).limit(None).to_arrow()
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
            if table is not None and table.count_rows(f"{_where(key)} AND {condition}"):
                table.delete(f"{_where(key)} AND {condition}")

    def _add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._tables[table].add(pa.Table.from_pylist(list(rows), schema=_SCHEMAS[table]))


def vectors_schema(dimensions: int) -> pa.Schema:
    """Columns of a table of chunk or turn vectors; there is one of each for every embedder."""
    vector = pa.field("vector", pa.list_(pa.float32(), dimensions), False)
    return pa.schema([*_PLACE, pa.field("position", pa.int64(), False), vector])


def vector_positions(recorded: RecordedWindow) -> tuple[list[int], list[int]]:
    """Positions of a window's chunk and turn vectors; they sort in the order of chunks and turns."""
    chunks = [(recorded.window.ref.index << 32) + chunk.start for chunk in recorded.chunks]
    return chunks, [turn.seq for turn in recorded.window.turns]


def add_vectors(table: Any, key: ChannelKey, positions: Sequence[int], vectors: Vectors) -> None:
    """Append vectors to a table of `vectors_schema`, in one commit."""
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    columns = {
        "namespace": [key.namespace] * len(positions),
        "channel": [key.channel] * len(positions),
        "position": positions,
        "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
    }
    table.add(pa.table(columns, schema=table.schema))


@dataclass(frozen=True, slots=True)
class PaidTokens:
    """Calls and tokens of one model in one stage for one channel on one day (UTC)."""

    day: date
    key: ChannelKey
    model: str
    stage: str
    calls: int
    usage: Usage


def paid_tokens(path: Path) -> list[PaidTokens]:
    """What the answers of a store cost, by day, channel, model and stage.

    Raises:
        StoreError: the directory is not a store.
    """
    names = ["day", "namespace", "channel", "model", "stage"]
    tokens = ["prompt_tokens", "completion_tokens"]
    try:
        table = lancedb.connect(str(path)).open_table("answers") if path.is_dir() else None
        if table is None:
            raise StoreError(f"store {path} does not exist")
        rows = table.search().select([*names, *tokens]).limit(None).to_arrow()
    except (OSError, ValueError, RuntimeError) as err:
        if isinstance(err, StoreError):
            raise
        raise StoreError(f"store {path} cannot be read: {_first_line(err)}") from err
    sums = [(name, "sum") for name in tokens]
    grouped = rows.group_by(names).aggregate([([], "count_all"), *sums]).to_pylist()
    return sorted(
        (
            PaidTokens(
                row["day"],
                ChannelKey(row["namespace"], row["channel"]),
                row["model"],
                row["stage"],
                row["count_all"],
                Usage(row["prompt_tokens_sum"], row["completion_tokens_sum"]),
            )
            for row in grouped
        ),
        key=lambda row: (row.day, row.key, row.stage, row.model),
    )


def occupy(path: Path) -> IO[str]:
    """Hold the directory, made if need be, until the file is closed or the process ends.

    Raises:
        StoreError: another engine holds it, or it cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (path / "engine.lock").open("w")
    except OSError as err:
        raise StoreError(f"store {path} cannot be opened: {err.strerror or err}") from err
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        lock.close()
        raise StoreError(f"store {path} is in use by another backscroll process: wait for it") from err
    return lock


def _place(key: ChannelKey) -> dict[str, str]:
    return {"namespace": key.namespace, "channel": key.channel}


def _where(key: ChannelKey) -> str:
    return f"namespace = {_literal(key.namespace)} AND channel = {_literal(key.channel)}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _first_line(err: Exception) -> str:
    return str(err).splitlines()[0] if str(err) else type(err).__name__


def _turn_row(turn: Turn) -> dict[str, Any]:
    return {
        "seq": turn.seq,
        "id": turn.id,
        "ts": turn.ts,
        "author_id": turn.author.id,
        "author_name": turn.author.name,
        "author_bot": turn.author.bot,
        "text": turn.text,
        "tokens": turn.tokens,
        "digest": turn.digest,
        "thread": turn.thread,
        "reply_to": turn.reply_to,
        "permalink": turn.permalink,
        "late": turn.late,
    }


def _turn(row: Mapping[str, Any]) -> Turn:
    author = Author(row["author_id"], row["author_name"], row["author_bot"])
    names = ("seq", "id", "ts", "text", "tokens", "digest", "thread", "reply_to", "permalink", "late")
    return Turn(author=author, **{name: row[name] for name in names})


def _chunk(row: Mapping[str, Any]) -> Chunk:
    return Chunk(row["start"], row["end"], row["first_seq"], row["last_seq"], row["text"])
