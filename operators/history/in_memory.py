"""A history store in memory, for runs without `--store`, measurements and tests.

It keeps all turns, chunks and vectors for the lifetime of the object.

>>> from backscroll.operators.messages import ChannelKey
>>> store = InMemoryStore()
>>> store.put_erased(ChannelKey("default", "general"), ["m7"])
>>> store.load(ChannelKey("default", "general")).erased_ids
frozenset({'m7'})
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.store import HistoryError, StoredChannel, StoredSummary
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.messages import ChannelKey, Turn
from backscroll.operators.stream.windows import Window

__all__ = ["InMemoryStore"]


class InMemoryStore:
    """A `HistoryStore` that lives as long as the object; only one thread may write at a time.

    Args:
        erase_answers: erases the paid answers that used a turn, if any are kept.
    """

    def __init__(self, erase_answers: Callable[[ChannelKey, int], None] | None = None) -> None:
        self.windows: defaultdict[ChannelKey, list[RecordedWindow]] = defaultdict(list)
        self.summaries: defaultdict[ChannelKey, dict[str, StoredSummary]] = defaultdict(dict)
        self.erased: defaultdict[ChannelKey, set[str]] = defaultdict(set)
        # For windows with an unfinished change: the turns that must be embedded again.
        self._changing: defaultdict[ChannelKey, dict[int, set[int]]] = defaultdict(dict)
        self._channel_of: dict[str, ChannelKey] = {}  # by summary id
        self._erase_answers = erase_answers

    def load(self, key: ChannelKey) -> StoredChannel:
        """Everything committed for a channel."""
        unfinished = frozenset(self._changing.get(key, ()))
        summaries = self.summaries.get(key, {}).values()
        return StoredChannel(
            [
                RecordedWindow(one.window, (), None, None) if one.window.ref.index in unfinished else one
                for one in self.windows.get(key, ())
            ],
            frozenset(one.summary_id for one in summaries if one.body),
            frozenset(one.summary_id for one in summaries if not one.body),
            frozenset(self.erased.get(key, ())),
            unfinished,
        )

    def append(self, recorded: Sequence[RecordedWindow]) -> None:
        """Commit windows, in order within each channel."""
        for one in recorded:
            self.windows[one.window.ref.key].append(one)

    def begin_change(self, key: ChannelKey, turns: Sequence[Turn], windows: Sequence[int]) -> None:
        """Replace recorded turns, and mark the windows that hold them as unfinished."""
        if not turns:
            return
        changed = {turn.seq: turn for turn in turns}
        for one in self.depending_on(key, list(changed)):
            self.summaries[key][one.summary_id] = replace(one, body=b"")
        if self._erase_answers is not None:
            for seq in changed:
                self._erase_answers(key, seq)
        for index in windows:
            old = self.windows[key][index]
            inside = {turn.seq for turn in old.window.turns if turn.seq in changed}
            self._changing[key].setdefault(index, set()).update(inside)
            now = tuple(changed.get(turn.seq, turn) for turn in old.window.turns)
            self.windows[key][index] = replace(old, window=Window(old.window.ref, now), chunks=())

    def finish_change(self, recorded: RecordedWindow) -> None:
        """Replace the chunks, vectors and revision of a window; this finishes its change."""
        ref = recorded.window.ref
        old = self.windows[ref.key][ref.index]
        changed = self._changing[ref.key].pop(ref.index, set())
        self.windows[ref.key][ref.index] = RecordedWindow(
            Window(ref, old.window.turns),
            recorded.chunks,
            recorded.chunk_vectors,
            _replaced(old.turn_vectors, recorded.turn_vectors, [seq - ref.first_seq for seq in changed]),
        )

    def put_erased(self, key: ChannelKey, ids: Sequence[str]) -> None:
        """Remember messages that were deleted before they arrived."""
        self.erased[key].update(ids)

    def summary(self, summary_id: str) -> bytes:
        """The finished summary, byte for byte as it was emitted.

        Raises:
            HistoryError: it does not exist, or was erased together with a message that it used.
        """
        key = self._channel_of.get(summary_id)
        body = b"" if key is None else self.summaries[key][summary_id].body
        if not body:
            why = "there is no such summary" if key is None else "it was erased with a message"
            raise HistoryError(f"summary {summary_id} cannot be read: {why}")
        return body

    def put_summaries(self, summaries: Sequence[StoredSummary]) -> None:
        """Keep finished summaries; if two have the same id, the last wins."""
        for one in summaries:
            self._channel_of[one.summary_id] = one.key
            self.summaries[one.key][one.summary_id] = one

    def depending_on(self, key: ChannelKey, seqs: Sequence[int]) -> list[StoredSummary]:
        """The summaries whose window or memory holds one of the turns, in window order."""
        found = [
            one
            for one in self.summaries.get(key, {}).values()
            if any(one.first_seq <= seq <= one.last_seq or seq in one.recalled for seq in seqs)
        ]
        return sorted(found, key=lambda one: (one.first_seq, one.summary_id))


def _replaced(old: Vectors | None, new: Vectors | None, rows: Sequence[int]) -> Vectors | None:
    """Vectors with some rows replaced; the others keep full precision, which a loaded history rounds."""
    if old is None or new is None:
        return new
    vectors = old.copy()
    vectors[rows] = new[rows]
    return vectors
