from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.messages import NOBODY, Message, Turn
from backscroll.operators.runtime.state import Stamped
from backscroll.operators.state_types import CODEC
from backscroll.operators.stream.admission import Admission, AdmissionState
from backscroll.operators.stream.changes import Change, Changes
from backscroll.operators.stream.windows import Cutting, Window, WindowCutter
from support.building import (
    KEY,
    START,
    HashingEmbedder,
    cosines,
    history_of,
    message,
    turn,
    window,
)

EMBEDDER = HashingEmbedder()
CHUNKER = Chunker(12, 4)
CUTTER = WindowCutter(tokens=40, turns=4)


def at(minute: int) -> timedelta:
    return timedelta(minutes=minute)


def edit(id_: str, text: str, minute: int) -> Message:
    return replace(message(id_, text, minute=minute), op="edit")


def delete(id_: str, minute: int) -> Message:
    return replace(message(id_, "", minute=minute), op="delete", author=NOBODY)


def test_an_edit_changes_only_the_text_and_its_token_count() -> None:
    before = turn(3, "at noon", reply_to="m1", permalink="x://y")
    after = Change("m3", START + at(9), "at one in the morning").apply(before)
    assert after == replace(before, text="at one in the morning", tokens=8, edited=START + at(9))
    assert after.rendered == "Ana: at one in the morning\n"


def test_a_deletion_keeps_only_the_position_id_and_time() -> None:
    after = Change("m3", START + at(9), None).apply(turn(3, "at noon", thread="t", permalink="x://y"))
    assert after == Turn(3, "m3", START + at(3), NOBODY, "", 0, 0, edited=START + at(9), deleted=True)
    assert after.rendered == ""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Change("m3", START + at(9), "new"), Change("m3", START + at(8), "older")),
        (Change("m3", START + at(9), "new"), Change("m3", START + at(10), "new")),
        (Change("m3", START + at(9), None), Change("m3", START + at(10), "after its end")),
        (Change("m3", START + at(9), None), Change("m3", START + at(10), None)),
    ],
)
def test_older_edits_equal_text_and_edits_after_a_deletion_change_nothing(
    first: Change, second: Change
) -> None:
    once = first.apply(turn(3, "old"))
    assert once is not None
    assert second.apply(once) is None


class Channel:
    """One channel's path from messages to its history, without a dataflow."""

    def __init__(
        self, store: InMemoryStore, admission: AdmissionState | None = None, cutting: Cutting | None = None
    ) -> None:
        self.histories = Histories(store, EMBEDDER, CHUNKER)
        self.history = self.histories[KEY]
        self.admission = Admission(admission or AdmissionState.over(self.history))
        self.cutting = cutting or Cutting.begin(CUTTER, KEY, self.history, None)
        self.handed_on = list[tuple[int, int]]()

    def receive(self, received: Message) -> None:
        for event in self.admission.admit(received, self.history):
            items: list[Window | Changes] = []
            if isinstance(event, Change):
                self.cutting, closed, is_open = self.cutting.change(event, self.history)
                items = [*closed] if is_open else [*closed, Changes(KEY, (event,))]
            elif event is None:
                self.cutting, closed = self.cutting.flush(self.history)
                items = [*closed]
            else:
                self.cutting, closed = self.cutting.push(event, self.history)
                items = [*closed]
            for item in items:
                if isinstance(item, Changes):
                    self.histories.commit([item])
                else:
                    if item.turns:
                        ((ref,),) = self.histories.commit(self.histories.indexer.index([item]))
                        assert ref == self.history.windows[item.ref.index]
                    self.handed_on.append((item.ref.first_seq, item.ref.last_seq))

    def snapshot(self) -> Stamped:
        return CODEC.encode((self.admission.snapshot(self.history), self.cutting))

    @property
    def turns(self) -> list[Turn]:
        return [*self.history.turns(0, self.history.recorded_until), *self.cutting.open]


def fresh(history: ChannelHistory) -> ChannelHistory:
    """A fresh index of the live texts of a history, with the same boundaries."""
    windows = [window(history.turns(ref.first_seq, ref.last_seq), ref.index) for ref in history.windows]
    return history_of(windows, embedder=EMBEDDER, chunker=CHUNKER)


