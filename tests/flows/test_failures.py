"""If a part fails, the whole run fails with that part's error, and the next run continues."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from bytewax.dataflow import Dataflow
from bytewax.errors import BytewaxRuntimeError
from bytewax.inputs import DynamicSource, SimplePollingSource, StatelessSourcePartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main
from bytewax.testing import TestingSink, TestingSource, run_main

from backscroll.connectors.callback_sink import CallbackSink
from backscroll.flows.ingest import ingest_flow
from backscroll.flows.summarize import summarize_flow
from backscroll.operators.engine import Engine, EngineConfig
from backscroll.operators.gaps.stage import Detection
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.messages import DeadLetter, Received
from backscroll.operators.stream.windows import WindowCutter
from backscroll.operators.summary.record import Emission, Summary

CONFIG = EngineConfig(cutter=WindowCutter(turns=2), strategy="recent")
TEXTS = ["we ordered a pump", "lunch at noon", "is it here", "yes it is", "and the valve", "no"]


def post(number: int, text: str) -> Received:
    fields = {"channel": "general", "id": f"m{number}", "ts": f"2026-03-02T09:{number:02}:00Z"}
    raw = orjson.dumps({**fields, "author": "Ana", "text": text})
    return Received(raw, (("line", number),), raw)


CHAT = [post(number, text) for number, text in enumerate(TEXTS)]


class Lost(Exception):
    """The error of a broken part."""


class BrokenGaps:
    async def detect(self, *_: Any, max_gaps: int) -> Detection:
        assert max_gaps
        raise Lost


class BrokenWriting:
    async def write(self, *_: Any) -> Any:
        raise Lost


class BrokenStore(InMemoryStore):
    """Fails at the second window until it is repaired."""

    broken = True

    def append(self, recorded: Sequence[RecordedWindow]) -> None:
        if self.broken and recorded[0].window.ref.index:
            raise Lost
        super().append(recorded)


class UnreadableStore(InMemoryStore):
    """Fails before anything is admitted."""

    def load(self, _: Any) -> Any:
        raise Lost


class BrokenSource(TestingSource[Received]):
    """Fails after the third message."""

    def __init__(self) -> None:
        super().__init__(self.read(), 1)

    @staticmethod
    def read() -> Iterator[Received]:
        yield from CHAT[:3]
        raise Lost


def broken_write(_: object) -> None:
    raise Lost


def causes(err: BaseException | None) -> Iterator[BaseException]:
    while err is not None:
        yield err
        err = err.__cause__ or err.__context__


Made = tuple[Engine, Any, Any]


def broken(part: str, store: InMemoryStore, sink: Any) -> Made:
    """An engine, a source and a sink, one of which fails."""
    source = TestingSource(CHAT, 1)
    match part:
        case "detector":
            return Engine(store, CONFIG, gaps=BrokenGaps()), source, sink
        case "summary stage":
            return Engine(store, CONFIG, summaries=BrokenWriting()), source, sink
        case "source":
            return Engine(store, CONFIG), BrokenSource(), sink
        case "sink":
            return Engine(store, CONFIG), source, CallbackSink(broken_write)
        case _:
            return Engine(store, CONFIG), source, sink


@pytest.mark.parametrize("main", [run_main, cli_main])
@pytest.mark.parametrize("part", ["detector", "summary stage", "store", "unreadable store", "source", "sink"])
def test_a_broken_part_makes_the_run_fail_with_its_error(part: str, main: Callable[[Dataflow], None]) -> None:
    store = {"store": BrokenStore, "unreadable store": UnreadableStore}.get(part, InMemoryStore)()
    engine, source, sink = broken(part, store, TestingSink([]))
    letters: list[DeadLetter] = []
    flow = summarize_flow(engine, source, sink, TestingSink(letters))
    with pytest.raises(BytewaxRuntimeError) as failed:
        main(flow)
    assert [type(err) for err in causes(failed.value)][-1] is Lost
    if part not in {"sink", "source"}:  # Bytewax calls these itself
        assert isinstance(engine.runtime.failure, Lost)
    assert letters == []


@pytest.mark.parametrize("part", ["detector", "summary stage", "store", "source", "sink"])
@pytest.mark.parametrize("interval", [timedelta(0), timedelta(seconds=10)], ids=["each", "last"])
def test_the_run_after_the_fix_gives_the_same_results_as_an_uninterrupted_one(
    part: str, interval: timedelta, tmp_path: Path
) -> None:
    def run(engine: Engine, source: Any, sink: Any) -> None:
        flow = summarize_flow(engine, source, sink, TestingSink(letters))
        run_main(flow, epoch_interval=interval, recovery_config=recovery)

    init_db_dir(tmp_path, 1)
    recovery = RecoveryConfig(tmp_path)
    letters, out = list[DeadLetter](), list[tuple[str, Emission]]()
    store = BrokenStore() if part == "store" else InMemoryStore()
    with pytest.raises(BytewaxRuntimeError) as failed:
        run(*broken(part, store, TestingSink(out)))
    assert Lost in [type(err) for err in causes(failed.value)]
    if isinstance(store, BrokenStore):
        store.broken = False
    run(Engine(store, CONFIG), TestingSource(CHAT, 1), TestingSink(out))
    assert letters == []
    bodies = [emission.body for _, emission in out]
    assert None not in bodies
    summaries = {Summary.from_json(body).summary_id: body for body in bodies if body}
    assert {id_: list(Summary.from_json(body).window.turns) for id_, body in summaries.items()} == {
        "default/general:0-1:recent": ["m0", "m1"],
        "default/general:2-3:recent": ["m2", "m3"],
        "default/general:4-5:recent": ["m4", "m5"],
    }
    assert set(bodies) == {store.summary(id_) for id_ in summaries}, "what came twice is what came first"


RESUMED = """
import sys
from datetime import timedelta
from pathlib import Path
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import TestingSink, TestingSource, run_main
from backscroll import Engine, InMemoryStore, summarize_flow

