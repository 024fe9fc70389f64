"""Read a store's channels, windows, summaries and turns, while engines write to it.

Only committed windows are visible: those with a `windows` row.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from backscroll.connectors.lancedb.schema import StoreError, first_line, literal, where
from backscroll.connectors.lancedb.store import Fingerprint, LanceStore
from backscroll.connectors.lancedb.tables import SharedTable, connect, is_remote, table_names
from backscroll.connectors.lancedb.turns import StoredTurns
from backscroll.operators.history.store import StoredChannel
from backscroll.operators.messages import ChannelKey, Turn
from backscroll.operators.summary.record import Summary

__all__ = ["ChannelEntry", "StoreReader", "StoredWindow", "recorded_fingerprint"]

_WINDOW = ["window", "first_seq", "last_seq", "revision", "tokens", "start", "end"]


@dataclass(frozen=True, slots=True)
class ChannelEntry:
    """A channel in a store: the number of its windows and turns, and the time they span."""

    namespace: str
    channel: str
    windows: int
    turns: int
    start: datetime
    end: datetime

    @property
    def key(self) -> ChannelKey:
        """The channel's key."""
        return ChannelKey(self.namespace, self.channel)


@dataclass(frozen=True, slots=True)
class StoredWindow:
    """A committed window: its ordinal, inclusive turns, revision, tokens, earliest and latest time."""

    index: int
    first_seq: int
    last_seq: int
    revision: int
    tokens: int
    start: datetime
    end: datetime


def recorded_fingerprint(path: Path | str, ours: Fingerprint) -> Fingerprint:
    """The fingerprint that a store was created with.

    Args:
        path: the store's directory or address.
        ours: the fingerprint to return if nothing has been written yet.

    Raises:
        StoreError: the store does not exist or cannot be read.
    """
    try:
        if not is_remote(path) and not Path(path).is_dir():
            raise StoreError(f"store {path} cannot be read: there is no such directory")
        database = connect(path)
        if "meta" not in table_names(database):
            raise StoreError(f"{path} is not a Backscroll store: create one with ingest or replay")
        rows = SharedTable(database, "meta").rows("")
    except (OSError, ValueError, RuntimeError) as err:
        raise StoreError(f"store {path} cannot be read: {first_line(err)}") from err
    known = Fingerprint.__dataclass_fields__
    found = json.loads(rows[0]["fingerprint"]) if rows else {}
    return replace(ours, **{name: value for name, value in found.items() if name in known})