def assert_equal_to_a_fresh_index(history: ChannelHistory, texts: Iterable[str]) -> None:
    expected = fresh(history)
    for text in texts:
        vector = EMBEDDER.embed_queries([text])
        for before_seq in range(history.recorded_until + 1):
            ours, theirs = history.as_of(before_seq), expected.as_of(before_seq)
            np.testing.assert_allclose(ours.sparse(text), theirs.sparse(text), atol=1e-9, rtol=0)
            np.testing.assert_array_equal(cosines(ours, vector), cosines(theirs, vector))
            assert [ours.chunk_turns(n) for n in range(ours.chunks)] == [
                theirs.chunk_turns(n) for n in range(theirs.chunks)
            ]
    seqs = list(range(history.recorded_until))
    if seqs:
        now, then = history.as_of(len(seqs)), expected.as_of(len(seqs))
        np.testing.assert_array_equal(now.turn_vectors(seqs), then.turn_vectors(seqs))


def live_texts(stream: Sequence[Message]) -> dict[str, str]:
    """The final text of each message that was posted and not deleted, computed in the simplest way."""
    texts, edits, deleted = dict[str, str](), dict[str, str](), set[str]()
    for received in stream:
        if received.op == "delete":
            deleted.add(received.id)
        elif received.op == "edit":
            edits[received.id] = received.text  # times rise along the stream: the last one wins
        elif received.op == "post":
            texts.setdefault(received.id, received.text)
    return {id_: edits.get(id_, text) for id_, text in texts.items() if id_ not in deleted}


words = st.lists(st.sampled_from(["pump", "valve", "noon", "it", "Ana's"]), max_size=34).map(" ".join)
ids = st.sampled_from([f"m{n}" for n in range(12)])


@st.composite
def streams(draw: st.DrawFn) -> list[Message]:
    """Posts, edits, deletions and flushes in any order; each id is posted with only one text."""
    posted = dict[str, str]()
    stream = list[Message]()
    for minute in range(draw(st.integers(1, 40))):
        op, id_ = draw(st.sampled_from(["post"] * 4 + ["edit", "delete", "flush"])), draw(ids)
        if op == "post":
            stream.append(message(id_, posted.setdefault(id_, draw(words)), minute=0))
        elif op == "edit":
            stream.append(edit(id_, draw(words), minute))
        elif op == "delete":
            stream.append(delete(id_, minute))
        else:
            stream.append(replace(message("", "", minute=minute), op="flush", author=NOBODY))
    return stream


@given(stream=streams())
@settings(database=None, deadline=None, max_examples=150)
def test_after_any_posts_edits_and_deletions_the_history_equals_a_fresh_index(
    stream: list[Message],
) -> None:
    store = InMemoryStore()
    channel = Channel(store)
    for received in stream:
        channel.receive(received)
    assert {turn.id: turn.text for turn in channel.turns if not turn.deleted} == live_texts(stream)
    assert [turn.seq for turn in channel.turns] == list(range(len(channel.turns)))
    assert_equal_to_a_fresh_index(channel.history, ["pump noon", "it valve it"])
    loaded = Histories(store, EMBEDDER, CHUNKER)[KEY]
    assert (loaded.revision, loaded.windows) == (channel.history.revision, channel.history.windows)
    assert_equal_to_a_fresh_index(loaded, ["pump"])


@given(stream=streams(), snapshot=st.integers(0, 40), crash=st.integers(0, 40))
@settings(database=None, deadline=None, max_examples=150)
def test_a_crash_between_any_two_messages_does_not_change_the_result(
    stream: list[Message], snapshot: int, crash: int
) -> None:
    undisturbed = Channel(InMemoryStore())
    for received in stream:
        undisturbed.receive(received)
    store = InMemoryStore()
    channel = Channel(store)
    taken, place = CODEC.encode((None, None)), 0
    before = list[tuple[int, int]]()
    for number, received in enumerate(stream[: max(crash, snapshot)]):
        if number == snapshot:
            taken, place, before = channel.snapshot(), number, list(channel.handed_on)
        channel.receive(received)
    channel = Channel(store, *CODEC.decode(taken))
    for received in stream[place:]:
        channel.receive(received)
    assert channel.history.windows == undisturbed.history.windows
    ranges = {(ref.first_seq, ref.last_seq) for ref in channel.history.windows}
    assert {*before, *channel.handed_on} == ranges, "each window is handed on for its summary"
    assert channel.turns == undisturbed.turns
    assert_equal_to_a_fresh_index(channel.history, ["pump noon"])


