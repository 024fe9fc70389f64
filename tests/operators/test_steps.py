from __future__ import annotations

import asyncio
import pickle
import sqlite3
import zlib
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import TestingSink, TestingSource, run_main

from backscroll.flows.summarize import summarize_flow
from backscroll.flows.terminal.errors import user_error_line
from backscroll.operators.engine import Engine, EngineConfig
from backscroll.operators.gaps.gap import Gap, GapDetector
from backscroll.operators.gaps.stage import RuleGaps
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.memory.registry import names
from backscroll.operators.messages import ChannelKey, DeadLetter, MessageError, Received
from backscroll.operators.runtime.runtime import Runtime
from backscroll.operators.runtime.state import StateError
from backscroll.operators.state_types import CODEC
from backscroll.operators.steps import _detect
from backscroll.operators.stream.changes import Change, Changes
from backscroll.operators.stream.windows import Window, WindowCutter
from backscroll.operators.summary.extractive import ExtractiveSummarizer
from backscroll.operators.summary.record import Emission, Summary
from backscroll.operators.summary.stage import ExtractiveWriting, SummaryStage, Written
from support.building import KEY, HashingEmbedder


class Pronouns:
    """Reports a gap in every turn with the word `it`."""

    name = "pronouns"

    def detect(self, window: Window, *, max_gaps: int) -> tuple[Gap, ...]:
        found = [turn for turn in window.turns if "it" in turn.text.split()]
        return tuple(Gap(turn.id, "it", "pronoun", turn.text) for turn in found[:max_gaps])


class Broken:
    """Fails from the second window on."""

    name = "broken"

    def detect(self, window: Window, *, max_gaps: int) -> tuple[Gap, ...]:
        if window.ref.index:
            raise RuntimeError("the detector is gone")
        return Pronouns().detect(window, max_gaps=max_gaps)


def bodies_of(store: InMemoryStore) -> dict[str, bytes]:
    """Finished summaries by id, those of every channel."""
    kept = [one for of_channel in store.summaries.values() for one in of_channel.values()]
    return {one.summary_id: one.body for one in kept if one.body}


def engine_over(
    store: InMemoryStore,
    *,
    strategy: str = "remember",
    detector: GapDetector | None = None,
    summaries: SummaryStage | None = None,
    runtime: Runtime | None = None,
    **changes: Any,
) -> Engine:
    """An engine as a new process would build it: only the store remains of earlier runs."""
    histories = Histories(store, HashingEmbedder(), Chunker())
    config = EngineConfig(**{"cutter": WindowCutter(turns=2), "strategy": strategy, **changes})
    return Engine(
        histories, config, gaps=RuleGaps(detector or Pronouns()), summaries=summaries, runtime=runtime
    )


def post(number: int, text: str, channel: str = "general", **fields: Any) -> Received:
    value = {
        "channel": channel,
        "id": f"m{number}",
        "ts": f"2026-03-02T09:{number:02}:00Z",
        "author": "Ana",
        "text": text,
        **fields,
    }
    return received(orjson.dumps(value), number)


def flush(channel: str = "general") -> Received:
    return received(orjson.dumps({"op": "flush", "channel": channel, "ts": "2026-03-02T10:00:00Z"}), 99)


def received(raw: bytes, line: int = 1) -> Received:
    return Received(raw, (("file", "a.jsonl"), ("line", line)), raw)


def run(
    engine: Engine, items: Iterable[object], recovery: RecoveryConfig | None = None
) -> tuple[list[bytes], list[DeadLetter]]:
    """The summary bodies in the order they were emitted, and the dead letters."""
    emissions, rejects = run_for_emissions(engine, items, recovery)
    return [emission.body for emission in emissions if emission.body is not None], rejects


def run_for_emissions(
    engine: Engine, items: Iterable[object], recovery: RecoveryConfig | None = None
) -> tuple[list[Emission], list[DeadLetter]]:
    """The emissions in order, and the dead letters."""
    out, rejects = list[tuple[str, Emission]](), list[DeadLetter]()
    source: TestingSource[Any] = TestingSource(items)
    flow = summarize_flow(engine, source, TestingSink(out), TestingSink(rejects))
    run_main(flow, epoch_interval=timedelta(0), recovery_config=recovery)
    for key, emission in out:
        assert key == str(emission.key)
        if emission.body is not None:
            summary = Summary.from_json(emission.body)
            assert (summary.summary_id, summary.revision) == (emission.summary_id, emission.revision)
    return [emission for _, emission in out], rejects


