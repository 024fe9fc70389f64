"""The channels that a catch-up reads: of a store, of files, or of a store with what files have beyond it."""

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
from backscroll.operators.history.channel import ChannelHistory, RecordedWindow
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.messages import ChannelKey, Message, MessageError, Turn, parse_message
from backscroll.operators.stream.admission import Admission, AdmissionState
from backscroll.operators.stream.changes import Change
from backscroll.operators.stream.windows import Cutting, Window, WindowCutter, WindowRef
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
    """The wanted channels of the store that the settings name, if they do, and of files.

    What a file says of messages that the store has is what counts: edits and deletions are seen, and
    nothing is written to the store.

    Args:
        settings: the engine's settings; its store is only read.
        files: chat files and their formats.
        wanted: whether a channel is read.
        embedder: of the store.
        counters: counts messages, dead_letters and what the readers skipped.
        beyond: further messages, edits and deletions, after those of the files.

    Raises:
        FormatError: a file cannot be read.
        StoreError: the store cannot be read.
    """
    store = None  # nothing to close: who only reads a store holds nothing of it
    if settings.store is not None:
        dimensions = None if embedder is None else embedder.dimensions
        store = LanceStore(settings.store, make_fingerprint(settings, embedder), dimensions, reader=True)
    loading = _Loading(settings, store, embedder)
    following = {key: _Following(loading.load(key)) for key in loading.stored() if wanted(key)}
    for message in chain(_messages(settings, files, counters), beyond):
        if wanted(message.key):
            if message.key not in following:
                following[message.key] = _Following(loading.load(message.key))
            following[message.key].follow(message, counters)
    return [loading.channel(following[key]) for key in sorted(following)]


def _messages(
    settings: Settings, files: Sequence[tuple[Path, str]], counters: Counter[str]
) -> Iterator[Message]:
    """The valid messages of files; the others are counted as dead letters."""
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


class _Following:
    """A channel while files are read: its history, the turns beyond it, and what has changed in it."""

    def __init__(self, history: ChannelHistory) -> None:
        self.history = history
        self.turns: dict[int, Turn] = {}
        self.changed = False
        self._admission = Admission(AdmissionState.over(history))
        self._seqs: dict[str, int] = {}

    def follow(self, message: Message, counters: Counter[str]) -> None:
        """Admit a message, or change one that was."""
        try:
            events = self._admission.admit(message, self.history)
        except MessageError:
            counters["dead_letters"] += 1
            return
        for event in events:
            if isinstance(event, Turn) and event.seq >= self.history.recorded_until:
                self.turns[event.seq] = event
                self._seqs[event.id] = event.seq
            elif isinstance(event, Change):
                self._change(event)

    def _change(self, change: Change) -> None:
        recorded = self.history.find(change.id)
        seq = self._seqs.get(change.id) if recorded is None else recorded.seq
        turn = recorded if seq is None else self.turns.get(seq, recorded)
        after = None if turn is None else change.apply(turn)
        if after is not None:
            self.turns[after.seq] = after
            self.changed = self.changed or recorded is not None


class _Loading:
    """Channels from a store, or new ones where there is none."""

    def __init__(self, settings: Settings, store: LanceStore | None, embedder: Embedder | None) -> None:
        self._store = store
        self._embedder = embedder
        self._strategy = settings.strategy
        self._chunker = Chunker(settings.chunk_tokens, settings.chunk_overlap)
        self._cutter = WindowCutter(settings.window_tokens, settings.window_turns)

    def stored(self) -> list[ChannelKey]:
        """The channels that the store has windows of."""
        if self._store is None:
            return []
        with self._store.usable():
            rows = self._store.tables["windows"].read("", ["namespace", "channel"]).to_pylist()
        return sorted({ChannelKey(row["namespace"], row["channel"]) for row in rows})

    def load(self, key: ChannelKey) -> ChannelHistory:
        """The closed windows of a channel; a change that was interrupted is ended in memory."""
        history = self._empty(key)
        if self._store is None:
            return history
        stored = self._store.load(key)
        for recorded in stored.windows:
            unfinished = recorded.window.ref.index in stored.unfinished
            history.append(self._prepared(recorded.window) if unfinished else recorded)
        history.summary_ids = set(stored.summary_ids)
        history.erased_ids = set(stored.erased_ids)
        return history

    def channel(self, following: _Following) -> ChannelRead:
        """A channel with the turns of files that it does not hold, or holds as they were before."""
        history, turns = following.history, following.turns
        if self._store is None:
            return self._cut(history.key, [turns[seq] for seq in sorted(turns)])
        beyond = tuple(turns[seq] for seq in sorted(turns) if seq >= history.recorded_until)
        if not following.changed:
            return ChannelRead(history.key, history, beyond, self._records(history))
        again = self._empty(history.key)
        for ref in history.windows:
            held = history.turns(ref.first_seq, ref.last_seq)
            window = Window(ref, tuple(turns.get(turn.seq, turn) for turn in held))
            again.append(self._prepared(window))
        return ChannelRead(history.key, again, beyond)  # without summaries: any may rest on what changed

    def _empty(self, key: ChannelKey) -> ChannelHistory:
        return ChannelHistory(key, None if self._embedder is None else self._embedder.dimensions)

    def _prepared(self, window: Window) -> RecordedWindow:
        if self._store is not None:
            return Histories(self._store, self._embedder, self._chunker).prepare(window)
        return RecordedWindow(window, self._chunker.chunk(window.turns), None, None)

    def _cut(self, key: ChannelKey, turns: Sequence[Turn]) -> ChannelRead:
        """A channel of files alone: its windows as they would have been cut, found by words."""
        history = ChannelHistory(key, None)
        state = Cutting(self._cutter, key)
        for turn in turns:
            state, closed = state.push(turn, history)
            for window in closed:
                history.append(self._prepared(window))
        return ChannelRead(key, history, state.open)

    def _records(self, history: ChannelHistory) -> Callable[[WindowRef], Summary | None]:
        """How finished summaries are looked up, those of the settings' strategy first."""
        by_window = dict[str, str]()
        for id_ in sorted(history.summary_ids, key=lambda id_: (not id_.endswith(f":{self._strategy}"), id_)):
            by_window.setdefault(id_.rpartition(":")[0], id_)

        def record(ref: WindowRef) -> Summary | None:
            id_ = by_window.get(summary_id(ref, "").rpartition(":")[0])
            if id_ is None or self._store is None:
                return None
            return Summary.from_json(self._store.summary(id_))

        return record
