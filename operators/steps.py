"""The steps of the paper's figure, as Bytewax operators.

`bytewax.visualize` draws each operator as one step with its parts inside. The recovery store is keyed
by step ids, so the ids of `stateful_batch` steps are part of its format: never change them.
"""

# ruff: noqa: ARG001 - Bytewax reads the `step_id` of an operator.

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeGuard, TypeVar

import bytewax.operators as op
import orjson
from bytewax.dataflow import Stream, operator
from bytewax.operators import KeyedStream

from backscroll.operators.channel_logic import AdmissionLogic, CuttingLogic, reject
from backscroll.operators.engine import Engine
from backscroll.operators.gaps.stage import Detection
from backscroll.operators.history.store import StoredSummary
from backscroll.operators.in_flight import Arrival, Gapped, Recalled
from backscroll.operators.llm.protocol import LLMError
from backscroll.operators.memory.request import MemoryParameters, MemoryRef, MemoryRequest
from backscroll.operators.memory.verbatim import build_verbatim
from backscroll.operators.messages import DeadLetter, MessageError, Received, parse_message
from backscroll.operators.runtime.calls import ConcurrentCalls, Grouped, Work, on_executor
from backscroll.operators.runtime.ending import EndSink, FailureSource
from backscroll.operators.runtime.metrics import (
    DEAD_LETTERS,
    DEGRADED,
    DROPPED_GAPS,
    MESSAGES,
    SUMMARIES,
    stage,
)
from backscroll.operators.runtime.state import Stamped
from backscroll.operators.state_types import CODEC
from backscroll.operators.stream.admission import Admitted
from backscroll.operators.stream.changes import Changes
from backscroll.operators.stream.windows import Window
from backscroll.operators.summary.build_record import summary_record
from backscroll.operators.summary.evidence import Resolution, exchange_vectors, resolve_gaps
from backscroll.operators.summary.record import Emission, Summary, summary_id

__all__ = [
    "AdmitOut",
    "SummarizeOut",
    "admit",
    "build_memory",
    "cut_windows",
    "detect_gaps",
    "raise_failure",
    "record_history",
    "settle",
    "summarize",
]

_NO_GAPS = Detection((), "none")

X = TypeVar("X")
Y = TypeVar("Y")


@dataclass(frozen=True)
class AdmitOut:
    """Streams returned from `admit`: the events of each channel in order, and rejected messages."""

    turns: KeyedStream[Admitted]
    rejected: Stream[DeadLetter]


@dataclass(frozen=True)
class SummarizeOut:
    """Streams returned from `summarize`: one emission per window, and windows that could not get one."""

    summaries: KeyedStream[Emission]
    failed: Stream[DeadLetter]


@operator
def admit(step_id: str, messages: Stream[Received | bytes | Mapping[str, Any]], engine: Engine) -> AdmitOut:
    """Validate messages, key them by channel and number the posts; invalid ones become dead letters."""
    parsed = op.map("parse", messages, partial(_parse, engine))
    valid = op.branch("valid", parsed, _is_arrival)
    keyed = op.key_on("key", valid.trues, lambda item: str(item.message.key))
    admitted = op.stateful_batch("admit", keyed, partial(AdmissionLogic, engine))
    turns = op.filter_map_value("turns", admitted, _only(Admitted))
    refused = op.filter_map_value("refused", admitted, _only(DeadLetter))
    letters = op.map("letters", refused, lambda item: item[1])
    return AdmitOut(turns, op.merge("rejected", valid.falses, letters))


@operator
def cut_windows(step_id: str, turns: KeyedStream[Admitted], engine: Engine) -> KeyedStream[Window | Changes]:
    """Cut turns into closed windows, and pass on changes; at the end of the input also the open window."""
    return op.stateful_batch("cut", turns, partial(CuttingLogic, engine))


@operator
def record_history(
    step_id: str, windows: KeyedStream[Window | Changes], engine: Engine
) -> KeyedStream[Window]:
    """Chunk, embed, index and store each closed window; from here on it is passed as a reference.

    Changes rewrite the turns that they affect, and windows whose summary used them are summarised again.
    """
    index = Grouped(
        engine.histories.indexer.index_together, Work.RECORD, most=engine.config.embedding_windows
    )
    commit = Grouped(engine.histories.commit, Work.STORE)

    async def record(item: Window | Changes) -> tuple[Window, ...]:
        try:
            return await (_change(item) if isinstance(item, Changes) else _record(item))
        finally:
            engine.wait_to_be_recorded([item], done=True)

    async def _record(window: Window) -> tuple[Window, ...]:
        if not window.ref.final or not window.turns:
            return (window,)
        with stage("record"):
            refs = await commit(await index(window))
        engine.runtime.counters["recorded"] += len(refs)
        engine.runtime.pending.add(len(refs) - 1)
        return tuple(Window(ref, ()) for ref in refs)

    async def _change(changes: Changes) -> tuple[Window, ...]:
        await index(changes)  # waits its turn behind earlier windows
        refs = await commit(changes) if engine.config.reissue else (await commit(changes))[:0]
        engine.runtime.counters["reissues"] += len(refs)
        engine.runtime.pending.add(len(refs))
        return tuple(Window(ref, ()) for ref in refs)

    def count_resumed(items: Sequence[Window | Changes]) -> None:
        engine.runtime.pending.add(sum(isinstance(item, Window) for item in items))
        engine.wait_to_be_recorded(items)

    recorded = _concurrently("record", windows, record, engine, count_resumed)
    return op.flat_map_value("windows", recorded, lambda items: items)