def ids(bodies: Iterable[bytes]) -> list[str]:
    return [Summary.from_json(body).summary_id for body in bodies]


CHAT = [
    post(0, "we ordered a pump"),
    post(1, "lunch at noon"),
    post(2, "is it here"),
    post(3, "not yet"),
    post(4, "it is late"),
]


def test_windows_embedded_together_get_the_same_summaries_as_windows_embedded_alone() -> None:
    chat = [
        *(post(number, f"it is pump {number % 7}", "ab"[number % 2]) for number in range(24)),
        edit(2, "it was a valve", channel="a"),
    ]
    made = list[dict[str, Summary]]()
    for most in (1, 8):
        bodies, rejects = run(engine_over(InMemoryStore(), embedding_windows=most), chat)
        assert not rejects
        latest = {summary.summary_id: summary for summary in map(Summary.from_json, bodies)}
        made.append({id_: replace(summary, timings_ms={}) for id_, summary in latest.items()})
    assert len(made[0]) == 12
    assert made[0]["default/a:0-1:remember"].revision == 1
    assert made[0] == made[1]


def test_every_window_gets_a_summary_with_its_id_and_the_last_is_provisional() -> None:
    store = InMemoryStore()
    engine = engine_over(store)
    bodies, rejects = run(engine, CHAT)
    assert ids(bodies) == [
        "default/general:0-1:remember",
        "default/general:2-3:remember",
        "default/general:4-4:remember",
    ]
    summaries = [Summary.from_json(body) for body in bodies]
    assert [summary.final for summary in summaries] == [True, True, False]
    assert [summary.window.turns for summary in summaries] == [["m0", "m1"], ["m2", "m3"], ["m4"]]
    assert [summary.window.index for summary in summaries] == [0, 1, 2]
    assert summaries[0].models == {"gaps": "pronouns", "summary": "extractive", "embedding": "hashing"}
    assert rejects == []
    assert +engine.runtime.counters == {
        "messages": 5,
        "gaps": 2,
        "turns": 5,
        "windows": 2,
        "recorded": 2,
        "provisional": 1,
        "summaries": 3,
    }
    assert engine.runtime.pending.total == 0
    assert engine.runtime.failure is None


def test_closed_windows_and_their_summaries_are_stored_and_provisional_ones_are_not() -> None:
    store = InMemoryStore()
    bodies, _ = run(engine_over(store), CHAT)
    assert [(w.window.ref.first_seq, w.window.ref.last_seq) for w in store.load(KEY).windows] == [
        (0, 1),
        (2, 3),
    ]
    assert [turn.id for w in store.load(KEY).windows for turn in w.window.turns] == ["m0", "m1", "m2", "m3"]
    assert bodies_of(store) == dict(zip(ids(bodies[:2]), bodies[:2], strict=True))


def test_a_memory_comes_from_before_its_window() -> None:
    bodies, _ = run(engine_over(InMemoryStore()), CHAT)
    memories = [[entry.id for entry in Summary.from_json(body).memory] for body in bodies]
    assert memories == [[], ["m0", "m1"], ["m0", "m1", "m2", "m3"]]
    second = Summary.from_json(bodies[1])
    assert second.tokens["memory"] == sum(entry.tokens for entry in second.memory)


def test_a_duplicate_is_counted_and_makes_no_turn() -> None:
    engine = engine_over(InMemoryStore())
    bodies, rejects = run(engine, [CHAT[0], CHAT[0], CHAT[1], CHAT[0], CHAT[2]])
    assert ids(bodies) == ["default/general:0-1:remember", "default/general:2-2:remember"]
    assert (engine.runtime.counters["duplicates"], engine.runtime.counters["turns"], rejects) == (2, 3, [])