class StoreReader:
    """Reads a store while others write to it. Several threads can use it.

    Args:
        path: the store's directory or address.
        fingerprint: the store's fingerprint, from `recorded_fingerprint`.
        dimensions: the length of a vector; None to read no vectors.
        exact_chunks: channels with more chunks are searched in the store; None to always search in memory.

    Raises:
        StoreError: the store cannot be read.
    """

    def __init__(
        self,
        path: Path | str,
        fingerprint: Fingerprint,
        dimensions: int | None,
        *,
        exact_chunks: int | None = None,
    ) -> None:
        self._store = LanceStore(path, fingerprint, dimensions, reader=True, exact_chunks=exact_chunks)
        self.dimensions = dimensions
        self.search = self._store.search
        self._lock = threading.Lock()
        self._channels: tuple[int, list[ChannelEntry]] = (-1, [])
        self._activity: tuple[object, dict[ChannelKey, tuple[int, ...]]] = (None, {})

    @property
    def version(self) -> int:
        """A number that changes whenever windows or summaries are written."""
        with self._store.usable():
            return self._table("windows").version + self._table("summaries").version

    def channels(self, namespaces: frozenset[str] | None) -> list[ChannelEntry]:
        """The channels of some namespaces, or of all (None), most recent first."""
        with self._store.usable(), self._lock:
            version = self._table("windows").version
            if self._channels[0] != version:
                self._channels = version, self._read_channels()
            every = self._channels[1]
        return [entry for entry in every if namespaces is None or entry.namespace in namespaces]

    def activity(self, namespaces: frozenset[str] | None) -> dict[ChannelKey, tuple[int, ...]]:
        """Numbers for each channel that change whenever a summary is added, erased or revised."""
        with self._store.usable(), self._lock:
            versions = self._table("summaries").version, self._table("changes").version
            if self._activity[0] != versions:
                self._activity = versions, self._read_activity()
            every = self._activity[1]
        return {key: at for key, at in every.items() if namespaces is None or key.namespace in namespaces}

    def windows(self, key: ChannelKey) -> list[StoredWindow]:
        """The windows of a channel, in order; empty if there is no such channel."""
        with self._store.usable():
            rows = self._table("windows").rows(where(key), _WINDOW)
        rows.sort(key=lambda row: row["window"])
        return [StoredWindow(row.pop("window"), **row) for row in rows]

    def summaries(
        self, key: ChannelKey, windows: Sequence[StoredWindow], strategy: str
    ) -> dict[int, Summary]:
        """The summaries of consecutive windows by their `first_seq`.

        If a window has several, `strategy`'s is preferred. A window has none if it was not summarised, or
        if its summary was erased with a message and has not been rewritten yet.
        """
        if not windows:
            return {}
        first, last = windows[0].first_seq, windows[-1].first_seq
        here = f"{where(key)} AND first_seq >= {first} AND first_seq <= {last} AND body != X''"
        with self._store.usable():
            rows = self._table("summaries").rows(here, ["body"])
        found = [Summary.from_json(row["body"]) for row in rows]
        found.sort(key=lambda summary: (summary.strategy == strategy, summary.strategy))
        ends = {window.first_seq: window.last_seq for window in windows}
        return {
            summary.window.first_seq: summary
            for summary in found
            if ends.get(summary.window.first_seq) == summary.window.last_seq
        }

    def marks(self, key: ChannelKey) -> dict[int, int]:
        """The revision of each window's summary by `first_seq`; -1 if it was erased."""
        with self._store.usable():
            table = self._table("summaries")
            rows = table.rows(f"{where(key)} AND body != X''", ["first_seq", "revision"])
            erased = table.rows(f"{where(key)} AND body = X''", ["first_seq"])
        marks = {row["first_seq"]: -1 for row in erased}
        for row in rows:
            marks[row["first_seq"]] = max(row["revision"], marks.get(row["first_seq"], -1))
        return marks

    def turns(self, key: ChannelKey, first_seq: int, last_seq: int) -> list[Turn]:
        """Committed turns `first_seq` to `last_seq`, inclusive, in order."""
        return self._turns(f"{where(key)} AND seq >= {int(first_seq)} AND seq <= {int(last_seq)}", key)

    def turns_at(self, key: ChannelKey, seqs: Iterable[int]) -> list[Turn]:
        """Committed turns by their `seq`, in order."""
        places = ", ".join(str(int(seq)) for seq in seqs)
        return self._turns(f"{where(key)} AND seq IN ({places})", key) if places else []

    def named(self, keys: Iterable[ChannelKey], ids: Sequence[str]) -> dict[ChannelKey, list[Turn]]:
        """The committed turns of the messages with these ids, by channel."""
        among, places = ", ".join(map(literal, ids)), dict[ChannelKey, list[int]]()
        with self._store.usable():
            columns = ["namespace", "channel", "seq"]
            rows = self._table("turns").rows(f"id IN ({among})", columns) if ids else []
        for row in rows:
            places.setdefault(ChannelKey(row["namespace"], row["channel"]), []).append(row["seq"])
        return {key: self.turns_at(key, places[key]) for key in keys if key in places}

    def find(self, key: ChannelKey, message_id: str) -> Turn | None:
        """The committed turn of a message, by its id, or None."""
        found = self._turns(f"{where(key)} AND id = {literal(message_id)}", key)
        return found[0] if found else None

    def changing(self, key: ChannelKey) -> frozenset[int]:
        """The indexes of the channel's windows that an engine is changing."""
        with self._store.usable():
            rows = self._table("changes").rows(where(key), ["window"])
        return frozenset(row["window"] for row in rows)

    def load(self, key: ChannelKey) -> StoredChannel:
        """The committed windows of a channel, with chunks and vectors for searching."""
        return self._store.load(key)

    def _turns(self, condition: str, key: ChannelKey) -> list[Turn]:
        with self._store.usable():
            found = StoredTurns(self._table("turns").read(condition))
            ends = self._table("windows").read(where(key), ["last_seq"])["last_seq"].to_pylist()
        until = max(ends, default=-1)
        return [turn for turn in found if turn.seq <= until]

    def _read_channels(self) -> list[ChannelEntry]:
        columns = ["namespace", "channel", "last_seq", "start", "end"]
        table = self._table("windows").read("", columns)
        grouped = table.group_by(["namespace", "channel"]).aggregate(
            [("last_seq", "count"), ("last_seq", "max"), ("start", "min"), ("end", "max")]
        )
        entries = [
            ChannelEntry(
                row["namespace"],
                row["channel"],
                row["last_seq_count"],
                row["last_seq_max"] + 1,
                row["start_min"],
                row["end_max"],
            )
            for row in grouped.to_pylist()
        ]
        return sorted(entries, key=lambda entry: (-entry.end.timestamp(), entry.key))

    def _read_activity(self) -> dict[ChannelKey, tuple[int, ...]]:
        # Bodies are not read: an erased summary has a row in `changes` until its window is rebuilt.
        place = ["namespace", "channel"]
        made = self._table("summaries").read("", [*place, "revision"])
        sums = made.group_by(place).aggregate([("revision", "count"), ("revision", "sum")])
        erased = Counter(ChannelKey(**row) for row in self._table("changes").rows("", place))
        return {
            (key := ChannelKey(row["namespace"], row["channel"])): (
                row["revision_count"],
                row["revision_sum"],
                erased[key],
            )
            for row in sums.to_pylist()
        }

    def _table(self, name: str) -> SharedTable:
        return self._store.tables[name]
