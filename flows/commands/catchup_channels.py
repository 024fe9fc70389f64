"""Reads the channels for a catch-up: from a store, from files, or from a store and newer files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from backscroll.connectors.files.formats import read_file
from backscroll.connectors.lancedb.store import LanceStore
from backscroll.flows.assembly.embedder import make_fingerprint
from backscroll.flows.settings.settings import Settings
from backscroll.flows.settings.time_zones import time_zone
from backscroll.operators.catchup.digest import ChannelRead
from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.history.offline import OfflineChannel
from backscroll.operators.history.read_only import ReadOnlyStore
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.messages import ChannelKey, Message, MessageError, parse_message
from backscroll.operators.stream.windows import WindowCutter, WindowRef
from backscroll.operators.summary.record import Summary, summary_id

__all__ = ["read_channels"]

Wanted = Callable[[ChannelKey], bool]


def read_channels(
    settings: Settings,
    files: Sequence[tuple[Path, str]],
    *,
    wanted: Wanted,
    embedder: Embedder | None,
    counters: Counter[str],
    beyond: Iterable[Message] = (),
) -> list[ChannelRead]:
    """Read the wanted channels from the store of the settings, if there is one, and from files.

    Files take precedence over the store: their edits and deletions are applied to its messages. Nothing is
    written to the store.

    Args:
        settings: the engine's settings; their store is only read.
        files: chat files and their formats.
        wanted: whether to read a channel.
        embedder: the embedder of the store.
        counters: counts messages, dead letters and entries that the readers skipped.
        beyond: further messages, edits and deletions, applied after those of the files.

    Raises:
        FormatError: a file cannot be read.
        StoreError: the store cannot be read.
    """
    reading = _Store(settings, embedder) if settings.store is not None else _NoStore(settings)
    channels = {key: reading.channel(key) for key in reading.stored() if wanted(key)}
    for message in chain(_messages(settings, files, counters), beyond):
        if wanted(message.key):
            if message.key not in channels:
                channels[message.key] = reading.channel(message.key)
            try:
                channels[message.key].add(message)
            except MessageError:
                counters["dead_letters"] += 1
    return [reading.read(channels[key]) for key in sorted(channels)]


def _messages(
    settings: Settings, files: Sequence[tuple[Path, str]], counters: Counter[str]
) -> Iterator[Message]:
    """The valid messages of files; invalid ones are counted as dead letters."""
    tz = None if settings.tz is None else time_zone(settings.tz)
    for path, format_ in files:
        for received in read_file(path, format_, tz=tz, counters=counters):
            counters["messages"] += 1
            try:
                if isinstance(received.value, MessageError):
                    raise received.value
                message = parse_message(received.value, namespace=settings.namespace)
            except MessageError:
                counters["dead_letters"] += 1
                continue
            yield message


def _chunker(settings: Settings) -> Chunker:
    return Chunker(settings.chunk_tokens, settings.chunk_overlap)


class _NoStore:
    """Channels that are only in files: cut into windows as in a replay, and searchable by words."""

    def __init__(self, settings: Settings) -> None:
        self._histories = Histories(InMemoryStore(), None, _chunker(settings))
        self._cutter = WindowCutter(settings.window_tokens, settings.window_turns)

    def stored(self) -> list[ChannelKey]:
        """No channels: without a store, they all come from the files."""
        return []

    def channel(self, key: ChannelKey) -> OfflineChannel:
        """A channel to add messages to."""
        return OfflineChannel(self._histories, key, self._cutter)

    def read(self, channel: OfflineChannel) -> ChannelRead:
        """The channel as a catch-up reads it."""
        return ChannelRead(channel.key, channel.history, channel.beyond)


class _Store:
    """Channels of a store, with turns from files added or replacing the stored ones."""

    def __init__(self, settings: Settings, embedder: Embedder | None) -> None:
        assert settings.store is not None
        dimensions = None if embedder is None else embedder.dimensions
        # Needs no closing: a store that is only read holds no resources.
        self._store = LanceStore(
            settings.store, make_fingerprint(settings, embedder), dimensions, reader=True
        )
        self._histories = Histories(ReadOnlyStore(self._store), embedder, _chunker(settings))
        self._strategy = settings.strategy
        self._revisions = dict[ChannelKey, int]()  # as in the store

    def stored(self) -> list[ChannelKey]:
        """The channels that have windows in the store."""
        with self._store.usable():
            rows = self._store.tables["windows"].read("", ["namespace", "channel"]).to_pylist()
        return sorted({ChannelKey(row["namespace"], row["channel"]) for row in rows})

    def channel(self, key: ChannelKey) -> OfflineChannel:
        """A channel to add messages to; new turns are not embedded."""
        self._revisions[key] = self._histories[key].revision
        return OfflineChannel(self._histories, key, record=False)

    def read(self, channel: OfflineChannel) -> ChannelRead:
        """The channel as a catch-up reads it, with its summaries unless a file has changed its turns."""
        history = channel.history
        if history.revision > self._revisions[channel.key]:  # any summary may depend on a changed message
            return ChannelRead(channel.key, history, channel.beyond)
        return ChannelRead(channel.key, history, channel.beyond, self._summaries(history))

    def _summaries(self, history: ChannelHistory) -> Callable[[WindowRef], Summary | None]:
        """A lookup for finished summaries that prefers those of the settings' strategy."""
        by_window = dict[str, str]()
        for id_ in sorted(history.summary_ids, key=lambda id_: (not id_.endswith(f":{self._strategy}"), id_)):
            by_window.setdefault(id_.rpartition(":")[0], id_)

        def record(ref: WindowRef) -> Summary | None:
            id_ = by_window.get(summary_id(ref, "").rpartition(":")[0])
            return None if id_ is None else Summary.from_json(self._store.summary(id_))

        return record
