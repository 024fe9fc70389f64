"""LanceDB tables shared by several processes: reads see the latest version, and failed writes are retried.

LanceDB serialises the commits of a table. Appends never conflict. An update, delete or compaction that
another commit overtook ("commit conflict") is not applied, and is retried here after a random pause. If
maintenance removed a version in use ("Not found"), the latest one is used instead; an append that hit
this may already have been applied, so it is repeated only for rows that are missing. If the latest
version lacks a file too, the store is damaged.
"""

from __future__ import annotations

import os
import random
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import lancedb
import pyarrow as pa
from lancedb.index import BTree, HnswSq

from backscroll.connectors.lancedb.schema import KEYS, SCHEMAS, StoreError, first_line, vectors_schema
from backscroll.operators.index.embedder import Vectors

__all__ = ["SharedTable", "Tables", "attempt", "connect", "is_remote", "table_names"]

T = TypeVar("T")

_TRIES = 12
_VECTOR_KEY = ["namespace", "channel", "position"]
_PAUSE = 0.02  # seconds, doubled with every attempt
_LONGEST = 2.0
_CONFLICT = re.compile(
    r"commit conflict|preempted by concurrent|concurrent writers|please retry", re.IGNORECASE
)
_REMOVED = re.compile(r"Not found: ")


def is_remote(path: Path | str) -> bool:
    """Whether a store is in an object store (`s3://bucket/prefix`) rather than a directory."""
    return "://" in str(path)


def connect(path: Path | str) -> Any:
    """Connect to a store's database; every read uses the latest version of its table.

    An object store's address and credentials come from the environment (`AWS_ENDPOINT_URL`,
    `AWS_ACCESS_KEY_ID` ...). An `http://` endpoint is used without TLS.
    """
    options = {}
    endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "")
    if is_remote(path) and endpoint.startswith("http://"):
        options["allow_http"] = "true"
    return lancedb.connect(str(path), read_consistency_interval=timedelta(0), storage_options=options or None)


_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


def table_names(database: Any) -> list[str]:
    """The names of all tables, in order."""
    names, token = list[str](), None
    while True:
        page = database.list_tables(page_token=token)
        names.extend(page.tables)
        token = page.page_token
        if not token:
            return sorted(names)


def attempt(
    action: Callable[[], T],
    again: Callable[[], object] = lambda: None,
    *,
    first: Callable[[], T] | None = None,
    table: str = "a table of the store",
) -> T:
    """Run an action, and retry it while it conflicts with other processes; returns its result.

    Args:
        action: must be safe to run twice, as it may fail with "Not found" after it was applied.
        again: called before each retry.
        first: run instead of `action` until it fails with "Not found"; need not be safe to run twice.
        table: names the table in the error.

    Raises:
        StoreError: every attempt failed. If each failed with "Not found", a file of the table is lost.
    """
    conflicted = False
    for number in range(_TRIES):
        try:
            return action() if first is None else first()
        except (OSError, ValueError, RuntimeError) as err:
            if not (_CONFLICT.search(str(err)) or _REMOVED.search(str(err))):
                raise
            last = err
        if _CONFLICT.search(str(last)):
            conflicted = True
        else:
            first = None
        if number < _TRIES - 1:
            time.sleep(random.uniform(0, min(_LONGEST, _PAUSE * 2**number)))
            again()
    if not conflicted:
        raise StoreError(f"{table} is damaged: a file is missing: restore a backup") from last
    raise StoreError(f"conflict with other processes in {_TRIES} attempts: {first_line(last)}") from last