def test_an_invalid_message_becomes_a_dead_letter_and_valid_ones_are_unaffected() -> None:
    engine = engine_over(InMemoryStore())
    unreadable = Received(MessageError("not UTF-8"), (("file", "a.jsonl"), ("line", 7)), b"\xff")
    contradiction = post(0, "we ordered nothing")
    bodies, rejects = run(engine, [CHAT[0], received(b"oops"), unreadable, contradiction, CHAT[1]])
    assert ids(bodies) == ["default/general:0-1:remember"]
    letters = [(letter.reason.partition(":")[0], letter.raw, letter.origin[1][1]) for letter in rejects]
    assert sorted(letters) == [
        ("id 'm0' was already used with different content", contradiction.raw, 0),
        ("not JSON", b"oops", 1),
        ("not UTF-8", b"\xff", 7),
    ]
    assert (engine.runtime.counters["dead_letters"], engine.runtime.counters["messages"]) == (3, 5)


def test_a_flush_closes_the_open_window_and_an_empty_one_does_nothing() -> None:
    store = InMemoryStore()
    bodies, _ = run(engine_over(store), [flush(), CHAT[0], flush(), flush(), CHAT[1]])
    summaries = [Summary.from_json(body) for body in bodies]
    assert [(s.window.turns, s.final) for s in summaries] == [(["m0"], True), (["m1"], False)]


def test_channels_have_separate_numbers_and_memories() -> None:
    store = InMemoryStore()
    items = [
        post(0, "we ordered a pump", "a"),
        post(1, "is it here", "b"),
        post(2, "lunch", "a"),
        post(3, "it is late", "b"),
    ]
    bodies, _ = run(engine_over(store), items)
    assert sorted(ids(bodies)) == ["default/a:0-1:remember", "default/b:0-1:remember"]
    assert [Summary.from_json(body).memory for body in bodies] == [[], []]
    assert {key: len(windows) for key, windows in store.windows.items()} == {
        ChannelKey("default", "a"): 1,
        ChannelKey("default", "b"): 1,
    }


def test_a_second_run_over_the_same_store_emits_the_same_bytes() -> None:
    store = InMemoryStore()
    chat = CHAT[:4]
    first, _ = run(engine_over(store), chat)
    engine = engine_over(store, cutter=WindowCutter(turns=3))  # recorded boundaries are facts
    second, _ = run(engine, chat)
    assert second == first
    assert len(first) == 2
    assert [engine.runtime.counters[name] for name in ("reissued", "summaries", "recorded")] == [2, 0, 0]
    assert len(store.load(KEY).windows) == 2


def test_a_run_continues_where_the_last_one_stopped() -> None:
    store = InMemoryStore()
    first, _ = run(engine_over(store), CHAT[:3])
    second, _ = run(engine_over(store), CHAT)
    assert ids(first) == ["default/general:0-1:remember", "default/general:2-2:remember"]
    assert ids(second) == [
        "default/general:0-1:remember",
        "default/general:2-3:remember",
        "default/general:4-4:remember",
    ]
    assert second[0] == first[0]


def test_another_strategy_over_the_same_store_summarises_the_same_windows() -> None:
    store = InMemoryStore()
    run(engine_over(store), CHAT[:4])
    engine = engine_over(store, strategy="recent")
    bodies, _ = run(engine, CHAT[:4])
    assert ids(bodies) == ["default/general:0-1:recent", "default/general:2-3:recent"]
    assert (engine.runtime.counters["recorded"], engine.runtime.counters["summaries"]) == (0, 2)
    assert len(bodies_of(store)) == 4


@pytest.mark.parametrize("strategy", ["none", "recent", "sparse", "dense", "hybrid", "remember"])
def test_memories_of_every_strategy_are_verbatim_and_within_the_budget(strategy: str) -> None:
    items = [post(n, f"pump {n} leaks again and it is late") for n in range(40)]
    bodies, _ = run(engine_over(InMemoryStore(), strategy=strategy, budget=160), items)
    assert len(bodies) == 20
    texts = {f"m{n}": f"pump {n} leaks again and it is late" for n in range(40)}
    for body in bodies:
        summary = Summary.from_json(body)
        assert summary.tokens["memory"] == sum(entry.tokens for entry in summary.memory) <= 160
        for entry in summary.memory:
            assert entry.seq < summary.window.first_seq
            assert entry.text == texts[entry.id][slice(*entry.span) if entry.span else slice(None)]