@given(stream=streams())
@settings(database=None, deadline=None, max_examples=60)
def test_reading_a_stream_again_changes_nothing(stream: list[Message]) -> None:
    store = InMemoryStore()
    channel = Channel(store)
    for received in (*stream, replace(message("", "", minute=90), op="flush", author=NOBODY)):
        channel.receive(received)
    before = pickle.dumps((channel.turns, list(channel.history.windows), channel.history.revision))
    again = Channel(store)
    for received in stream:
        again.receive(received)
    assert pickle.dumps((again.turns, list(again.history.windows), again.history.revision)) == before


def test_an_interrupted_change_is_completed_when_the_channel_is_loaded() -> None:
    store = InMemoryStore()
    channel = Channel(store)
    for number, text in enumerate(["the pump leaks", "lunch at noon", "a new valve", "fine", "it"]):
        channel.receive(message(f"m{number}", text, minute=number))
    (deleted,) = [Change("m1", START + at(9), None).apply(channel.history.turns(1, 1)[0])]
    assert deleted is not None
    store.begin_change(KEY, [deleted], [0])  # and the process is gone
    channel = Channel(store, *CODEC.decode(channel.snapshot()))
    assert channel.history.windows[0].revision == 1
    assert channel.history.find("m1") == deleted
    assert_equal_to_a_fresh_index(channel.history, ["noon", "pump"])
    assert store.load(KEY).unfinished == frozenset()
    channel.receive(delete("m1", 9))  # the source reads it again
    assert channel.history.revision == 1


def test_deleted_text_is_gone_from_history_and_state() -> None:
    store = InMemoryStore()
    channel = Channel(store)
    for number, text in enumerate(["xyzzy1", "b", "c", "d", "xyzzy2", "f"]):
        channel.receive(message(f"m{number}", text, minute=number))
    for id_ in ("m0", "m4"):
        channel.receive(delete(id_, 30))
    everything = pickle.dumps((channel.history, store.windows)) + zlib.decompress(channel.snapshot()[1])
    assert b"xyzzy" not in everything
    assert b"m0" in everything


def test_an_edit_that_outgrows_the_open_window_closes_it() -> None:
    channel = Channel(InMemoryStore())
    for number in range(3):
        channel.receive(message(f"m{number}", "pump " * 8, minute=number))
    assert [turn.seq for turn in channel.cutting.open] == [0, 1, 2]
    channel.receive(edit("m1", "valve " * 30, 9))
    assert [(ref.first_seq, ref.last_seq) for ref in channel.history.windows] == [(0, 0), (1, 1)]
    assert [turn.seq for turn in channel.cutting.open] == [2]
    assert_equal_to_a_fresh_index(channel.history, ["valve pump"])


def test_a_window_whose_turns_are_all_deleted_has_no_chunks() -> None:
    history = history_of([window([turn(0, "pump"), turn(1, "valve")])], embedder=EMBEDDER, chunker=CHUNKER)
    ref = replace(history.windows[0], revision=2)
    gone = [Change(f"m{seq}", START, None).apply(history.turns(seq, seq)[0]) for seq in range(2)]
    emptied = Window(ref, tuple(turn for turn in gone if turn is not None))
    assert emptied.live.turns == ()
    vectors = EMBEDDER.embed_passages(["", ""])
    history.replace(RecordedWindow(emptied, CHUNKER.chunk(emptied.turns), vectors[:0], vectors))
    assert (history.as_of(2).chunks, history.revision) == (0, 2)
    assert history.changed_since(1, [1])
    assert not history.changed_since(2, [0, 1])
