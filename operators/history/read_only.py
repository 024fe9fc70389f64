"""A read-only view of a store that another process writes."""

from __future__ import annotations

from collections.abc import Sequence

from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.store import ChannelLoader, HistoryError, StoredSummary
from backscroll.operators.messages import ChannelKey, Turn

__all__ = ["ReadOnlyStore"]


class ReadOnlyStore:
    """A `HistoryStore` that reads channels and ignores writes.

    You can still change the `Histories` over it. The changes are then only in memory, so set no
    `ceiling`, which could drop them.

    Args:
        loader: reads the channels.
    """

    def __init__(self, loader: ChannelLoader) -> None:
        self.load = loader.load

    def append(self, recorded: Sequence[RecordedWindow]) -> None:
        """Write nothing."""

    def begin_change(self, key: ChannelKey, turns: Sequence[Turn], windows: Sequence[int]) -> None:
        """Write nothing."""

    def finish_change(self, recorded: RecordedWindow) -> None:
        """Write nothing."""

    def put_erased(self, key: ChannelKey, ids: Sequence[str]) -> None:
        """Write nothing."""

    def summary(self, summary_id: str) -> bytes:
        """Always fails, because only channels can be read.

        Raises:
            HistoryError: always.
        """
        raise HistoryError(f"summary {summary_id} cannot be read: a read-only history reads only channels")

    def put_summaries(self, summaries: Sequence[StoredSummary]) -> None:
        """Write nothing."""

    def depending_on(self, _key: ChannelKey, _seqs: Sequence[int]) -> list[StoredSummary]:
        """Always empty, because only channels are read."""
        return []