def test_a_failing_step_stops_the_flow_in_an_orderly_way_and_keeps_finished_results() -> None:
    store = InMemoryStore()
    engine = engine_over(store, detector=Broken(), runtime=Runtime(raises=False))
    bodies, _ = run(engine, CHAT)
    assert str(engine.runtime.failure) == "the detector is gone"
    assert engine.runtime.stopping.is_set()
    assert set(ids(bodies)) <= {"default/general:0-1:remember"}
    again, _ = run(engine_over(store), CHAT)
    assert ids(again) == [
        "default/general:0-1:remember",
        "default/general:2-3:remember",
        "default/general:4-4:remember",
    ]
    assert bodies == again[: len(bodies)]


@pytest.fixture
def recovery(tmp_path: Path) -> RecoveryConfig:
    init_db_dir(tmp_path, 1)
    return RecoveryConfig(tmp_path)


def test_an_aborted_run_continues_without_losing_or_repeating_a_window(recovery: RecoveryConfig) -> None:
    items = [*CHAT[:3], TestingSource.ABORT(), *CHAT[3:], TestingSource.ABORT(), flush(), post(5, "fine")]
    store, bodies = InMemoryStore(), list[bytes]()
    for _ in range(3):
        more, _ = run(engine_over(store), items, recovery)
        bodies += more
    whole, _ = run(engine_over(InMemoryStore()), [item for item in items if isinstance(item, Received)])
    assert list(dict.fromkeys(ids(bodies))) == ids(whole)
    final = [body for body in bodies if Summary.from_json(body).final]
    assert {id_: bodies_of(store)[id_] for id_ in ids(final)} == dict(zip(ids(final), final, strict=True))
    refs = [stored.window.ref for stored in store.load(KEY).windows]
    assert [(ref.first_seq, ref.last_seq) for ref in refs] == [(0, 1), (2, 3), (4, 4)]
    assert all(before.last_seq + 1 == after.first_seq for before, after in pairwise(refs))


class Unwritten:
    """Fails at every summary, which therefore stays in flight."""

    async def write(self, *_: Any) -> Written:
        raise RuntimeError("the writer is gone")


class Pathless(pickle.Unpickler):
    """Reads Bytewax's pickles, but fails if they name a class or function."""

    def find_class(self, module: str, name: str) -> Any:
        pytest.fail(f"the recovery store names {module}.{name}")


@pytest.mark.parametrize("strategy", names())
def test_the_recovery_store_names_no_class_of_the_program(
    strategy: str, recovery: RecoveryConfig, tmp_path: Path
) -> None:
    """So every module can be moved in a later release."""
    store = InMemoryStore()
    runtime = Runtime(raises=False)
    stopped = engine_over(store, strategy=strategy, summaries=Unwritten(), runtime=runtime)
    assert run(stopped, CHAT, recovery) == ([], [])
    assert str(stopped.runtime.failure) == "the writer is gone"
    with closing(sqlite3.connect(tmp_path / "part-0.sqlite3")) as database:
        snapshots = database.execute("SELECT step_id, ser_change FROM snaps WHERE ser_change NOT NULL")
        states = {step: Pathless(BytesIO(pickled)).load() for step, pickled in snapshots}
    assert 2 <= states.pop("backscroll.messages") <= len(CHAT)  # two are a window
    assert {step: version for step, (version, _) in states.items()}.items() >= {
        "backscroll.turns.admit": 3,
        "backscroll.windows.cut": 3,
        "backscroll.summaries.write": 3,
    }.items()
    for _, state in states.values():
        orjson.loads(zlib.decompress(state))  # JSON, which can name nothing that is imported
    again, _ = run(engine_over(store, strategy=strategy), CHAT, recovery)
    assert set(ids(again)) == {f"default/general:{place}:{strategy}" for place in ("0-1", "2-3", "4-4")}


