from __future__ import annotations

import threading

import pytest

from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.history.read_only import ReadOnlyStore
from backscroll.operators.history.store import StoredChannel, StoredSummary
from backscroll.operators.messages import ChannelKey
from support.building import HashingEmbedder, turn, window

EMBEDDER, CHUNKER = HashingEmbedder(), Chunker()
KEYS = [ChannelKey("acme", f"channel-{number}") for number in range(6)]


@pytest.fixture
def store() -> InMemoryStore:
    """Six channels of one window each, of similar size."""
    kept = InMemoryStore()
    histories = Histories(kept, EMBEDDER, CHUNKER)
    for number, key in enumerate(KEYS):
        histories.record(window([turn(0, f"pump {number} leaks"), turn(1, "lunch at noon")], key=key))
    return kept


def room_for(store: InMemoryStore, channels: int) -> int:
    """A ceiling that fits this many channels and half of another one."""
    alone = Histories(store, EMBEDDER, CHUNKER)
    sizes = []
    for key in KEYS:
        before = alone.nbytes
        assert alone[key].recorded_until == 2
        sizes.append(alone.nbytes - before)
    return int((channels + 0.5) * max(sizes))


def test_the_least_recently_used_history_is_dropped_and_reloads_unchanged(store: InMemoryStore) -> None:
    histories = Histories(store, EMBEDDER, CHUNKER, ceiling=room_for(store, 2))
    scores = [histories[key].as_of(9).sparse("pump 3").tolist() for key in KEYS]
    assert histories.hot == {KEYS[4], KEYS[5]}
    assert histories.nbytes <= room_for(store, 2)
    assert histories.loads == 6
    assert histories[KEYS[4]] is histories[KEYS[4]]
    assert histories.loads == 6
    assert [histories[key].as_of(9).sparse("pump 3").tolist() for key in KEYS] == scores
    assert histories.loads == 12


def test_a_window_recorded_in_a_dropped_channel_is_there_when_it_is_loaded_again(
    store: InMemoryStore,
) -> None:
    histories = Histories(store, EMBEDDER, CHUNKER, ceiling=room_for(store, 1))
    assert histories.record(window([turn(2, "the valve is fine")], 1, key=KEYS[0]))
    summary = StoredSummary(KEYS[0], "a", 2, 2, (), 0, b"{}")
    assert histories.keep([summary]) == [b"{}"]
    assert histories[KEYS[1]].recorded_until == 2
    assert KEYS[0] not in histories.hot
    assert histories[KEYS[0]].find("m2") == turn(2, "the valve is fine")
    assert histories.kept(KEYS[0], "a") == b"{}"


class _SlowStore(InMemoryStore):
    """Waits in the middle of an append, as a commit of several tables would."""

    def __init__(self, inner: InMemoryStore) -> None:
        super().__init__()
        self.windows = inner.windows
        self.within, self.go_on = threading.Event(), threading.Event()
        self.loaded: list[ChannelKey] = []

    def append(self, recorded: list[RecordedWindow]) -> None:  # type: ignore[override]
        self.within.set()
        assert self.go_on.wait(10)
        super().append(recorded)

    def load(self, key: ChannelKey) -> StoredChannel:
        self.loaded.append(key)
        return super().load(key)


def test_a_channel_that_is_being_written_is_not_dropped(store: InMemoryStore) -> None:
    """Otherwise it would be loaded from the store in the middle of a commit."""
    slow = _SlowStore(store)
    histories = Histories(slow, EMBEDDER, CHUNKER, ceiling=room_for(store, 1))
    writing = threading.Thread(
        target=histories.record, args=[window([turn(2, "the valve is fine")], 1, key=KEYS[0])]
    )
    writing.start()
    assert slow.within.wait(10)
    for key in KEYS[1:]:
        assert histories[key].recorded_until == 2
    assert KEYS[0] in histories.hot
    slow.go_on.set()
    writing.join(10)
    assert slow.loaded.count(KEYS[0]) == 1
    assert histories[KEYS[0]].recorded_until == 3


def test_a_dropped_history_is_reloaded_in_the_stores_current_state(store: InMemoryStore) -> None:
    histories = Histories(ReadOnlyStore(store), EMBEDDER, CHUNKER)
    assert histories[KEYS[0]].recorded_until == 2
    Histories(store, EMBEDDER, CHUNKER).record(window([turn(2, "the valve is fine")], 1, key=KEYS[0]))
    assert histories[KEYS[0]].recorded_until == 2
    histories.drop(KEYS[0])
    histories.drop(KEYS[5])  # not in memory
    assert (histories.hot, histories.nbytes) == (set(), 0)
    assert histories[KEYS[0]].recorded_until == 3
    assert histories.loads == 2


def test_only_the_writer_finishes_an_unfinished_change_on_loading(store: InMemoryStore) -> None:
    """A reader finds nothing in the window until the writer has finished the change."""
    gone = turn(0, "the valve is fine")
    store.begin_change(KEYS[0], [gone], [0])
    reader = Histories(ReadOnlyStore(store), EMBEDDER, CHUNKER, finish=False)[KEYS[0]]
    assert (reader.recorded_until, reader.as_of(2).chunks) == (2, 0)
    assert store.load(KEYS[0]).unfinished == {0}
    assert Histories(ReadOnlyStore(store), EMBEDDER, CHUNKER)[KEYS[0]].as_of(2).chunks == 1
    assert store.load(KEYS[0]).unfinished == {0}
    assert Histories(store, EMBEDDER, CHUNKER)[KEYS[0]].as_of(2).chunks == 1
    assert store.load(KEYS[0]).unfinished == frozenset()
