"""Reads a store for the page and the API: cards of a channel, messages in context, search."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo

from backscroll.connectors.lancedb.reader import ChannelEntry, StoredWindow, StoreReader
from backscroll.operators.catchup.digest import ChannelRead
from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.read_only import ReadOnlyStore
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.memory.request import Memory, MemoryRequest, MemoryStrategy, Needs
from backscroll.operators.memory.search import Hit, search
from backscroll.operators.messages import ChannelKey, Turn, channels_called
from backscroll.operators.stream.windows import WindowRef
from backscroll.operators.summary.citations import Passage, passages
from backscroll.operators.summary.record import Summary

__all__ = ["Card", "Library"]


@dataclass(frozen=True, slots=True)
class Card:
    """A window with its summary, if it has one, and the messages that each passage of the summary cites.

    `times` holds the times of the messages that the summary may cite, by `seq`.
    """

    namespace: str
    channel: str
    window: StoredWindow
    summary: Summary | None
    passages: tuple[Passage, ...]
    times: Mapping[int, datetime]

    @property
    def key(self) -> ChannelKey:
        """The channel."""
        return ChannelKey(self.namespace, self.channel)


class _Alone:
    """A strategy that holds a lock while it builds a memory, because an index is for one thread."""

    def __init__(self, strategy: MemoryStrategy, using: threading.Lock) -> None:
        self.name: str = strategy.name
        self.needs: Needs = strategy.needs
        self._strategy = strategy
        self._using = using

    async def build(self, request: MemoryRequest) -> Memory:
        with self._using:
            return await self._strategy.build(request)


class Library:
    """Reads a store for people.

    Args:
        store: the store.
        embedder: the embedder of its vectors; None to search by words only.
        strategy: the strategy whose summary is shown if a window has several.
        zone: the time zone of days and of the times in summaries.
        ceiling: most bytes of indexes in memory; None for no limit.
    """

    def __init__(
        self,
        store: StoreReader,
        embedder: Embedder | None,
        strategy: str,
        *,
        zone: tzinfo = UTC,
        ceiling: int | None = None,
    ) -> None:
        self.store = store
        self._embedder = embedder
        self._strategy = strategy
        self._zone = zone
        self._histories = Histories(
            ReadOnlyStore(store), embedder, Chunker(), ceiling=ceiling, search=store.search, finish=False
        )
        self._states: dict[ChannelKey, object] = {}  # of the store, when a history in memory was read
        self._lock = threading.Lock()
        self._using = threading.Lock()  # an index is for one thread

    def channel(self, key: ChannelKey) -> ChannelEntry | None:
        """A channel, named with or without its `#`; None if it does not exist."""
        entries = {entry.key: entry for entry in self.store.channels(frozenset({key.namespace}))}
        called = channels_called(entries, str(key))
        return entries[called[0]] if called else None

    def cards(
        self,
        key: ChannelKey,
        *,
        before: int | None = None,
        on: date | None = None,
        zone: tzinfo = UTC,
        limit: int = 20,
    ) -> list[Card]:
        """Cards of a channel, the newest first.

        Args:
            key: the channel.
            before: only windows that start before this turn.
            on: only windows that start on this day or earlier.
            zone: the time zone of that day.
            limit: maximum number of cards.
        """
        windows = [
            window
            for window in self.store.windows(key)
            if (before is None or window.first_seq < before)
            and (on is None or window.start.astimezone(zone).date() <= on)
        ]
        return self._made(key, windows[-limit:])[::-1]

    def cards_at(self, key: ChannelKey, first_seqs: Sequence[int]) -> list[Card]:
        """The cards of the windows that start at these turns, in order."""
        windows = [window for window in self.store.windows(key) if window.first_seq in first_seqs]
        return [card for window in windows for card in self._made(key, [window])]

    def card_of(self, key: ChannelKey, seq: int) -> Card | None:
        """The card of the window that holds a turn."""
        windows = [one for one in self.store.windows(key) if one.first_seq <= seq <= one.last_seq]
        return self._made(key, windows)[0] if windows else None

    def context(self, key: ChannelKey, seq: int, around: int) -> list[Turn]:
        """A turn with `around` turns before and after it."""
        return self.store.turns(key, seq - around, seq + around)

    def read(self, key: ChannelKey) -> ChannelRead:
        """A channel as a catch-up reads it: all windows, with finished summaries looked up."""
        windows = {window.first_seq: window for window in self.store.windows(key)}

        def record(ref: WindowRef) -> Summary | None:
            window = windows.get(ref.first_seq)
            found = {} if window is None else self.store.summaries(key, [window], self._strategy)
            return found.get(ref.first_seq)

        return ChannelRead(key, self._history(key), record=record)

    def latest(self, entry: ChannelEntry) -> list[Turn]:
        """The turns of the window with the channel's newest message."""
        window = max(self.store.windows(entry.key), key=lambda window: window.end)
        return self.store.turns(entry.key, window.first_seq, window.last_seq)

    def alone(self, strategy: MemoryStrategy) -> MemoryStrategy:
        """A strategy that is the only one to use the indexes while it builds a memory."""
        return _Alone(strategy, self._using)

    def search(self, key: ChannelKey, query: str, limit: int) -> list[Hit]:
        """Search all windows of a channel."""
        history = self._history(key)
        with self._using:
            return search(history.as_of(history.recorded_until), query, self._embedder, limit=limit)

    def _made(self, key: ChannelKey, windows: Sequence[StoredWindow]) -> list[Card]:
        if not windows:
            return []
        summaries = self.store.summaries(key, windows, self._strategy)
        turns = self.store.turns(key, windows[0].first_seq, windows[-1].last_seq) if summaries else []
        by_seq = {turn.seq: turn for turn in turns}
        cards = []
        for window in windows:
            summary = summaries.get(window.first_seq)
            seqs = range(window.first_seq, window.last_seq + 1)
            said = [by_seq[seq] for seq in seqs if seq in by_seq]
            rests = () if summary is None else passages(summary, said, self._zone)
            times = {turn.seq: turn.ts for turn in said}
            if summary is not None:
                times |= {entry.seq: entry.ts for entry in summary.memory}
            cards.append(Card(key.namespace, key.channel, window, summary, rests, times))
        return cards

    def _history(self, key: ChannelKey) -> ChannelHistory:
        """The index of a channel; it is read again when the store has changed."""
        # While a window is being changed, searches must not find what the change removes.
        state = self.store.windows(key), self.store.changing(key)
        with self._lock:
            if self._states.get(key) != state:
                self._histories.drop(key)
            history = self._histories[key]
            self._states[key] = state
            for dropped in self._states.keys() - self._histories.hot:
                del self._states[dropped]
            return history