def test_state_of_an_older_release_is_refused_in_one_line_and_kept(
    recovery: RecoveryConfig, tmp_path: Path
) -> None:
    def kept() -> list[tuple[object, ...]]:
        return database.execute("SELECT step_id, state_key, snap_epoch, ser_change FROM snaps").fetchall()

    run(engine_over(InMemoryStore()), CHAT[:3], recovery)
    with closing(sqlite3.connect(tmp_path / "part-0.sqlite3", isolation_level=None)) as database:
        old = pickle.dumps((2, zlib.compress(pickle.dumps("as pickled"))))
        database.execute("UPDATE snaps SET ser_change = ? WHERE step_id = 'backscroll.windows.cut'", [old])
        before = kept()
        with pytest.raises(StateError) as refused:
            run(engine_over(InMemoryStore()), CHAT, recovery)
        assert kept() == before
    assert user_error_line(refused.value) == (
        "the recovery directory holds state of version 2, but this program reads only 3: use an empty "
        "one and read from before the oldest open window (repeated messages are skipped)"
    )


def test_a_channel_that_is_silent_for_a_run_keeps_its_place(recovery: RecoveryConfig) -> None:
    items = [
        CHAT[0],
        TestingSource.EOF(),
        post(1, "elsewhere", "other"),
        TestingSource.EOF(),
        CHAT[0],
        post(2, "here again"),
    ]
    store = InMemoryStore()
    engines = [engine_over(store) for _ in range(3)]
    runs = [sorted(ids(run(engine, items, recovery)[0])) for engine in engines]
    assert runs == [
        ["default/general:0-0:remember"],
        ["default/general:0-0:remember", "default/other:0-0:remember"],
        ["default/general:0-1:remember", "default/other:0-0:remember"],
    ]
    assert [engine.runtime.counters["duplicates"] for engine in engines] == [0, 0, 1]
    assert [[turn.id for turn in w.window.turns] for w in store.load(KEY).windows] == [["m0", "m2"]]


def edit(number: int, text: str, minute: int = 50, channel: str = "general") -> Received:
    value = {"op": "edit", "channel": channel, "id": f"m{number}", "ts": f"2026-03-02T09:{minute:02}:00Z"}
    return received(orjson.dumps({**value, "text": text}), 1)


def delete(number: int, minute: int = 55, channel: str = "general") -> Received:
    value = {"op": "delete", "channel": channel, "id": f"m{number}", "ts": f"2026-03-02T09:{minute:02}:00Z"}
    return received(orjson.dumps(value), 2)


def newest(emissions: Iterable[Emission]) -> dict[str, bytes | None]:
    """The last record of each key, as a compacted topic keeps it; also checks that revisions increase."""
    kept, revisions = dict[str, bytes | None](), dict[str, int]()
    for emission in emissions:
        assert emission.revision >= revisions.get(emission.summary_id, 0)
        if emission.revision == revisions.get(emission.summary_id):
            assert emission.body == kept[emission.summary_id]
        kept[emission.summary_id], revisions[emission.summary_id] = emission.body, emission.revision
    return kept


def test_a_deletion_reissues_the_summaries_that_used_the_message_and_erases_its_words() -> None:
    store = InMemoryStore()
    chat = [post(0, "we ordered a xyzzy pump"), *CHAT[1:4], flush()]
    emissions, _ = run_for_emissions(engine_over(store), chat)
    assert b"xyzzy" in emissions[0].body + emissions[1].body  # type: ignore[operator]
    engine = engine_over(store)
    again, rejects = run_for_emissions(engine, [*chat, delete(0)])
    assert rejects == []
    kept = newest([*emissions, *again])
    assert list(kept) == ["default/general:0-1:remember", "default/general:2-3:remember"]
    assert not any(b"xyzzy" in (body or b"") or b"m0" in (body or b"") for body in kept.values())
    assert set(revisions := {emission.summary_id: emission.revision for emission in again}) == set(kept)
    assert set(revisions.values()) == {1}
    assert {kept.revision for kept in store.summaries[KEY].values()} == {1}


def test_a_window_whose_every_message_was_deleted_becomes_a_tombstone() -> None:
    store = InMemoryStore()
    emissions, _ = run_for_emissions(engine_over(store), [*CHAT[:2], delete(0), delete(1), *CHAT[2:4]])
    assert newest(emissions)["default/general:0-1:remember"] is None
    summary = Summary.from_json(newest(emissions)["default/general:2-3:remember"] or b"")
    assert summary.memory == []
    assert summary.window.turns == ["m2", "m3"]
    again, _ = run_for_emissions(engine_over(store), [*CHAT[:2], delete(0), delete(1), *CHAT[2:4]])
    assert newest(again) == newest(emissions)


