"""The inbox stores what a chat platform sends, so that the dataflow can read it like a topic.

A platform does not keep events for a reader that was offline. So each event is written to disk here, in
order of arrival, before it is acknowledged; the dataflow then reads from an offset, as from a partition.
The inbox also remembers the ids of messages it has passed on. Repeated deliveries therefore change
nothing, and missed messages can be found by reading the platform's history again.

Each thread opens its own `Inbox` on the file (SQLite, write-ahead log).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from backscroll.connectors.chat.errors import ChatError

__all__ = ["Entry", "Inbox", "Known"]

_VERSION = 1
_TABLES = f"""
CREATE TABLE IF NOT EXISTS arrivals (number INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, received TEXT NOT NULL,
    channel TEXT NOT NULL, id TEXT NOT NULL, op TEXT NOT NULL, body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS events_by_message ON events (channel, id);
CREATE TABLE IF NOT EXISTS known (
    channel TEXT, id TEXT, thread TEXT, author TEXT, digest BLOB, PRIMARY KEY (channel, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS channels (identity TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, begins TEXT);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
PRAGMA user_version = {_VERSION};
"""

_TRIM = """
DELETE FROM events WHERE number <= :done AND (
    received < :before OR op != 'delete' AND EXISTS (
        SELECT 1 FROM events AS later
        WHERE later.channel = events.channel AND later.id = events.id
        AND later.op = 'delete' AND later.number > events.number AND later.number <= :done
    )
)
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """An event as the dataflow reads it: its offset, and the message as JSON."""

    number: int
    channel: str
    id: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Known:
    """A message that was passed on. `digest` is of its latest text; None if it must not be stored."""

    id: str
    thread: str | None
    author: str
    digest: bytes | None


class Inbox:
    """The inbox of one platform.

    Args:
        path: the file; created if missing, readable only by its owner.

    Raises:
        ChatError: the file cannot be used, or was written by an incompatible version of Backscroll.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            self._database = sqlite3.connect(path, isolation_level=None, timeout=30.0)
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
            if version not in (0, _VERSION):
                raise ChatError(f"inbox {path} has version {version}: this program reads {_VERSION}")
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
                self._database.execute(f"PRAGMA {pragma}")
            if not version:
                self._database.executescript(_TABLES)
        except (OSError, sqlite3.Error) as err:
            raise ChatError(f"cannot open inbox {path}: {err}") from err

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything inside the block to disk, or nothing if it raises."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    # Arrivals that have not been processed yet

    def arrive(self, arrival: Mapping[str, Any]) -> None:
        """Store what a platform sent; acknowledge it only after this returns."""
        self._database.execute("INSERT INTO arrivals (body) VALUES (?)", (_json(arrival),))

    def next_arrival(self) -> tuple[int, bytes] | None:
        """The oldest stored arrival, with its number."""
        row = self._database.execute("SELECT number, body FROM arrivals ORDER BY number LIMIT 1").fetchone()
        return None if row is None else (row[0], row[1])

    def drop_arrival(self, number: int) -> None:
        """Remove an arrival that was passed on or is not needed."""
        self._database.execute("DELETE FROM arrivals WHERE number = ?", (number,))

    # Messages

    def offer(
        self, message: Mapping[str, Any], digest: bytes, *, edited: str | None = None, is_new: bool = True
    ) -> None:
        """Pass on a message in its current form, unless that form was passed on before.

        Args:
            message: a post, as `parse_message` takes it.
            digest: the digest of its text on the platform.
            edited: the time of its last edit.
            is_new: whether to pass on an unknown message as a post. If false, only its edit is passed on,
                as the message itself was recorded by other means.
        """
        known = self.known(message["channel"], message["id"])
        if known is None:
            self._learn(message, digest)
            if is_new:
                self._append("post", message)
            elif edited is not None:
                self._append("edit", {**message, "op": "edit", "ts": edited})
        elif known.digest is not None and known.digest != digest and edited is not None:
            self._learn(message, digest)
            self._append("edit", {**message, "op": "edit", "ts": edited})

    def erase(self, channel: str, id_: str, ts: str, *, was_stored: bool = True) -> None:
        """Mark a message as one that must never be stored.

        Args:
            channel: the name of its channel.
            id_: the message's id.
            ts: the time of the deletion.
            was_stored: whether the history may hold the message; if so, a deletion is passed on.
        """
        known = self.known(channel, id_)
        if known is not None and known.digest is None:
            return
        self._learn(
            {"channel": channel, "id": id_, **({} if known is None else {"thread": known.thread})}, None
        )
        if known is not None or was_stored:
            self._append("delete", {"op": "delete", "channel": channel, "id": id_, "ts": ts})

    def known(self, channel: str, id_: str) -> Known | None:
        """What the inbox remembers of a message, or None."""
        row = self._database.execute(
            "SELECT id, thread, author, digest FROM known WHERE channel = ? AND id = ?", (channel, id_)
        ).fetchone()
        return None if row is None else Known(*row)

    def known_since(self, channel: str, id_: str) -> list[Known]:
        """What the inbox remembers of the messages whose id, compared as text, is at least `id_`."""
        rows = self._database.execute(
            "SELECT id, thread, author, digest FROM known WHERE channel = ? AND id >= ? ORDER BY id",
            (channel, id_),
        )
        return [Known(*row) for row in rows]

    # Channels and facts

    def channel_name(self, identity: str, wanted: str = "") -> str:
        """The channel name of a conversation: the name it had first, made unique by adding its identity."""
        row = self._database.execute("SELECT name FROM channels WHERE identity = ?", (identity,)).fetchone()
        if row is not None:
            return str(row[0])
        name = wanted.strip() or identity
        if self._database.execute("SELECT 1 FROM channels WHERE name = ?", (name,)).fetchone():
            name = f"{name} ({identity})"
        self._database.execute("INSERT INTO channels (identity, name) VALUES (?, ?)", (identity, name))
        return name

    def begins(self, identity: str) -> str | None:
        """Where the stream of a conversation starts; None until its history has been read."""
        row = self._database.execute("SELECT begins FROM channels WHERE identity = ?", (identity,)).fetchone()
        return None if row is None else row[0]

    def begin(self, identity: str, begins: str) -> None:
        """Record that the history of a conversation has been read, from `begins` on."""
        self._database.execute("UPDATE channels SET begins = ? WHERE identity = ?", (begins, identity))

    def fact(self, name: str) -> str | None:
        """The value last noted under a name, or None."""
        row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def note(self, name: str, value: str) -> None:
        """Store a value under a name, replacing the previous one."""
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    # For the dataflow

    def read(self, after: int, limit: int) -> list[Entry]:
        """Up to `limit` events with offsets above `after`, in order."""
        rows = self._database.execute(
            "SELECT number, channel, id, body FROM events WHERE number > ? ORDER BY number LIMIT ?",
            (after, limit),
        )
        return [Entry(*row) for row in rows]

    def messages(self, channel: str) -> Iterator[bytes]:
        """Every event of a channel that the inbox still holds, as JSON, in order."""
        rows = self._database.execute("SELECT body FROM events WHERE channel = ? ORDER BY number", (channel,))
        return (body for (body,) in rows)

    @property
    def end(self) -> int:
        """The offset of the last event."""
        row = self._database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
        return 0 if row is None else int(row[0])

    def trim(self, done: int, keep: timedelta) -> None:
        """Delete events that the dataflow has finished with: old ones, and those deleted in the chat.

        Args:
            done: the dataflow never reads events up to this offset again.
            keep: how long to keep finished events, for catch-ups on open windows.
        """
        before = (datetime.now(UTC) - keep).isoformat()
        with suppress(
            sqlite3.OperationalError
        ):  # locked, for example by a large backfill: the next call tries again
            self._database.execute(_TRIM, {"done": done, "before": before})
            self._database.execute(
                "PRAGMA wal_checkpoint(TRUNCATE)"
            )  # removes deleted text from the log as well

    def _append(self, op: str, message: Mapping[str, Any]) -> None:
        received = datetime.now(UTC).isoformat()
        self._database.execute(
            "INSERT INTO events (received, channel, id, op, body) VALUES (?, ?, ?, ?, ?)",
            (received, message["channel"], message["id"], op, _json(message)),
        )

    def _learn(self, message: Mapping[str, Any], digest: bytes | None) -> None:
        author = message["author"]["id"] if "author" in message else ""
        self._database.execute(
            "INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?, ?)",
            (message["channel"], message["id"], message.get("thread"), author, digest),
        )


def _json(value: Mapping[str, Any]) -> bytes:
    """JSON in UTF-8; a lone surrogate, which some clients send, becomes a question mark."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return json.dumps(value, ensure_ascii=False).encode(errors="replace")
