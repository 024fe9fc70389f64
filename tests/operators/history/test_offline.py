"""A channel without a dataflow records the same as the dataflow for the same messages."""

from __future__ import annotations

import doctest
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from bytewax.testing import TestingSink, TestingSource, run_main

from backscroll.flows.summarize import summarize_flow
from backscroll.operators.engine import Engine, EngineConfig
from backscroll.operators.history import offline
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.history.offline import OfflineChannel, cut_turns
from backscroll.operators.history.read_only import ReadOnlyStore
from backscroll.operators.history.store import HistoryError, StoredChannel
from backscroll.operators.messages import NOBODY, ChannelKey, Message, MessageError, Received, parse_message
from backscroll.operators.stream.windows import Window, WindowCutter
from support.building import KEY, START, HashingEmbedder, message

SAMPLE = Path(__file__).resolve().parents[3] / "samples" / "harbor.jsonl"
EMBEDDER, CHUNKER, PAIRS = HashingEmbedder(), Chunker(16, 4), WindowCutter(turns=2)


def edit(id_: str, text: str, minute: int = 50) -> Message:
    return Message("edit", KEY, id_, message(id_, text, minute=minute).ts, NOBODY, text)


def delete(id_: str, minute: int = 51) -> Message:
    return Message("delete", KEY, id_, message(id_, "", minute=minute).ts, NOBODY, "")


def flush() -> Message:
    return Message("flush", KEY, "", START, NOBODY, "")


def posted(*numbers: int) -> list[Message]:
    return [message(f"m{number}", f"turn {number} at noon", minute=number) for number in numbers]


def channel_of(
    messages: Sequence[Message], histories: Histories, cutter: WindowCutter = PAIRS, *, record: bool = True
) -> OfflineChannel:
    channel = OfflineChannel(histories, messages[0].key, cutter, record=record)
    for one in messages:
        channel.add(one)
    return channel


def texts(windows: Sequence[Window]) -> list[list[str]]:
    return [[turn.text for turn in window.turns] for window in windows]


def assert_holds_the_same(ours: StoredChannel, theirs: StoredChannel) -> None:
    assert [(one.window, one.chunks) for one in ours.windows] == [
        (one.window, one.chunks) for one in theirs.windows
    ]
    assert ours.erased_ids == theirs.erased_ids


def dataflow_store(messages: Sequence[Received], cutter: WindowCutter) -> InMemoryStore:
    store = InMemoryStore()
    config = EngineConfig(cutter=cutter, strategy="none", max_gaps=0)
    engine = Engine(Histories(store, None, CHUNKER), config)
    run_main(  # type: ignore[no-untyped-call]
        summarize_flow(engine, TestingSource(messages, 10), TestingSink([]), TestingSink([]))
    )
    assert engine.runtime.failure is None
    return store


def test_the_windows_of_the_sample_equal_those_of_the_dataflow() -> None:
    lines = SAMPLE.read_bytes().splitlines()
    messages = [parse_message(line) for line in lines]
    (key,) = {one.key for one in messages}
    expected = dataflow_store([Received(line, ()) for line in lines], WindowCutter())
    store = InMemoryStore()
    channel = channel_of(messages, Histories(store, None, CHUNKER), WindowCutter())
    assert_holds_the_same(store.load(key), expected.load(key))
    *closed, still_open = channel.windows
    assert closed == [one.window for one in expected.load(key).windows]
    assert (len(closed), still_open.ref.final) == (12, False)
    assert [turn.id for turn in (*channel.history.turns(0, 478), *channel.beyond)] == [
        one.id for one in messages
    ]


def test_edits_deletions_and_flushes_have_the_same_result_as_in_the_dataflow() -> None:
    said = [
        '"id": "m0", "author": "Ana", "text": "turn 0"',
        '"id": "m1", "author": "Ben", "text": "turn 1"',
        '"op": "edit", "id": "m0", "text": "turn 0, edited"',
        '"id": "m2", "author": "Ana", "text": "turn 2"',
        '"op": "edit", "id": "m2", "text": "turn 2, edited"',
        '"op": "delete", "id": "m9"',
        '"op": "flush"',
        '"op": "delete", "id": "m1"',
        '"id": "m9", "author": "Ana", "text": "deleted before it came"',
        '"id": "m3", "author": "Ana", "text": "turn 3"',
    ]
    lines = [
        f'{{"channel": "general", "ts": "2026-03-02T09:{n:02}:00Z", {fields}}}'.encode()
        for n, fields in enumerate(said)
    ]
    expected = dataflow_store([Received(line, ()) for line in lines], PAIRS)
    store = InMemoryStore()
    channel = channel_of([parse_message(line) for line in lines], Histories(store, None, CHUNKER))
    assert_holds_the_same(store.load(KEY), expected.load(KEY))
    assert texts(list(channel.windows)) == [["turn 0, edited", ""], ["turn 2, edited"], ["turn 3"]]