@operator
def detect_gaps(step_id: str, windows: KeyedStream[Window], engine: Engine) -> KeyedStream[Gapped]:
    """Find what each window presupposes; windows that already have a summary pass through."""
    return _concurrently("detect", windows, partial(_detect, engine), engine)


@operator
def build_memory(step_id: str, gapped: KeyedStream[Gapped], engine: Engine) -> KeyedStream[Recalled]:
    """Choose each window's memory from the history as it was before the window."""
    return _concurrently("build", gapped, partial(_recall, engine), engine)


@operator
def summarize(step_id: str, recalled: KeyedStream[Recalled], engine: Engine) -> SummarizeOut:
    """Write summary records, stored before they are emitted; windows that fail become dead letters.

    If a window changed since its turns were read, it is processed again.
    """
    keep = Grouped(engine.histories.keep, Work.SUMMARY)

    async def call(item: Recalled) -> Emission | DeadLetter:
        while True:
            gapped, ref = item.gapped, item.gapped.window.ref
            id_ = summary_id(ref, engine.config.strategy)
            if gapped.gone:
                return Emission(ref.key, id_, gapped.revision, None)
            if ref.final and id_ in engine.histories[ref.key].summary_ids:  # perhaps finished in the meantime
                body = await on_executor(partial(engine.histories.kept, ref.key, id_))
                if body is not None:
                    engine.runtime.counters["reissued"] += 1
                    SUMMARIES.labels("any", "store").inc()
                    return Emission(ref.key, id_, _revision(body), body)
            if gapped.known:
                item = await _recall(engine, await _detect(engine, gapped.window))
                continue
            if gapped.failure is not None:
                return _give_up(engine, gapped.window, gapped.failure)
            try:
                summary = await _write(engine, item)
            except LLMError as err:
                return _give_up(engine, gapped.window, f"summary: {err}")
            if summary is not None:
                body = summary.to_json()
                recalled = tuple(entry.seq for entry in item.memory)
                stored = StoredSummary(
                    ref.key, id_, ref.first_seq, ref.last_seq, recalled, gapped.revision, body
                )
                kept = await keep(stored) if ref.final else body
                if kept is not None:
                    _count(engine, summary)
                    return Emission(ref.key, id_, _revision(kept), kept)
            item = await _recall(engine, await _detect(engine, gapped.window))

    done = settle("done", _concurrently("write", recalled, call, engine), engine)
    finished = op.filter_map_value("finished", done, _only(Emission))
    failed = op.filter_map_value("failed", done, _only(DeadLetter))
    return SummarizeOut(finished, op.map("letters", failed, lambda item: item[1]))


@operator
def raise_failure(step_id: str, *ups: Stream[Any], engine: Engine) -> None:
    """After all results have been written, raise the error of a step or the source, if there is one.

    Args:
        step_id: unique.
        ups: the streams of results.
        engine: its runtime holds the failure.
    """
    end = EndSink()
    op.output("end", op.merge("results", *ups), end)
    nothing = op.input("failure", ups[0].flow(), FailureSource(engine.runtime, end))
    # With recovery, Bytewax waits only for stateful steps; without one it could return before the error.
    held = op.count_final("hold", nothing, str)
    op.output("nothing", held, EndSink())


@operator
def settle(step_id: str, done: KeyedStream[X], engine: Engine) -> KeyedStream[X]:
    """Count windows as done, so that the source can continue."""

    def count_down(item: tuple[str, X]) -> tuple[str, X]:
        engine.runtime.pending.add(-1)
        return item

    return op.map("count", done, count_down)


async def _detect(engine: Engine, window: Window) -> Gapped:
    ref, history = window.ref, engine.histories[window.ref.key]
    revision = history.revision
    id_ = summary_id(ref, engine.config.strategy)
    if ref.final and id_ in history.summary_ids:
        return Gapped(window, revision, _NO_GAPS, 0.0, known=True)
    started = time.perf_counter()
    live = _live(engine, window, revision)
    if not live.turns:
        return Gapped(window, revision, _NO_GAPS, 0.0, gone=True)
    if not engine.config.max_gaps:
        return Gapped(window, revision, _NO_GAPS, 0.0)
    try:
        with stage("gaps"):
            detection = await engine.gaps.detect(live, max_gaps=engine.config.max_gaps)
    except LLMError as err:
        return Gapped(window, revision, _NO_GAPS, 0.0, failure=f"gaps: {err}")
    engine.runtime.counters["gaps"] += len(detection.gaps)
    for reason, count in detection.dropped.items():
        DROPPED_GAPS.labels(reason).inc(count)
        engine.runtime.counters["dropped_gaps"] += count
    return Gapped(window, revision, detection, _elapsed_ms(started))