directory = Path(sys.argv[1])
if not any(directory.iterdir()):
    init_db_dir(directory, 1)
post = {"channel": "general", "author": "Ana", "text": "Hi."}
chat = [{**post, "id": f"m{n}", "ts": f"2026-03-02T09:0{n}:00Z"} for n in range(int(sys.argv[2]))]
engine = Engine(InMemoryStore())
flow = summarize_flow(engine, TestingSource(chat), TestingSink([]), TestingSink([]))
run_main(flow, epoch_interval=timedelta(0), recovery_config=RecoveryConfig(directory))
print(engine.runtime.counters["messages"])
"""


def test_another_process_resumes_from_the_recovery_store(tmp_path: Path) -> None:
    def run(messages: int) -> str:
        command = [sys.executable, "-c", RESUMED, str(tmp_path), str(messages)]
        return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()

    assert [run(2), run(5), run(6)] == ["2", "3", "1"], "each run reads only what is new"


def test_an_ingest_fails_as_well() -> None:
    flow = ingest_flow(
        Engine(BrokenStore(), CONFIG), TestingSource(CHAT, 1), TestingSink([]), TestingSink([])
    )
    with pytest.raises(BytewaxRuntimeError) as failed:
        run_main(flow)
    assert [type(err) for err in causes(failed.value)][-1] is Lost


class Endless(DynamicSource[Received]):
    """A source without a `feed`, which never ends."""

    def build(self, *_: Any) -> _EndlessPartition:
        return _EndlessPartition()


class _EndlessPartition(StatelessSourcePartition[Received]):
    def __init__(self) -> None:
        self.number = 0

    def next_batch(self) -> list[Received]:
        self.number += 1
        return [post(self.number % 60, f"message {self.number}")]


def test_a_failed_step_ends_a_source_without_a_feed() -> None:
    flow = summarize_flow(
        Engine(InMemoryStore(), CONFIG, gaps=BrokenGaps()), Endless(), TestingSink([]), TestingSink([])
    )
    with pytest.raises(BytewaxRuntimeError) as failed:
        run_main(flow)
    assert [type(err) for err in causes(failed.value)][-1] is Lost


class HourlySource(SimplePollingSource[Received, None]):
    """Emits a message at the start and every hour."""

    polls = 0

    def next_item(self) -> Received:
        self.polls += 1
        return post(self.polls, "anything new?")


def test_a_failed_step_ends_a_source_that_is_not_due_for_an_hour() -> None:
    source = HourlySource(timedelta(hours=1))
    engine = Engine(InMemoryStore(), EngineConfig(cutter=WindowCutter(turns=1)), gaps=BrokenGaps())
    with pytest.raises(BytewaxRuntimeError) as failed:
        run_main(summarize_flow(engine, source, TestingSink([]), TestingSink([])))
    assert [type(err) for err in causes(failed.value)][-1] is Lost
    assert source.polls == 1, "it is polled when it is due, not whenever the engine looks"


class _RestingPartition(_EndlessPartition):
    """Counts the time until its next batch from when it is asked."""

    def next_batch(self) -> list[Received]:
        if self.number == 3:
            raise StopIteration
        return super().next_batch()

    def next_awake(self) -> datetime:
        return datetime.now(UTC) + timedelta(milliseconds=150)


class RestingSource(DynamicSource[Received]):
    def build(self, *_: Any) -> _RestingPartition:
        return _RestingPartition()


def test_a_source_that_counts_its_wait_from_when_it_is_asked_is_read() -> None:
    engine = Engine(InMemoryStore(), CONFIG)
    run_main(summarize_flow(engine, RestingSource(), TestingSink([]), TestingSink([])))
    assert engine.runtime.counters["messages"] == 3


def test_an_object_that_is_not_a_source_is_refused() -> None:
    with pytest.raises(TypeError, match="is not a Bytewax source"):
        summarize_flow(Engine(InMemoryStore()), object(), TestingSink([]), TestingSink([]))  # type: ignore[arg-type]
