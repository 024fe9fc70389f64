from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.history.store import HistoryError, StoredSummary
from backscroll.operators.index.ranking import Ranking
from backscroll.operators.messages import ChannelKey
from backscroll.operators.stream.windows import Window, WindowRef
from support.building import (
    KEY,
    HashingEmbedder,
    cosines,
    history_of,
    recorded,
    turn,
    window,
    windows_of,
)

CHUNKER = Chunker(size=8, overlap=2)
EMBEDDER = HashingEmbedder()
texts = st.lists(st.sampled_from(["pump", "valve", "leak", "the", "漢字", "🧭"]), max_size=12).map(" ".join)
corpora = st.lists(st.lists(texts, min_size=1, max_size=3), max_size=5)


@given(corpus=corpora, query=texts, data=st.data())
@settings(database=None, deadline=None, max_examples=60)
def test_a_lookup_equals_one_in_a_fresh_history_of_the_earlier_windows(
    corpus: list[list[str]], query: str, data: st.DataObject
) -> None:
    windows = windows_of(corpus)
    whole = history_of(windows, embedder=EMBEDDER, chunker=CHUNKER)
    before_seq = data.draw(st.integers(0, whole.recorded_until + 1))
    seen = [closed for closed in windows if closed.ref.last_seq < before_seq]
    fresh = history_of(seen, embedder=EMBEDDER, chunker=CHUNKER)
    past, present = whole.as_of(before_seq), fresh.as_of(10**6)

    assert past.before_seq == present.before_seq == fresh.recorded_until
    assert past.chunks == present.chunks == sum(len(CHUNKER.chunk(closed.turns)) for closed in seen)
    np.testing.assert_array_equal(past.sparse(query), present.sparse(query))
    queries = EMBEDDER.embed_queries([query, "pump"])
    assert cosines(past, queries).shape == (2, past.chunks)
    np.testing.assert_allclose(cosines(past, queries), cosines(present, queries), rtol=0, atol=1e-6)
    for position in range(past.chunks):
        assert past.chunk_turns(position) == present.chunk_turns(position)
        assert past.chunk_tokens(position) == present.chunk_tokens(position)
    seqs = range(past.before_seq)
    assert [past.turn(seq) for seq in seqs] == [turn for closed in seen for turn in closed.turns]
    np.testing.assert_array_equal(past.turn_vectors(seqs), present.turn_vectors(seqs))


def test_a_view_refuses_turns_and_chunks_outside_it() -> None:
    past = history_of(windows_of([["pump", "valve"], ["leak", "berth"]]), chunker=CHUNKER).as_of(2)
    chunks = past.chunks
    assert (past.turn(1).text, past.chunk_turns(chunks - 1).stop) == ("valve", 2)
    for seq in (-1, 2, 3, 4):
        with pytest.raises(IndexError, match=f"^turn {seq} is not in view: the history ends before turn 2$"):
            past.turn(seq)
    for position in (-1, chunks):
        error = f"^chunk {position} is not in view: the history ends before chunk {chunks}$"
        with pytest.raises(IndexError, match=error):
            past.chunk_turns(position)
        with pytest.raises(IndexError, match=error):
            past.chunk_tokens(position)


def test_a_view_refuses_vectors_of_turns_outside_it() -> None:
    windows = windows_of([["pump", "valve"], ["leak", "berth"]])
    history = history_of(windows, embedder=HashingEmbedder())
    past = history.as_of(2)
    assert past.turn_vectors([]).shape == (0, HashingEmbedder().dimensions)
    assert past.turn_vectors([1, 0]).shape == past.all_turn_vectors.shape == (2, HashingEmbedder().dimensions)
    for seqs in ([-1, 0], [0, 2], range(4)):
        with pytest.raises(IndexError, match=r"is not in view: the history ends before turn 2$"):
            past.turn_vectors(seqs)
    assert past.window_vectors(windows[1].turns, HashingEmbedder()).shape[0] == 2, "the window's own turns"


