"""Maintenance of a store: small fragments become large ones, and what was deleted leaves the files.

Large tables get indexes, which every maintenance brings up to date.

One process at a time maintains a store, under a lease, while others go on writing and reading.

LanceDB marks rows as deleted and keeps them in their data file: compaction leaves a fragment alone
until a tenth of its rows is deleted. Fragments with deleted rows are therefore rewritten here. Their
old files go when they are older than the retention, which protects readers and writers: a writer that
pauses for longer in the midst of a commit may take the number of a version that was removed, and what
it wrote is lost. What remains is what a writer left that was interrupted, or preempted by another:
LanceDB deletes such files after seven days; `exclusive` maintenance deletes them at once.
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


_SHORTEST = timedelta(minutes=1)  # a commit takes milliseconds, once its version number is taken


_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done.

    Args:
        tables: how many tables were compacted and cleaned.
        rewritten: how many rows were written anew to get rid of deleted ones beside them.
        skipped: tables that other processes wrote all the time; the next maintenance gets to them.
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
    """Compact and clean all tables of a store, those of other embedders included.

    Args:
        store: an open store.
        retention: how long files of older versions stay, at least a minute. Deleted text is in no
            file any more after the first maintenance that is this long after the one that rewrote
            its fragment.
        exclusive: no other process uses the store, as at the start of an engine; the promise is the
            caller's, and beside a writer tables are destroyed. The retention may then be zero, after
            which deleted text is in no file, and left-overs of interrupted writers are deleted, too.
        lease: how long another maintainer waits for this one to show a sign of life. The clocks of
            the machines should agree to a fraction of it.
        now: the current time.

    Returns:
        What was done, or None where another process is maintaining the store.

    Raises:
        ValueError: the retention is too short for a store that others use.
        StoreError: the store cannot be used.
    """
    if retention < _SHORTEST and not exclusive:
        msg = f"retention is {retention}: beside other processes it must be {_SHORTEST} at least"
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
    """Compact one table, rewrite what keeps deleted rows, and remove old files; the rows rewritten."""
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
    """Fragments that deletion files name; those of older versions are among them."""
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
    """The lease of the store's maintainer: yields what renews it, or None where another holds it.

    The one row of the table is changed where it is free or expired, in one atomic commit, so the
    same holds in a directory and in an object store.
    """
    free = {"name": "maintenance", "holder": "", "expires": _NEVER}
    row = pa.Table.from_pylist([free], schema=_LEASE)
    # Made with its row: of several processes one makes it, the others find it.
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
