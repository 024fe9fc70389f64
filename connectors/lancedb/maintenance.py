"""Maintain a store: merge small fragments, remove deleted rows from the files, and update indexes.

One process at a time maintains a store, under a lease; others can read and write meanwhile.

LanceDB marks rows as deleted but keeps them in their data file: compaction rewrites a fragment only once a
tenth of its rows is deleted. So maintenance itself rewrites fragments with deleted rows. Old files are
removed once they are older than the retention, which protects readers and writers: a writer that pauses
longer in the middle of a commit may reuse the number of a removed version, and its rows are lost. Files
left by interrupted or preempted writers remain; LanceDB deletes them after seven days, `exclusive`
maintenance at once.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from backscroll.connectors.lancedb.schema import TIME, StoreError, literal
from backscroll.connectors.lancedb.search import index_channels, index_vectors
from backscroll.connectors.lancedb.store import LanceStore
from backscroll.connectors.lancedb.tables import SharedTable, attempt, is_remote, table_names

__all__ = ["Maintained", "leased", "maintain"]

_LEASE = pa.schema(
    [
        pa.field("name", pa.string(), False),
        pa.field("holder", pa.string(), False),
        pa.field("expires", TIME, False),
    ]
)
_SHORTEST = timedelta(minutes=1)  # a commit takes milliseconds after choosing its version number
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Maintained:
    """The result of a maintenance.

    Args:
        tables: how many tables were compacted and cleaned.
        rewritten: how many rows were rewritten to remove deleted rows from their fragments.
        skipped: tables that other processes kept writing; the next maintenance tries again.
    """

    tables: int
    rewritten: int
    skipped: tuple[str, ...] = ()


def maintain(
    store: LanceStore,
    *,
    retention: timedelta = timedelta(minutes=10),
    exclusive: bool = False,
    lease: timedelta = timedelta(minutes=10),
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Maintained | None:
    """Compact and clean all tables of a store, including those of other embedders.

    Args:
        store: an open store.
        retention: how long to keep files of older versions, at least a minute. Deleted text has left all
            files after the first maintenance that runs this long after the one that rewrote its fragment.
        exclusive: whether no other process uses the store, as at the start of an engine. The caller must
            ensure this: with a concurrent writer, tables are destroyed. The retention may then be zero,
            which removes deleted text at once, as well as files left by interrupted writers.
        lease: how long another maintainer waits for a sign of life from this one. The machines' clocks
            should agree to within a fraction of it.
        now: returns the current time.

    Returns:
        What was done, or None if another process is maintaining the store.

    Raises:
        ValueError: the retention is too short for a store that others use.
        StoreError: the store cannot be used.
    """
    if retention < _SHORTEST and not exclusive:
        msg = f"retention is {retention}: with other processes it must be at least {_SHORTEST}"
        raise ValueError(msg)
    with store.usable(), leased(store, lease, now) as renew:
        if renew is None:
            return None
        begun = now()
        done, rewritten, skipped = 0, 0, list[str]()
        for name in table_names(store.tables.database):
            if not renew():
                break
            try:
                rewritten += _clean(store, name, retention, exclusive, renew)
                _index(store, name, begun)
                done += 1
            except _BusyError:
                skipped.append(name)
        return Maintained(done, rewritten, tuple(skipped))


class _BusyError(Exception):
    pass


def _clean(
    store: LanceStore, name: str, retention: timedelta, exclusive: bool, renew: Callable[[], bool]
) -> int:
    """Compact one table, rewrite fragments with deleted rows, remove old files; returns rows rewritten."""
    table = SharedTable(store.tables.database, name)
    rewritten = 0
    try:
        table.optimize(retention, delete_unverified=exclusive)
        for fragment in _fragments_with_deletions(store.path, name):
            rewritten += table.rewrite(fragment)
        if rewritten and renew():
            table.optimize(retention, delete_unverified=exclusive)
    except StoreError as err:
        raise _BusyError from err
    return rewritten


def _index(store: LanceStore, name: str, now: datetime) -> None:
    table = SharedTable(store.tables.database, name)
    try:
        index_channels(table)
        if store.search is not None and name == store.search.table:
            index_vectors(table, store.search.beyond, now)
    except StoreError as err:
        raise _BusyError from err


def _fragments_with_deletions(path: Path | str, name: str) -> list[int]:
    """Fragments named by deletion files, including those of older versions."""
    if is_remote(path):
        files, root = fs.FileSystem.from_uri(str(path))
    else:
        files, root = fs.LocalFileSystem(), str(Path(path).resolve())
    selector = fs.FileSelector(f"{root}/{name}.lance/_deletions", allow_not_found=True)
    found = {info.base_name.partition("-")[0] for info in files.get_file_info(selector)}
    return sorted(int(fragment) for fragment in found if fragment.isdigit())


@contextmanager
def leased(
    store: LanceStore, lease: timedelta, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Iterator[Callable[[], bool] | None]:
    """Take the lease for maintaining the store: yields a function to renew it, or None if it is taken.

    The lease is a single row, which is changed in one atomic commit if it is free or expired. So it works
    the same in a directory and in an object store.
    """
    free = {"name": "maintenance", "holder": "", "expires": _NEVER}
    row = pa.Table.from_pylist([free], schema=_LEASE)
    # Created together with its row: one of several processes creates it, the others find it.
    attempt(lambda: _make(store.tables.database, row))
    table = SharedTable(store.tables.database, "lease")
    me = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}"
    mine = f"holder = {literal(me)}"

    def take(condition: str) -> bool:
        table.update(condition, {"holder": me, "expires": now() + lease})
        return table.count(mine) == 1

    if not take(f"holder = '' OR expires < {_timestamp(now())}"):
        yield None
        return
    try:
        yield lambda: take(mine)
    finally:
        table.update(mine, {"holder": "", "expires": _NEVER})


def _make(database: Any, row: pa.Table) -> None:
    database.create_table("lease", data=row, exist_ok=True)


def _timestamp(moment: datetime) -> str:
    return f"timestamp '{moment.astimezone(UTC).isoformat()}'"