def test_an_edit_reissues_summaries_with_the_new_text_unless_it_changes_nothing() -> None:
    store = InMemoryStore()
    engine = engine_over(store)
    emissions, _ = run_for_emissions(
        engine, [*CHAT[:4], edit(0, "we ordered a valve"), edit(0, "we ordered a valve", 52)]
    )
    assert [emission.revision for emission in emissions if "0-1" in emission.summary_id][-1] == 1
    kept = [Summary.from_json(body or b"") for body in newest(emissions).values()]
    assert kept[0].summary == "09:00 Ana: we ordered a valve\n09:01 Ana: lunch at noon"
    assert [entry.text for entry in kept[1].memory] == ["we ordered a valve", "lunch at noon"]
    assert store.windows[KEY][0].window.ref.revision == 1


def test_without_reissue_a_deletion_still_erases_what_is_kept() -> None:
    store = InMemoryStore()
    run_for_emissions(engine_over(store), [post(0, "xyzzy"), post(1, "b")])
    emissions, _ = run_for_emissions(
        engine_over(store, reissue=False), [post(0, "xyzzy"), post(1, "b"), delete(0)]
    )
    assert len(emissions) == 1
    assert b"xyzzy" not in b"".join(kept.body for kept in store.summaries[KEY].values())


def test_a_change_reaches_windows_that_are_still_in_flight() -> None:
    """A message is deleted after its window has closed but before its summary is written."""

    class Late(ExtractiveWriting):
        """Writes only after the deletion has been applied."""

        async def write(self, *what: Any) -> Any:
            while not engine.histories[KEY].revision:
                await asyncio.sleep(0.005)
            return await super().write(*what)

    store = InMemoryStore()
    engine = engine_over(store, summaries=Late(ExtractiveSummarizer()))
    emissions, _ = run_for_emissions(engine, [post(0, "xyzzy"), *CHAT[1:4], delete(0)])
    assert [(e.summary_id.split(":")[1], e.revision) for e in emissions] == [("0-1", 1), ("2-3", 1)]
    assert not any(b"xyzzy" in (emission.body or b"") for emission in emissions)


def test_a_deletion_and_an_edit_can_arrive_before_their_message() -> None:
    store = InMemoryStore()
    engine = engine_over(store)
    stream = [delete(0), delete(0), edit(1, "lunch at one"), delete(7), *CHAT[:3], post(3, "fine")]
    run_for_emissions(engine, stream)
    turns = [turn for stored in store.windows[KEY] for turn in stored.window.turns]
    assert [(turn.id, turn.text) for turn in turns] == [("m1", "lunch at one"), ("m2", "is it here")]
    assert store.erased[KEY] == {"m0", "m7"}
    assert (engine.runtime.counters["duplicates"], engine.runtime.counters["unposted"]) == (1, 1)


def test_an_aborted_run_with_changes_ends_like_an_uninterrupted_one(recovery: RecoveryConfig) -> None:
    stream = [*CHAT[:2], delete(0), CHAT[2], edit(2, "is it there"), CHAT[3], CHAT[4], edit(1, "at one")]
    stream += [delete(3), flush(), edit(4, "it is early", 57), post(5, "ok"), flush()]
    whole = newest(run_for_emissions(engine_over(InMemoryStore()), stream)[0])
    items = list[object]()
    for number, item in enumerate(stream):
        items += [item, TestingSource.ABORT()] if number % 3 == 1 else [item]
    store, emissions = InMemoryStore(), list[Emission]()
    for _ in range(1 + sum(isinstance(item, TestingSource.ABORT) for item in items)):
        emissions += run_for_emissions(engine_over(store), items, recovery)[0]
    final = {id_: body for id_, body in newest(emissions).items() if id_ in whole}

    def content(body: bytes | None) -> object:
        fields = orjson.loads(body or b"{}")
        return {name: value for name, value in fields.items() if name not in ("timings_ms", "revision")}

    assert {id_: content(body) for id_, body in final.items()} == {
        id_: content(body) for id_, body in whole.items()
    }


