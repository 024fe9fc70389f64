"""What a history needs of a store: durable windows with their changes, and durable summaries."""

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
    """The stored history contradicts what is asked of it."""


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A finished summary as the store keeps it: its bytes and the turns that it rests on.

    `recalled` are the turns of the memory. `body` is empty once a turn that it rests on was changed:
    what was sent is then no longer kept, and the summary has to be made again. `reissued` says that
    it was.
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
    """What a store holds of a channel.

    Args:
        windows: the committed windows, in order.
        summary_ids: ids of the finished summaries that have a body.
        stale_ids: ids of those whose body was erased with a turn.
        erased_ids: messages that were deleted before they came.
        unfinished: indexes of windows whose change was begun and not finished; these come without
            chunks and vectors, which have to be made again.
    """

    windows: Sequence[RecordedWindow]
    summary_ids: frozenset[str] = frozenset()
    stale_ids: frozenset[str] = frozenset()
    erased_ids: frozenset[str] = frozenset()
    unfinished: frozenset[int] = frozenset()


class ChannelLoader(Protocol):
    """A store as somebody reads it who never writes it."""

    def load(self, key: ChannelKey) -> StoredChannel:
        """What is committed of a channel; whatever lies beyond its last window is left out."""
        ...


class WindowStore(ChannelLoader, Protocol):
    """Durable windows and their changes. A window is appended as a whole or not at all."""

    def append(self, recorded: Sequence[RecordedWindow]) -> None:
        """Commit windows, of one channel or of several, those of a channel in their order.

        After a crash each is there as a whole or not at all, and none without those before it.
        """
        ...

    def begin_change(self, key: ChannelKey, turns: Sequence[Turn], windows: Sequence[int]) -> None:
        """Replace recorded turns, and mark the windows (by index) that hold them as unfinished.

        Paid answers, and the bodies of summaries, that rest on the turns are erased, and so are
        the vectors that any embedder made of them. Doing it again changes nothing.
        """
        ...

    def finish_change(self, recorded: RecordedWindow) -> None:
        """Replace the chunks, vectors and revision of a window, which ends its change.

        The turns stay as `begin_change` left them, and so do the vectors of those it did not replace.
        """
        ...

    def put_erased(self, key: ChannelKey, ids: Sequence[str]) -> None:
        """Remember messages that were deleted before they came."""
        ...


class SummaryStore(Protocol):
    """Durable summaries, each byte for byte as it was emitted."""

    def summary(self, summary_id: str) -> bytes:
        """The body of a finished summary.

        Raises:
            HistoryError: there is none, or it was erased with a message that it rested on.
        """
        ...

    def put_summaries(self, summaries: Sequence[StoredSummary]) -> None:
        """Keep finished summaries before they are emitted; reissued ones in place of older ones."""
        ...

    def depending_on(self, key: ChannelKey, seqs: Sequence[int]) -> list[StoredSummary]:
        """The summaries whose window or memory holds one of the turns, in the order of windows."""
        ...


class HistoryStore(WindowStore, SummaryStore, Protocol):
    """Both in one, so that a change of windows reaches the summaries that rest on them."""
