"""The interface of a store for histories: durable windows with their changes, and durable summaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from backscroll.operators.errors import BackscrollError
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.messages import ChannelKey, Turn

__all__ = [
    "ChannelLoader",
    "HistoryError",
    "HistoryStore",
    "StoredChannel",
    "StoredSummary",
    "SummaryStore",
    "WindowStore",
]


class HistoryError(BackscrollError):
    """A request does not fit the stored history."""


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A finished summary as the store keeps it: its bytes and the turns that it used.

    `recalled` are the turns of its memory. When one of its turns changes, `body` is emptied and the
    summary has to be written again; `reissued` is true once it has been.
    """

    key: ChannelKey
    summary_id: str
    first_seq: int
    last_seq: int
    recalled: tuple[int, ...]
    revision: int
    body: bytes
    reissued: bool = False


@dataclass(frozen=True, slots=True)
class StoredChannel:
    """Everything that a store holds for a channel.

    Args:
        windows: the committed windows, in order.
        summary_ids: ids of the finished summaries that have a body.
        stale_ids: ids of those whose body was erased because a turn changed.
        erased_ids: messages that were deleted before they arrived.
        unfinished: indexes of windows with an unfinished change; they have no chunks and vectors,
            which must be computed again.
    """

    windows: Sequence[RecordedWindow]
    summary_ids: frozenset[str] = frozenset()
    stale_ids: frozenset[str] = frozenset()
    erased_ids: frozenset[str] = frozenset()
    unfinished: frozenset[int] = frozenset()


class ChannelLoader(Protocol):
    """The part of a store that a reader needs."""

    def load(self, key: ChannelKey) -> StoredChannel:
        """Everything committed for a channel; rows beyond its last committed window are ignored."""
        ...


class WindowStore(ChannelLoader, Protocol):
    """Durable windows and their changes. A window is appended completely or not at all."""

    def append(self, recorded: Sequence[RecordedWindow]) -> None:
        """Commit windows of one or several channels, in order within each channel.

        After a crash, each window is stored completely or not at all, and never without the earlier
        ones of its channel.
        """
        ...

    def begin_change(self, key: ChannelKey, turns: Sequence[Turn], windows: Sequence[int]) -> None:
        """Replace recorded turns, and mark the windows (by index) that hold them as unfinished.

        Paid answers and summary bodies that used the turns are erased, and so are the turns' vectors
        of every embedder. Safe to repeat.
        """
        ...

    def finish_change(self, recorded: RecordedWindow) -> None:
        """Replace the chunks, vectors and revision of a window; this finishes its change.

        Turns stay as `begin_change` left them, and so do the vectors of turns it did not replace.
        """
        ...

    def put_erased(self, key: ChannelKey, ids: Sequence[str]) -> None:
        """Remember messages that were deleted before they arrived."""
        ...


class SummaryStore(Protocol):
    """Durable summaries, stored byte for byte as they were emitted."""

    def summary(self, summary_id: str) -> bytes:
        """The body of a finished summary.

        Raises:
            HistoryError: it does not exist, or was erased together with a message that it used.
        """
        ...

    def put_summaries(self, summaries: Sequence[StoredSummary]) -> None:
        """Store finished summaries before they are emitted; a reissued one replaces the older one."""
        ...

    def depending_on(self, key: ChannelKey, seqs: Sequence[int]) -> list[StoredSummary]:
        """The summaries whose window or memory holds one of the turns, in window order."""
        ...


class HistoryStore(WindowStore, SummaryStore, Protocol):
    """Windows and summaries in one store, so that changing a window also erases summaries that used it."""
