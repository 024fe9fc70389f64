"""The contract of every history store, tested on the in-memory store and on LanceDB."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backscroll.connectors.lancedb.store import Fingerprint, LanceStore
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.history.store import HistoryError, HistoryStore, StoredChannel, StoredSummary
from backscroll.operators.messages import NOBODY, ChannelKey, Turn
from backscroll.operators.stream.windows import Window, WindowRef
from support.building import KEY, START, HashingEmbedder, recorded, turn

OTHER = ChannelKey("acme's", 'ops "night"')
EMBEDDER, CHUNKER = HashingEmbedder(), Chunker(16, 4)
FINGERPRINT = Fingerprint("cl100k_base", 1024, 16, 4, "words", EMBEDDER.fingerprint)
SIZE = 3  # turns of a window

Described: TypeAlias = list[tuple[WindowRef, tuple[Turn, ...], object, object, object]]


@pytest.fixture(params=["in memory", "LanceDB"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HistoryStore]:
    if request.param == "in memory":
        yield InMemoryStore()
        return
    with closing(LanceStore(tmp_path, FINGERPRINT, EMBEDDER.dimensions)) as opened:
        yield opened


def window(index: int, key: ChannelKey = KEY) -> Window:
    turns = tuple(turn(SIZE * index + place, f"turn {place} of {index} at noon") for place in range(SIZE))
    return Window(WindowRef(key, index, turns[0].seq, turns[-1].seq), turns)


def whole(one: Window) -> RecordedWindow:
    return recorded(one, EMBEDDER, CHUNKER)


def edited(before: Turn, text: str) -> Turn:
    return dataclasses.replace(before, text=text, edited=START + timedelta(days=1))


def deleted(before: Turn) -> Turn:
    at = START + timedelta(days=1)
    return Turn(before.seq, before.id, before.ts, NOBODY, "", 0, 0, edited=at, deleted=True)


def changed(one: Window, turns: Sequence[Turn], revision: int) -> Window:
    by_seq = {turn.seq: turn for turn in turns}
    ref = dataclasses.replace(one.ref, revision=revision)
    return Window(ref, tuple(by_seq.get(turn.seq, turn) for turn in one.turns))


def summary(id_: str, first: int, recalled: tuple[int, ...] = (), *, key: ChannelKey = KEY) -> StoredSummary:
    return StoredSummary(key, id_, first, first + SIZE - 1, recalled, 0, f'{{"id": "{id_}"}}'.encode())


def described(stored: StoredChannel) -> tuple[Described, StoredChannel]:
    """A stored channel in a form that can be compared, with arrays as lists."""
    windows: Described = [
        (
            one.window.ref,
            one.window.turns,
            tuple(one.chunks),
            None if one.chunk_vectors is None else np.asarray(one.chunk_vectors).tolist(),
            None if one.turn_vectors is None else np.asarray(one.turn_vectors).tolist(),
        )
        for one in stored.windows
    ]
    return windows, dataclasses.replace(stored, windows=())


def test_an_unknown_channel_is_empty(store: HistoryStore) -> None:
    assert described(store.load(KEY)) == ([], StoredChannel(()))


def test_windows_load_in_order_with_chunks_and_vectors(store: HistoryStore) -> None:
    windows = [whole(window(index)) for index in range(3)]
    store.append(windows[:1])
    store.append([windows[1], whole(window(0, OTHER)), windows[2]])
    assert described(store.load(KEY)) == described(StoredChannel(windows))
    assert described(store.load(OTHER)) == described(StoredChannel([whole(window(0, OTHER))]))


def test_during_a_change_a_window_has_its_new_turns_and_nothing_else(
    store: HistoryStore,
) -> None:
    store.append([whole(window(index)) for index in range(3)])
    now = edited(window(1).turns[1], "the valve is fine")
    store.begin_change(KEY, [now], [1])
    store.begin_change(KEY, [now], [1])
    loaded = store.load(KEY)
    assert loaded.unfinished == {1}
    after = changed(window(1), [now], 0)
    expected = [whole(window(0)), RecordedWindow(after, (), None, None), whole(window(2))]
    assert described(loaded)[0] == described(StoredChannel(expected))[0]
    after = changed(window(1), [now], 1)
    store.finish_change(whole(after))
    assert described(store.load(KEY)) == described(
        StoredChannel([whole(window(0)), whole(after), whole(window(2))])
    )


def test_the_vectors_of_unchanged_turns_are_kept_exactly(store: HistoryStore) -> None:
    """A history in memory rounds its vectors; passing them on must not lose more precision each time."""
    before = whole(window(0))
    store.append([before])
    now = edited(window(0).turns[1], "the valve is fine")
    store.begin_change(KEY, [now], [0])
    after = whole(changed(window(0), [now], 1))
    assert after.turn_vectors is not None
    store.finish_change(dataclasses.replace(after, turn_vectors=after.turn_vectors.astype(np.float16)))
    (loaded,) = store.load(KEY).windows
    assert loaded.turn_vectors is not None
    assert before.turn_vectors is not None
    np.testing.assert_array_equal(loaded.turn_vectors[[0, 2]], before.turn_vectors[[0, 2]])
    np.testing.assert_array_equal(loaded.turn_vectors[1], after.turn_vectors[1].astype(np.float16))


def test_a_change_of_two_windows_is_finished_window_by_window(store: HistoryStore) -> None:
    store.append([whole(window(index)) for index in range(2)])
    turns = [deleted(window(0).turns[2]), deleted(window(1).turns[0])]
    store.begin_change(KEY, turns, [0, 1])
    assert store.load(KEY).unfinished == {0, 1}
    store.finish_change(whole(changed(window(1), turns, 2)))
    assert store.load(KEY).unfinished == {0}
    store.finish_change(whole(changed(window(0), turns, 2)))
    assert described(store.load(KEY)) == described(
        StoredChannel([whole(changed(window(index), turns, 2)) for index in range(2)])
    )


def test_a_window_of_deleted_turns_has_no_chunk(store: HistoryStore) -> None:
    store.append([whole(window(0))])
    turns = [deleted(turn) for turn in window(0).turns]
    store.begin_change(KEY, turns, [0])
    after = changed(window(0), turns, 1)
    vectors = EMBEDDER.embed_passages(["", "", ""])
    store.finish_change(RecordedWindow(after, (), vectors[:0], vectors))
    (loaded,) = store.load(KEY).windows
    assert (loaded.window, tuple(loaded.chunks)) == (after, ())
    assert loaded.chunk_vectors is not None
    assert loaded.chunk_vectors.shape == (0, EMBEDDER.dimensions)


def test_a_change_erases_only_the_summaries_that_used_its_turns(store: HistoryStore) -> None:
    store.append([whole(window(index)) for index in range(3)])
    kept = [summary("a", 0), summary("b", 3), summary("c", 6, (4,)), summary("d", 3, key=OTHER)]
    store.put_summaries(kept)
    assert store.depending_on(KEY, [4]) == kept[1:3]
    store.begin_change(KEY, [deleted(window(1).turns[1])], [1])
    loaded = store.load(KEY)
    assert (loaded.summary_ids, loaded.stale_ids) == ({"a"}, {"b", "c"})
    assert store.load(OTHER).summary_ids == {"d"}
    assert store.summary("a") == kept[0].body
    assert [one.body for one in store.depending_on(KEY, [4])] == [b"", b""]
    with pytest.raises(HistoryError, match="summary b cannot be read: it was erased with a message"):
        store.summary("b")
    again = dataclasses.replace(kept[1], body=b"2", revision=1, reissued=True)
    store.put_summaries([again])
    assert store.depending_on(KEY, [3]) == [again]
    assert (store.load(KEY).summary_ids, store.load(KEY).stale_ids) == ({"a", "b"}, {"c"})


def test_summaries_are_in_window_order_and_the_last_with_an_id_wins(store: HistoryStore) -> None:
    last = dataclasses.replace(summary("c", 0), body=b"2")
    store.put_summaries([summary("b", 6, (1,)), summary("c", 0), summary("a", 0), last])
    store.put_summaries([])
    found = store.depending_on(KEY, [1])
    assert found == [summary("a", 0), last, summary("b", 6, (1,))]
    assert store.depending_on(KEY, []) == store.depending_on(KEY, [5]) == []
    with pytest.raises(HistoryError, match="summary nope cannot be read: there is no such summary"):
        store.summary("nope")


def test_messages_deleted_before_they_arrive_are_remembered(store: HistoryStore) -> None:
    store.put_erased(KEY, ["it's", "m2", "m2"])
    store.put_erased(KEY, ["m3"])
    store.put_erased(OTHER, [])
    assert store.load(KEY).erased_ids == {"it's", "m2", "m3"}
    assert store.load(OTHER).erased_ids == frozenset()


class Model:
    """The state of a random run; every store gets the same steps."""

    def __init__(self) -> None:
        self.windows: dict[ChannelKey, list[Window]] = {KEY: [], OTHER: []}
        self.begun: dict[ChannelKey, set[int]] = {KEY: set(), OTHER: set()}
        self.revision = 0


keys = st.sampled_from([KEY, OTHER])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), keys, st.integers(1, 3)),
        st.tuples(st.just("begin"), keys, st.lists(st.integers(0, 11), min_size=1, max_size=4, unique=True)),
        st.tuples(st.just("finish"), keys, st.just(0)),
        st.tuples(st.just("erase"), keys, st.integers(0, 5)),
        st.tuples(st.just("summarise"), keys, st.lists(st.integers(0, 11), max_size=2, unique=True)),
    ),
    max_size=14,
)


def apply(stores: Sequence[HistoryStore], model: Model, step: tuple[str, ChannelKey, object]) -> None:
    """Apply one step of a random run, of the kind that `Histories` makes, to every store."""
    name, key, what = step
    windows, begun = model.windows[key], model.begun[key]
    if name == "append":
        assert isinstance(what, int)
        new = [window(len(windows) + place, key) for place in range(what)]
        windows += new
        for store in stores:
            store.append([whole(one) for one in new])
    elif name == "begin":
        assert isinstance(what, list)
        model.revision += 1
        seqs = [seq for seq in what if seq < SIZE * len(windows)]
        turns = [
            (deleted if seq % 2 else lambda old: edited(old, f"edit {model.revision}"))(
                windows[seq // SIZE].turns[seq % SIZE]
            )
            for seq in seqs
        ]
        touched = sorted({seq // SIZE for seq in seqs})
        for index in touched:
            windows[index] = changed(windows[index], turns, windows[index].ref.revision)
        begun |= set(touched)
        for store in stores:
            store.begin_change(key, turns, touched)
    elif name == "finish":
        for index in sorted(begun)[:1]:
            windows[index] = changed(windows[index], [], model.revision)
            begun.discard(index)
            for store in stores:
                store.finish_change(
                    whole(windows[index])
                    if any(not turn.deleted for turn in windows[index].turns)
                    else RecordedWindow(
                        windows[index],
                        (),
                        EMBEDDER.embed_passages([]),
                        EMBEDDER.embed_passages([turn.rendered for turn in windows[index].turns]),
                    )
                )
    elif name == "erase":
        for store in stores:
            store.put_erased(key, [f"m{what}"])
    elif windows:
        assert isinstance(what, list)
        last = windows[-1].ref.index
        made = summary(f"{key.channel}-{last}", SIZE * last, tuple(what), key=key)
        known = made.summary_id in (*(loaded := stores[0].load(key)).summary_ids, *loaded.stale_ids)
        for store in stores:
            store.put_summaries([dataclasses.replace(made, reissued=known)])


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_both_stores_hold_the_same_after_the_same_steps(run: list[tuple[str, ChannelKey, object]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with closing(LanceStore(path, FINGERPRINT, EMBEDDER.dimensions)) as lance:
            in_memory, model = InMemoryStore(), Model()
            for step in run:
                apply([in_memory, lance], model, step)
            for key in (KEY, OTHER):
                ours, theirs = in_memory.load(key), lance.load(key)
                assert described(ours) == described(theirs)
                assert [one.window for one in ours.windows] == model.windows[key]
                assert ours.unfinished == model.begun[key]
                every = range(SIZE * len(model.windows[key]))
                assert in_memory.depending_on(key, every) == lance.depending_on(key, every)


def test_a_change_erases_the_paid_answers_that_used_its_turns() -> None:
    erased = list[tuple[ChannelKey, int]]()
    store = InMemoryStore(lambda key, seq: erased.append((key, seq)))
    store.append([whole(window(0))])
    store.begin_change(KEY, [deleted(window(0).turns[1])], [0])
    assert erased == [(KEY, 1)]