def test_a_lookup_before_a_turn_inside_a_window_does_not_see_that_window() -> None:
    history = history_of(windows_of([["pump", "valve"], ["leak", "berth"]]))
    assert [history.as_of(seq).before_seq for seq in range(6)] == [0, 0, 2, 2, 4, 4]
    assert [history.as_of(seq).chunks for seq in range(6)] == [0, 0, 1, 1, 2, 2]


def test_an_earlier_lookup_does_not_change_while_the_history_grows() -> None:
    windows = windows_of([["pump leaks", "lunch"]] + [[f"pump {n}"] for n in range(30)])
    history = history_of(windows[:1], embedder=EMBEDDER)
    past, query = history.as_of(2), EMBEDDER.embed_queries(["pump"])
    sparse, dense = past.sparse("pump"), cosines(past, query)
    for closed in windows[1:]:
        history.append(recorded(closed, EMBEDDER, Chunker()))
    assert past.sparse("pump").tolist() == sparse.tolist()
    np.testing.assert_allclose(cosines(past, query), dense, rtol=0, atol=1e-6)
    assert past.chunks == 1


def test_chunks_name_their_turns_and_their_place_in_their_window() -> None:
    windows = windows_of([["the pump leaks"], ["ok", "the valve is fine"]])  # 6, 4 and 7 tokens
    past = history_of(windows, chunker=CHUNKER).as_of(3)
    assert [past.chunk_turns(position) for position in range(past.chunks)] == [
        range(0, 1),
        range(1, 3),
        range(2, 3),
    ]
    assert [past.chunk_tokens(position) for position in range(past.chunks)] == [
        (WindowRef(KEY, 0, 0, 0), 0, 6),
        (WindowRef(KEY, 1, 1, 2), 0, 8),
        (WindowRef(KEY, 1, 1, 2), 6, 11),
    ]


def test_a_turn_is_found_by_its_message_id_and_a_window_by_its_turn() -> None:
    windows = windows_of([["a", "b"], ["c"], ["d", "e"]])
    history = history_of(windows)
    assert history.find("m2") == turn(2, "c")
    assert history.find("m9") is None
    assert [history.window_of(seq).index for seq in range(5)] == [0, 0, 1, 2, 2]
    assert list(history.turns(1, 3)) == [turn(1, "b"), turn(2, "c"), turn(3, "d")]
    assert list(history.windows) == [closed.ref for closed in windows]
    assert history.recorded_until == 5


def test_an_empty_history_has_no_results() -> None:
    history = ChannelHistory(KEY, EMBEDDER.dimensions)
    past = history.as_of(7)
    assert (history.recorded_until, past.before_seq, past.chunks) == (0, 0, 0)
    assert past.sparse("pump").tolist() == []
    assert past.nearest(EMBEDDER.embed_queries(["pump"]), 30) == [Ranking()]
    assert past.turn_vectors([]).shape == (0, EMBEDDER.dimensions)


def test_dense_lookups_need_a_history_with_vectors() -> None:
    past = history_of(windows_of([["pump"]])).as_of(1)
    with pytest.raises(HistoryError, match=r": dense search needs a history with vectors$"):
        cosines(past, EMBEDDER.embed_queries(["pump"]))
    with pytest.raises(HistoryError, match=r": turn vectors need a history with an embedder$"):
        past.turn_vectors([0])


@pytest.mark.parametrize(
    "other",
    [
        window([turn(3, "x")], index=1),  # leaves out turn 2
        window([turn(1, "x")], index=1),  # is recorded already
        window([turn(2, "x")], index=2),  # leaves out a window
        window([turn(2, "x")], index=0),
    ],
)
def test_a_window_that_does_not_follow_the_last_one_is_refused(other: Window) -> None:
    history = history_of(windows_of([["a", "b"]]))
    with pytest.raises(HistoryError) as caught:
        history.append(recorded(other, None, Chunker()))
    assert str(caught.value) == (
        f"default/general: window {other.ref.index} starts at turn {other.ref.first_seq}, "
        "but the history holds 1 windows up to turn 1"
    )
    assert (history.recorded_until, history.as_of(9).chunks, len(history.windows)) == (2, 1, 1)


