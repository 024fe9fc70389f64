"""A store that others write, as a place to keep hot histories over: what is written stays with them."""

from __future__ import annotations

from collections.abc import Sequence

from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.store import ChannelLoader, HistoryError, StoredSummary
from backscroll.operators.messages import ChannelKey, Turn

__all__ = ["ReadOnlyStore"]


class ReadOnlyStore:
    """A `HistoryStore` that reads channels and writes nothing.

    Histories over it can still change: they are then ahead of the store for as long as they are hot,
    so give them no `ceiling` if you change them.

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
        """Refuse: only channels are read.

        Raises:
            HistoryError: always.
        """
        raise HistoryError(f"summary {summary_id} cannot be read: this history reads channels alone")

    def put_summaries(self, summaries: Sequence[StoredSummary]) -> None:
        """Write nothing."""

    def depending_on(self, _key: ChannelKey, _seqs: Sequence[int]) -> list[StoredSummary]:
        """None: only channels are read."""
        return []