def test_unrecorded_windows_are_cut_and_changed_in_the_same_way() -> None:
    embedded = Histories(InMemoryStore(), EMBEDDER, CHUNKER)
    messages = [*posted(0, 1, 2, 3, 4), edit("m1", "at one"), delete("m2"), edit("m4", "at two")]
    channel = channel_of(messages, embedded, record=False)
    recorded = channel_of(messages, Histories(InMemoryStore(), None, CHUNKER))
    assert [window.turns for window in channel.windows] == [window.turns for window in recorded.windows]
    assert channel.history.recorded_until == 0
    assert [turn.seq for turn in channel.beyond] == [0, 1, 2, 3, 4]
    assert [turn.text for turn in channel.beyond] == [
        "turn 0 at noon",
        "at one",
        "",
        "turn 3 at noon",
        "at two",
    ]


def test_over_a_read_only_store_changes_are_visible_and_nothing_is_written() -> None:
    store = InMemoryStore()
    channel_of(posted(*range(8)), Histories(store, EMBEDDER, CHUNKER))
    before = store.load(KEY)
    histories = Histories(ReadOnlyStore(store), EMBEDDER, CHUNKER)
    again = [*posted(*range(11)), edit("m0", "the valve"), delete("m9"), delete("m12")]
    channel = channel_of(again, histories, record=False)
    assert channel.history.turns(0, 0)[0].text == "the valve"
    assert (channel.history.revision, channel.history.is_erased("m12")) == (1, True)
    assert np.flatnonzero(channel.history.as_of(8).sparse("valve")).tolist() == [0]
    assert [(turn.id, turn.text) for turn in channel.beyond] == [
        ("m8", "turn 8 at noon"),
        ("m9", ""),
        ("m10", "turn 10 at noon"),
    ]
    after = store.load(KEY)
    assert [one.window for one in after.windows] == [one.window for one in before.windows]
    assert (after.unfinished, after.erased_ids) == (frozenset(), frozenset())
    with pytest.raises(HistoryError, match="a read-only history reads only channels"):
        histories.store.summary("a")


def test_a_channel_continues_after_its_recorded_windows() -> None:
    histories = Histories(InMemoryStore(), None, CHUNKER)
    channel_of(posted(0, 1, 2), histories)
    channel = channel_of(posted(0, 1, 2, 3, 4), histories)
    assert texts(list(channel.windows)) == [
        ["turn 0 at noon", "turn 1 at noon"],
        ["turn 2 at noon", "turn 3 at noon"],
        ["turn 4 at noon"],
    ]


def test_an_invalid_message_is_refused_and_the_channel_continues() -> None:
    channel = channel_of(posted(0), Histories(InMemoryStore(), None, CHUNKER))
    with pytest.raises(MessageError, match="id 'm0' was already used with different content"):
        channel.add(message("m0", "something else"))
    channel.add(flush())
    assert texts(list(channel.windows)) == [["turn 0 at noon"]]
    assert channel.beyond == ()


def test_turns_are_cut_after_a_history_without_being_recorded() -> None:
    histories = Histories(InMemoryStore(), None, CHUNKER)
    history = channel_of(posted(0, 1), histories).history
    beyond = channel_of(posted(0, 1, 2, 3, 4), histories, record=False).beyond
    cut = list(cut_turns(beyond, history, PAIRS))
    assert [(one.ref.index, one.ref.first_seq, one.ref.last_seq, one.ref.final) for one in cut] == [
        (1, 2, 3, True),
        (2, 4, 4, False),
    ]
    assert list(cut_turns((), history, PAIRS)) == []
    assert history.recorded_until == 2


def test_the_modules_example_prints_what_it_shows() -> None:
    found = doctest.testmod(offline)
    assert (found.failed, found.attempted > 0) == (0, True)


def test_channels_in_the_same_histories_are_separate() -> None:
    histories = Histories(InMemoryStore(), None, CHUNKER)
    ours = channel_of(posted(0, 1, 2), histories)
    other = ChannelKey("acme", "general")
    theirs = channel_of([message("m0", "lunch", key=other)], histories)
    assert (len(list(ours.windows)), texts(list(theirs.windows))) == (2, [["lunch"]])