def test_a_window_without_vectors_is_refused_by_a_history_with_vectors() -> None:
    history = ChannelHistory(KEY, EMBEDDER.dimensions)
    closed = windows_of([["a"]])[0]
    with pytest.raises(HistoryError, match=r"^default/general: window 0 was recorded without vectors$"):
        history.append(recorded(closed, None, Chunker()))
    history.append(recorded(closed, EMBEDDER, Chunker()))
    assert (history.recorded_until, history.as_of(9).chunks) == (1, 1)
    assert list(history.turns(0, 9)) == [turn(0, "a")]


def test_a_window_is_recorded_once_with_its_chunks_and_vectors() -> None:
    store = InMemoryStore()
    histories = Histories(store, EMBEDDER, CHUNKER)
    first, second = windows_of([["the pump leaks again today", "ok"], ["lunch"]])
    assert histories.record(first) is True
    assert histories.record(first) is False
    assert histories.record(second) is True

    stored = store.load(KEY).windows
    assert [item.window for item in stored] == [first, second]
    assert stored[0].chunks == CHUNKER.chunk(first.turns)
    for item in stored:
        expected = recorded(item.window, EMBEDDER, CHUNKER)
        np.testing.assert_array_equal(item.chunk_vectors, expected.chunk_vectors)
        np.testing.assert_array_equal(item.turn_vectors, expected.turn_vectors)
    assert list(histories.window_turns(second.ref)) == [turn(2, "lunch")]


def test_without_an_embedder_windows_are_recorded_without_vectors() -> None:
    store = InMemoryStore()
    Histories(store, None, CHUNKER).record(windows_of([["pump"]])[0])
    assert [(item.chunk_vectors, item.turn_vectors) for item in store.load(KEY).windows] == [(None, None)]


def test_a_history_is_loaded_from_the_store_on_first_use() -> None:
    store = InMemoryStore()
    live = Histories(store, EMBEDDER, CHUNKER)
    for closed in windows_of([["the pump leaks"], ["lunch", "a new pump"]]):
        live.record(closed)
    assert live.keep([StoredSummary(KEY, "default/general:0-0:recent", 0, 0, (), 0, b"{}")]) == [b"{}"]

    loaded = Histories(store, EMBEDDER, CHUNKER)
    assert loaded[KEY] is loaded[KEY]
    assert loaded[KEY].recorded_until == 3
    assert loaded[KEY].summary_ids == {"default/general:0-0:recent"}
    assert store.summary("default/general:0-0:recent") == b"{}"
    for before_seq in range(4):
        past, replayed = live[KEY].as_of(before_seq), loaded[KEY].as_of(before_seq)
        assert past.sparse("pump").tolist() == replayed.sparse("pump").tolist()
        assert [past.chunk_turns(n) for n in range(past.chunks)] == [
            replayed.chunk_turns(n) for n in range(replayed.chunks)
        ]


def test_channels_do_not_see_each_other() -> None:
    histories = Histories(InMemoryStore(), EMBEDDER, CHUNKER)
    other = ChannelKey("acme", "general")
    histories.record(window([turn(0, "the pump leaks")]))
    histories.record(window([turn(0, "lunch")], key=other))
    assert histories[KEY].as_of(9).chunks == histories[other].as_of(9).chunks == 1
    assert histories[other].find("m0") == turn(0, "lunch")
    assert histories[other].as_of(9).sparse("pump").tolist() == [0.0]


def test_a_window_that_is_refused_does_not_reach_the_store() -> None:
    store = InMemoryStore()
    histories = Histories(store, EMBEDDER, CHUNKER)
    with pytest.raises(HistoryError):
        histories.record(window([turn(3, "x")], index=1))
    assert not store.load(KEY).windows
