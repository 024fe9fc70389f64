"""Search by vectors in the store, for channels too long to keep the vectors of their chunks hot.

LanceDB's HNSW index over 8-bit roundings finds candidates, and their own vectors order them. Rows
that maintenance has not indexed yet are compared one by one, so that nothing is missed but what the
index itself misses. What is found may therefore differ, a little, after a maintenance.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from backscroll.connectors.lancedb.schema import where
from backscroll.connectors.lancedb.tables import SharedTable
from backscroll.operators.index.embedder import ChunkHit, Vectors
from backscroll.operators.messages import ChannelKey

__all__ = ["LanceSearch", "index_channels", "index_vectors"]

_CANDIDATES = 4  # for each chunk asked for: with fewer, recall at 30 falls to 0.91


_MANY = 10_000  # rows, which are read faster by an index of channels than one by one


_OLDEST = timedelta(days=1)


class LanceSearch:
    """The chunks of a channel nearest to queries, as the store finds them.

    Args:
        table: the vectors of chunks.
        beyond: chunks of a channel from which on it is used.
    """

    def __init__(self, table: SharedTable, beyond: int) -> None:
        self._table = table
        self.table = table.name
        self.beyond = beyond

    def nearest(self, key: ChannelKey, queries: Vectors, *, windows: int, k: int) -> list[list[ChunkHit]]:
        """About the `k` chunks of the first `windows` windows with the largest cosine to each query."""
        condition = f"{where(key)} AND position < {windows << 32}"
        found = []
        for query in queries:
            rows = self._table.nearest(query, condition, k, candidates=_CANDIDATES, columns=["position"])
            places = rows["position"].to_pylist()
            cosines = [1 - distance for distance in rows["_distance"].to_pylist()]
            found.append(
                [
                    ChunkHit(place >> 32, place & 0xFFFFFFFF, cosine)
                    for place, cosine in zip(places, cosines, strict=True)
                ]
            )
        return found


def index_channels(table: SharedTable) -> None:
    """See to it that the rows of a channel are found without reading those of all others."""
    if "channel" in table.schema.names and "channel" not in table.indexed() and table.count("") >= _MANY:
        table.index_values(["channel"])


def index_vectors(table: SharedTable, beyond: int, now: datetime) -> None:
    """See to it that chunks are found by their vectors, once a channel may have more than `beyond`.

    The index is made anew every day: the roundings of vectors that were deleted leave it then.
    """
    if table.count("") <= beyond:
        return
    made = table.indexed()
    if missing := [name for name in ("namespace", "position") if name not in made]:
        table.index_values(missing)
    if "vector" not in made or now - made["vector"] > _OLDEST:
        table.index_vectors("vector")
