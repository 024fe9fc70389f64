"""What a history needs of a store: durable windows, changes and summaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from backscroll.operators.errors import BackscrollError
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.messages import ChannelKey, Turn

__all__ = ["HistoryError", "HistoryStore", "StoredChannel", "StoredSummary"]


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


class HistoryStore(Protocol):
    """Durable windows and summaries. A window is appended as a whole, its `windows` row last."""

    def load(self, key: ChannelKey) -> StoredChannel:
        """What is committed of a channel; whatever lies beyond its last window is dropped."""
        ...

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
        """Replace the chunks, vectors and revision of a window, which ends its change."""
        ...

    def depending_on(self, key: ChannelKey, seqs: Sequence[int]) -> list[StoredSummary]:
        """The summaries whose window or memory holds one of the turns."""
        ...

    def put_erased(self, key: ChannelKey, ids: Sequence[str]) -> None:
        """Remember messages that were deleted before they came."""
        ...

    def summary(self, summary_id: str) -> bytes:
        """The finished summary, byte for byte as it was emitted."""
        ...

    def put_summaries(self, summaries: Sequence[StoredSummary]) -> None:
        """Keep finished summaries before they are emitted; reissued ones in place of older ones."""
        ...