class SharedTable:
    """A table shared with other processes. Conditions are SQL. Each write is one atomic commit.

    Args:
        database: the result of `connect`.
        name: the table's name.
        schema: its columns, to create it if missing; None if it must exist.
    """

    def __init__(self, database: Any, name: str, schema: pa.Schema | None = None) -> None:
        self.name = name
        self._where = f"table {name} of store {database.uri}"
        if schema is None:
            self._table = attempt(lambda: database.open_table(name), table=self._where)
        else:
            self._table = attempt(
                lambda: database.create_table(name, schema=schema, exist_ok=True), table=self._where
            )
        self.schema: pa.Schema = self._table.schema

    @property
    def version(self) -> int:
        """The number of the latest version, which increases with every commit."""
        return int(self.do(lambda: self._table.version))

    def read(self, condition: str, columns: Sequence[str] | Mapping[str, str] | None = None) -> pa.Table:
        """The rows that match a condition (all if it is empty), unordered, with all or some columns.

        `columns` may also be a mapping of names to SQL expressions.
        """
        wanted = dict(columns) if isinstance(columns, Mapping) else list(columns or ())

        def action() -> pa.Table:
            query = self._table.search().where(condition) if condition else self._table.search()
            return (query.select(wanted) if wanted else query).limit(None).to_arrow()

        return self.do(action)

    def rows(self, condition: str, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Like `read`, but returns each row as a dict."""
        rows: list[dict[str, Any]] = self.read(condition, columns).to_pylist()
        return rows

    def count(self, condition: str) -> int:
        """How many rows match a condition; all if it is empty."""
        return int(self.do(lambda: self._table.count_rows(condition or None)))

    def add(self, rows: pa.Table | Sequence[Mapping[str, Any]]) -> None:
        """Append rows that are not in the table yet."""
        table = self._arrow(rows)
        if not len(table):
            return
        key = KEYS.get(self.name, _VECTOR_KEY)
        # If an append may already have been applied, append only missing rows.
        attempt(
            lambda: self._table.merge_insert(key).when_not_matched_insert_all().execute(table),
            self._table.checkout_latest,
            first=lambda: self._table.add(table),
            table=self._where,
        )

    def overwrite(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Replace all rows of the table."""
        table = self._arrow(rows)
        self.do(lambda: self._table.add(table, mode="overwrite"))

    def replace(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Replace the rows with the same keys; rows with new keys are ignored."""
        table, key = self._arrow(rows), KEYS[self.name]
        self.do(lambda: self._table.merge_insert(key).when_matched_update_all().execute(table))

    def put(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Like `replace`, but also append rows with new keys."""
        table, key = self._arrow(rows), KEYS[self.name]
        self.do(
            lambda: (
                self._table.merge_insert(key)
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .execute(table)
            )
        )

    def update(self, condition: str, values: Mapping[str, Any]) -> int:
        """Change the rows that match a condition and return how many; commits nothing if there are none."""
        if not self.count(condition):
            return 0
        return int(self.do(lambda: self._table.update(where=condition, values=dict(values))).rows_updated)

    def delete(self, condition: str) -> None:
        """Delete the rows that match a condition; commits nothing if there are none."""
        if self.count(condition):
            self.do(lambda: self._table.delete(condition))

    def rewrite(self, fragment: int) -> int:
        """Rewrite the rows of a fragment without its deleted rows; returns how many were written."""
        condition = f"_rowid >= {fragment << 32} AND _rowid < {(fragment + 1) << 32}"
        column = self.schema.names[0]
        if not self.count(condition):
            return 0
        same = {column: column}
        return int(self.do(lambda: self._table.update(where=condition, values_sql=same)).rows_updated)

    def optimize(self, retention: timedelta, *, delete_unverified: bool) -> None:
        """Merge small fragments, and delete files of versions older than the retention."""
        options = {"cleanup_older_than": retention, "delete_unverified": delete_unverified}
        with ExitStack() as quiet:
            if not retention:  # LanceDB warns about it, but it is the caller's choice
                quiet.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore", UserWarning)
            self.do(lambda: self._table.optimize(**options))

    def nearest(
        self, query: Vectors, condition: str, k: int, *, candidates: int, columns: Sequence[str]
    ) -> pa.Table:
        """The `k` rows nearest to a vector among those that match a condition, nearest first.

        `_distance` is one minus the dot product. An index proposes `candidates` times `k` rows, which are
        then compared exactly.
        """
        wanted = [*columns, "_distance"]

        def action() -> pa.Table:
            search = self._table.search(query, vector_column_name="vector").distance_type("dot")
            search = search.where(condition, prefilter=True).refine_factor(candidates)
            return search.select(wanted).limit(k).to_arrow()

        return self.do(action)

    def indexed(self) -> dict[str, datetime]:
        """The columns that have an index, and when it was created."""
        return {name: index.created_at for index in self._table.list_indices() for name in index.columns}

    def index_values(self, columns: Sequence[str]) -> None:
        """Index columns for conditions on them."""
        for column in columns:
            self.do(partial(self._table.create_index, column, config=BTree()))

    def index_vectors(self, column: str) -> None:
        """Build or rebuild the index of a column of unit vectors for `nearest`; takes minutes."""
        self.do(lambda: self._table.create_index(column, config=HnswSq(distance_type="dot")))

    def do(self, action: Callable[[], T]) -> T:
        """Run an action on this table, and retry it on the latest version after a conflict."""
        return attempt(action, self._table.checkout_latest, table=self._where)

    def _arrow(self, rows: pa.Table | Sequence[Mapping[str, Any]]) -> pa.Table:
        if isinstance(rows, pa.Table):
            return rows
        return pa.Table.from_pylist(list(rows), schema=self.schema)


class Tables:
    """A store's tables by name, including the vectors of its embedder and of other embedders.

    Args:
        path: the store's directory or address.
        embedder: the fingerprint of its embedder; None for a history without vectors.
        dimensions: the length of a vector; None for a history without vectors.
        make: whether to create missing tables.
    """

    def __init__(
        self, path: Path | str, embedder: str | None, dimensions: int | None, *, make: bool = True
    ) -> None:
        self.database = connect(path)
        self.dimensions = dimensions
        self._opened = {
            name: SharedTable(self.database, name, schema if make else None)
            for name, schema in SCHEMAS.items()
        }
        self.chunk_vectors, self.turn_vectors = (
            None if dimensions is None else self._vectors(f"{kind}_vectors_{embedder}", dimensions, make)
            for kind in ("chunk", "turn")
        )

    def __getitem__(self, name: str) -> SharedTable:
        return self._opened[name]

    def vectors(self, kind: str) -> Iterator[SharedTable]:
        """The tables of chunk or turn vectors (`kind`), for every embedder ever used with the store."""
        for name in table_names(self.database):
            if name.startswith(f"{kind}_vectors_"):
                if name not in self._opened:
                    self._opened[name] = SharedTable(self.database, name)
                yield self._opened[name]

    def _vectors(self, name: str, dimensions: int, make: bool) -> SharedTable:
        table = SharedTable(self.database, name, vectors_schema(dimensions) if make else None)
        self._opened[name] = table
        return table
