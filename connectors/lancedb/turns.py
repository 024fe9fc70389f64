"""The turns of a stored channel, each built from its row on access."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from backscroll.operators.messages import Author, Turn

__all__ = ["StoredTurns"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES = ("author_id", "author_name")  # few distinct values per channel
_TIMES = ("ts", "edited")


class StoredTurns(Sequence[Turn]):
    """Rows of `turns` sorted by `seq`; texts stay in Arrow's memory until they are read.

    Args:
        rows: the rows of one channel, in any order.
    """

    def __init__(self, rows: pa.Table) -> None:
        rows = rows.sort_by("seq").combine_chunks()
        self.seqs: NDArray[np.int64] = rows["seq"].to_numpy()
        self._columns: dict[str, Any] = {}
        for name in rows.schema.names:
            column = rows[name]
            if name in _TIMES:
                column = column.cast(pa.int64())
            elif name in _NAMES:
                column = column.dictionary_encode()
            self._columns[name] = column.combine_chunks() if len(rows) else column

    def __len__(self) -> int:
        return len(self.seqs)

    @property
    def ids(self) -> list[str]:
        """Message ids, in the order of the turns."""
        ids: list[str] = self._columns["id"].to_pylist()
        return ids

    @property
    def nbytes(self) -> int:
        """The size of the columns in bytes."""
        return int(self.seqs.nbytes + sum(column.nbytes for column in self._columns.values()))

    def blank(self, places: Sequence[int]) -> None:
        """Erase the texts of turns."""
        if places:
            mask = np.zeros(len(self), np.bool_)
            mask[list(places)] = True
            texts = self._columns["text"]
            self._columns["text"] = pc.if_else(pa.array(mask), pa.scalar("", texts.type), texts)

    def any_live(self, first: int, end: int) -> bool:
        """Whether any of the turns from `first` up to, but not including, `end` is not deleted."""
        return not pc.all(self._columns["deleted"].slice(first, end - first)).as_py()

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> list[Turn]: ...
    def __getitem__(self, index: int | slice) -> Turn | list[Turn]:
        if not isinstance(index, slice):
            return self._turn(range(len(self))[index])
        return [self._turn(place) for place in range(*index.indices(len(self)))]

    def _turn(self, place: int) -> Turn:
        row = {name: column[place].as_py() for name, column in self._columns.items()}
        author = Author(row["author_id"], row["author_name"], row["author_bot"])
        return Turn(
            seq=row["seq"],
            id=row["id"],
            ts=_EPOCH + timedelta(microseconds=row["ts"]),
            author=author,
            text=row["text"],
            tokens=row["tokens"],
            digest=row["digest"],
            thread=row["thread"],
            reply_to=row["reply_to"],
            permalink=row["permalink"],
            late=row["late"],
            edited=None if row["edited"] is None else _EPOCH + timedelta(microseconds=row["edited"]),
            deleted=row["deleted"],
        )