def test_wall_clock_silence_closes_windows_only_of_a_live_stream() -> None:
    def summaries(*, live: bool) -> list[Summary]:
        engine = engine_over(InMemoryStore(), cutter=WindowCutter(idle=timedelta(milliseconds=50)))
        if live:
            engine.runtime.liveness.begin()
        same = [post(number, "fine", ts="2026-03-02T09:00:00Z") for number in range(3)]
        bodies, _ = run(engine, [*same[:2], TestingSource.PAUSE(timedelta(milliseconds=400)), same[2]])
        return [Summary.from_json(body) for body in bodies]

    assert [(s.window.turns, s.final) for s in summaries(live=True)] == [
        (["m0", "m1"], True),
        (["m2"], False),
    ]
    assert [(s.window.turns, s.final) for s in summaries(live=False)] == [(["m0", "m1", "m2"], False)]


def test_messages_within_the_lateness_are_put_in_order_and_later_ones_are_marked() -> None:
    def at_watermark(item: Received, minute: int) -> Received:
        return replace(item, watermark=datetime(2026, 3, 2, 9, minute, tzinfo=UTC))

    store = InMemoryStore()
    engine = engine_over(store, cutter=WindowCutter(turns=3), lateness=timedelta(minutes=5))
    stream = [
        at_watermark(post(3, "third"), 0),
        at_watermark(post(1, "first"), 0),
        at_watermark(post(2, "second"), 0),
        at_watermark(post(9, "sixth"), 4),  # 9:04 is reached: the first three are in order
        at_watermark(post(0, "too late"), 4),
        at_watermark(flush(), 4),
    ]
    run(engine, stream)
    turns = [turn for stored in store.windows[KEY] for turn in stored.window.turns]
    assert [(turn.id, turn.late) for turn in turns] == [
        ("m1", False),
        ("m2", False),
        ("m3", False),
        ("m0", True),
        ("m9", False),
    ]


def test_a_reissue_that_was_kept_but_not_sent_is_sent_after_a_restart(recovery: RecoveryConfig) -> None:
    class Broken(TestingSink[Any]):
        """A sink that fails when the reissue arrives."""

        def build(self, *place: Any) -> Any:
            inner = super().build(*place)
            write = inner.write_batch

            def write_batch(items: list[tuple[str, Emission]]) -> None:
                if any(emission.revision for _, emission in items):
                    raise ConnectionError("gone")
                write(items)

            inner.write_batch = write_batch
            return inner

    store, out = InMemoryStore(), list[tuple[str, Emission]]()
    items = [post(0, "xyzzy"), post(1, "b"), TestingSource.PAUSE(timedelta(milliseconds=300)), delete(0)]
    flow = summarize_flow(engine_over(store), TestingSource(items, 1), Broken(out), TestingSink([]))
    with pytest.raises(Exception, match="writing output"):
        run_main(flow, epoch_interval=timedelta(milliseconds=50), recovery_config=recovery)
    assert [emission.revision for _, emission in out] == [0]
    assert store.summaries[KEY]["default/general:0-1:remember"].revision == 1
    again, _ = run_for_emissions(engine_over(store), items, recovery)
    last = newest([*(emission for _, emission in out), *again])["default/general:0-1:remember"]
    assert last == bodies_of(store)["default/general:0-1:remember"]
    assert b"xyzzy" not in last


def test_the_state_in_flight_holds_no_body_and_an_erased_body_is_written_again() -> None:
    store = InMemoryStore()
    run(engine_over(store), CHAT[:4])
    engine = engine_over(store)
    history = engine.histories[KEY]
    window = Window(history.windows[0], ())
    gapped = asyncio.run(_detect(engine, window))
    assert gapped.known
    assert b"pump" not in zlib.decompress(CODEC.encode((gapped,))[1])
    engine.histories.commit([Changes(KEY, (Change("m0", datetime(2026, 3, 2, 10, tzinfo=UTC), None),))])
    assert engine.histories.kept(KEY, "default/general:0-1:remember") is None
