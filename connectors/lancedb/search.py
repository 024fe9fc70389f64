"""Vector search inside the store, for channels too long to keep their chunk vectors in memory.

LanceDB's HNSW index over 8-bit quantised vectors finds candidates, which are then ranked by their exact
vectors. Rows that maintenance has not indexed yet are compared one by one, so only the index itself can
miss something. Results may therefore differ slightly after a maintenance.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from backscroll.connectors.lancedb.schema import where
from backscroll.connectors.lancedb.tables import SharedTable
from backscroll.operators.index.embedder import ChunkHit, Vectors
from backscroll.operators.messages import ChannelKey

__all__ = ["LanceSearch", "index_channels", "index_vectors"]

_CANDIDATES = 4  # per requested chunk; with fewer, recall at 30 drops to 0.91
_MANY = 10_000  # rows, from which an index on channels is faster than a scan
_OLDEST = timedelta(days=1)


class LanceSearch:
    """Finds a channel's chunks nearest to queries with the store's index.

    Args:
        table: the table of chunk vectors.
        beyond: used for channels with more chunks than this.
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
    """Index a large table by channel, so that one channel's rows are found without scanning all rows."""
    if "channel" in table.schema.names and "channel" not in table.indexed() and table.count("") >= _MANY:
        table.index_values(["channel"])


def index_vectors(table: SharedTable, beyond: int, now: datetime) -> None:
    """Index chunk vectors once the table has more than `beyond` rows, so that a channel may.

    The index is rebuilt daily, which drops quantised copies of deleted vectors.
    """
    if table.count("") <= beyond:
        return
    made = table.indexed()
    if missing := [name for name in ("namespace", "position") if name not in made]:
        table.index_values(missing)
    if "vector" not in made or now - made["vector"] > _OLDEST:
        table.index_vectors("vector")