async def _recall(engine: Engine, item: Gapped) -> Recalled:
    def build() -> Recalled:
        started = time.perf_counter()
        ref = item.window.ref
        request = MemoryRequest(
            turns=_live(engine, item.window, item.revision).turns,
            gaps=item.detection.gaps,
            history=engine.histories[ref.key].as_of(ref.first_seq),
            parameters=MemoryParameters(
                engine.histories.embedder, engine.config.budget, engine.config.retrieval
            ),
        )
        memory = build_verbatim(engine.strategy, request)
        references = tuple(map(MemoryRef.of, memory.turns))
        return Recalled(item, references, _elapsed_ms(started), memory.degraded)

    if item.known or item.failure is not None or item.gone:
        return Recalled(item, (), 0.0)
    with stage("memory"):
        return await on_executor(build, Work.MEMORY)


async def _write(engine: Engine, item: Recalled) -> Summary | None:
    """Write the summary; None if the window has changed since its gaps were found."""
    started = time.perf_counter()
    gapped, history = item.gapped, engine.histories[item.gapped.window.ref.key]
    live = _live(engine, gapped.window, gapped.revision)
    rests_on = (*(turn.seq for turn in live.turns), *(entry.seq for entry in item.memory))
    if not live.turns or not engine.histories.is_current(history.key, gapped.revision, rests_on):
        return None
    memory = [
        entry for entry in (reference.read(history) for reference in item.memory) if not entry.turn.deleted
    ]
    embedder = engine.histories.embedder

    def resolve() -> Resolution:
        vectors = exchange_vectors(live.turns, memory, history.as_of(live.ref.first_seq), embedder)
        return resolve_gaps(live.turns, gapped.detection.gaps, memory, vectors)

    with stage("summary"):
        resolution = await on_executor(resolve)
        written = await engine.summaries.write(live, gapped.detection.gaps, memory, resolution.evidence)
    return summary_record(
        live,
        gapped.detection,
        memory,
        resolution,
        written,
        memory_degraded=item.degraded,
        strategy=engine.config.strategy,
        embedding=embedder.name if embedder else "none",
        timings_ms={
            "gaps": gapped.gaps_ms,
            "memory": item.memory_ms,
            "summary": _elapsed_ms(started),
        },
    )


def _revision(body: bytes) -> int:
    revision: int = orjson.loads(body)["revision"]
    return revision


def _live(engine: Engine, window: Window, revision: int) -> Window:
    """The window with its current turns, read at a revision of the channel."""
    turns = tuple(window.turns or engine.histories.window_turns(window.ref))
    return Window(replace(window.ref, revision=revision), turns).live


def _concurrently(
    step_id: str,
    up: KeyedStream[X],
    call: Callable[[X], Awaitable[Y]],
    engine: Engine,
    count_resumed: Callable[[Sequence[X]], None] | None = None,
) -> KeyedStream[Y]:
    def build(resume: Stamped | None) -> ConcurrentCalls[X, Y]:
        in_flight: Sequence[X] = CODEC.decode(resume) or ()
        if count_resumed is not None:
            count_resumed(in_flight)
        else:
            engine.runtime.pending.add(len(in_flight))
        return ConcurrentCalls(
            call,
            in_flight,
            codec=CODEC,
            per_key=8,
            stopping=engine.runtime.stopping,
            fail=engine.runtime.fail,
        )

    return op.stateful_batch(step_id, up, build)


def _is_arrival(item: Arrival | DeadLetter) -> TypeGuard[Arrival]:
    return isinstance(item, Arrival)


def _only(kind: type[Y]) -> Callable[[object], Y | None]:
    return lambda item: item if isinstance(item, kind) else None


def _parse(engine: Engine, item: Received | bytes | Mapping[str, Any]) -> Arrival | DeadLetter:
    received = Received.of(item)
    engine.runtime.counters["messages"] += 1
    MESSAGES.inc()
    try:
        if isinstance(received.value, MessageError):
            raise received.value
        message = parse_message(received.value, namespace=engine.config.namespace)
        return Arrival(message, replace(received, value=b""))
    except MessageError as err:
        return reject(engine, received, err)


def _give_up(engine: Engine, window: Window, reason: str) -> DeadLetter:
    engine.runtime.counters["failed"] += 1
    DEAD_LETTERS.inc()
    return DeadLetter((("window", summary_id(window.ref, engine.config.strategy)),), reason, b"")


def _count(engine: Engine, summary: Summary) -> None:
    engine.runtime.counters["summaries"] += 1
    engine.runtime.counters.update(
        {f"{name}_tokens": summary.tokens[name] for name in ("prompt", "completion")}
    )
    SUMMARIES.labels(summary.kind, "made").inc()
    if summary.degraded is not None:
        engine.runtime.counters["degraded"] += 1
        DEGRADED.labels(summary.degraded).inc()


def _elapsed_ms(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)
