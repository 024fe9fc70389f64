"""The tables of a LanceDB store, their rows, and the conditions that select a channel's rows."""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.store import HistoryError
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.messages import ChannelKey, Turn

__all__ = [
    "KEYS",
    "SCHEMAS",
    "TIME",
    "StoreError",
    "depending_on",
    "first_line",
    "literal",
    "occupy",
    "place",
    "turn_row",
    "vector_positions",
    "vector_rows",
    "vectors_schema",
    "where",
]

PLACE = [pa.field("namespace", pa.string(), False), pa.field("channel", pa.string(), False)]
TIME = pa.timestamp("us", tz="UTC")
SCHEMAS = {
    "turns": pa.schema(
        [
            *PLACE,
            pa.field("seq", pa.int64(), False),
            pa.field("id", pa.string(), False),
            pa.field("ts", TIME, False),
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
            pa.field("edited", TIME),
            pa.field("deleted", pa.bool_(), False),
        ]
    ),
    "chunks": pa.schema(
        [
            *PLACE,
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
            *PLACE,
            pa.field("window", pa.int64(), False),
            pa.field("first_seq", pa.int64(), False),
            pa.field("last_seq", pa.int64(), False),
            pa.field("revision", pa.int64(), False),
            pa.field("tokens", pa.int64(), False),
            pa.field("start", TIME, False),
            pa.field("end", TIME, False),
        ]
    ),
    "summaries": pa.schema(
        [
            *PLACE,
            pa.field("summary_id", pa.string(), False),
            pa.field("first_seq", pa.int64(), False),
            pa.field("last_seq", pa.int64(), False),
            pa.field("recalled", pa.list_(pa.int64()), False),
            pa.field("revision", pa.int64(), False),
            pa.field("body", pa.binary(), False),
            pa.field("reissued", pa.bool_(), False),
        ]
    ),
    "changes": pa.schema([*PLACE, pa.field("window", pa.int64(), False)]),
    "erased": pa.schema([*PLACE, pa.field("id", pa.string(), False)]),
    "answers": pa.schema(
        [
            *PLACE,
            pa.field("first_seq", pa.int64(), False),
            pa.field("last_seq", pa.int64(), False),
            pa.field("recalled", pa.list_(pa.int64()), False),
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
KEYS = {
    "turns": ["namespace", "channel", "seq"],
    "chunks": ["namespace", "channel", "window", "start"],
    "windows": ["namespace", "channel", "window"],
    "summaries": ["summary_id"],
    "changes": ["namespace", "channel", "window"],
    "erased": ["namespace", "channel", "id"],
    "answers": ["namespace", "channel", "first_seq", "last_seq", "stage", "digest", "model", "day"],
    "meta": ["fingerprint"],
}
"""The key columns of each table."""


class StoreError(HistoryError):
    """The store cannot be used; the text says which store, why, and how to fix it."""


def vectors_schema(dimensions: int) -> pa.Schema:
    """Columns of a table of chunk or turn vectors; every embedder has one table of each kind."""
    vector = pa.field("vector", pa.list_(pa.float32(), dimensions), False)
    return pa.schema([*PLACE, pa.field("position", pa.int64(), False), vector])


def vector_positions(recorded: RecordedWindow) -> tuple[list[int], list[int]]:
    """Positions of a window's chunk and turn vectors; they sort in the order of chunks and turns."""
    chunks = [(recorded.window.ref.index << 32) + chunk.start for chunk in recorded.chunks]
    return chunks, [turn.seq for turn in recorded.window.turns]


def vector_rows(
    positions: Sequence[tuple[ChannelKey, Sequence[int]]], vectors: Sequence[Vectors]
) -> pa.Table:
    """Rows of a vector table: float32 `[rows, dimensions]` in total, in the order of the positions."""
    keys = [key for key, of_key in positions for _ in of_key]
    stacked = np.concatenate(vectors).astype(np.float32, copy=False)
    columns = {
        "namespace": [key.namespace for key in keys],
        "channel": [key.channel for key in keys],
        "position": [position for _, of_key in positions for position in of_key],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(stacked.ravel()), stacked.shape[1]),
    }
    return pa.table(columns, schema=vectors_schema(stacked.shape[1]))


def occupy(path: Path) -> IO[str]:
    """Lock the directory (created if necessary) until the returned file is closed or the process ends.

    A child process that inherits the file (`subprocess.Popen(..., pass_fds=[lock.fileno()])`) holds the
    lock as well: the directory stays locked until the last of them has ended.

    Raises:
        StoreError: another engine holds the lock, or the directory cannot be created.
    """
    if path.is_file():
        raise StoreError(f"store {path} cannot be opened: it is a file: give a directory")
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


def place(key: ChannelKey) -> dict[str, str]:
    """The columns that identify a channel."""
    return {"namespace": key.namespace, "channel": key.channel}


def where(key: ChannelKey) -> str:
    """The condition that selects a channel."""
    return f"namespace = {literal(key.namespace)} AND channel = {literal(key.channel)}"


def depending_on(seqs: Sequence[int]) -> str:
    """The condition that selects rows about one of the turns, or with it in their memory."""
    about = [f"(first_seq <= {seq} AND last_seq >= {seq})" for seq in map(int, seqs)]
    quoted = ", ".join(str(int(seq)) for seq in seqs)
    return f"({' OR '.join(about)} OR array_has_any(recalled, make_array({quoted})))"


def literal(text: str) -> str:
    """A string literal of the query language."""
    return "'" + text.replace("'", "''") + "'"


def first_line(err: Exception) -> str:
    """The first line of an error's text, which is what a user needs."""
    return str(err).splitlines()[0] if str(err) else type(err).__name__


def turn_row(turn: Turn) -> dict[str, Any]:
    """A turn as a row of `turns`, without its channel."""
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
        "edited": turn.edited,
        "deleted": turn.deleted,
    }
