"""The steps of the figure as Bytewax operators. Step ids are frozen: recovery is keyed by them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard, TypeVar

import bytewax.operators as op
from bytewax.dataflow import Stream
from bytewax.operators import KeyedStream

from operators.admission import Admitted
from operators.calls import ConcurrentCalls, on_executor
from operators.engine import Engine
from operators.keyed_state import AdmissionLogic, Arrival, CuttingLogic, reject
from operators.llm import LLMError
from operators.memory import STRATEGIES, MemoryRef, MemoryRequest
from operators.messages import DeadLetter, MessageError, Received, Turn, parse_message
from operators.metrics import DEAD_LETTERS, DEGRADED, DROPPED_GAPS, MESSAGES, SUMMARIES, stage
from operators.recording import summary_record
from operators.stages import Detection
from operators.summaries import Summary, summary_id
from operators.windows import Window

__all__ = ["admit", "build_memory", "cut_windows", "detect_gaps", "record_history", "settle", "summarize"]

_NO_GAPS = Detection((), "none")

X = TypeVar("X")
Y = TypeVar("Y")


@dataclass(frozen=True, slots=True)
class Gapped:
    """A window with its gaps. Its turns are inside only while it is provisional.

    `emitted` is the summary of an earlier run; `failure` is why the window can get none.
    """

    window: Window
    detection: Detection
    gaps_ms: float
    emitted: bytes | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Recalled:
    """A gapped window with references to its memory."""

    gapped: Gapped
    memory: tuple[MemoryRef, ...]
    memory_ms: float


def admit(
    step_id: str, messages: Stream[Received], engine: Engine
) -> tuple[KeyedStream[Admitted], Stream[DeadLetter]]:
    """Validate, key by channel and give every posted message its place; the rest are dead letters."""
    parsed = op.map(f"{step_id}_parse", messages, partial(_parse, engine))
    valid = op.branch(f"{step_id}_valid", parsed, _is_arrival)
    keyed = op.key_on(f"{step_id}_key", valid.trues, lambda item: str(item.message.key))
    admitted = op.stateful_batch(f"{step_id}_admit", keyed, partial(AdmissionLogic, engine))
    turns = op.filter_map_value(f"{step_id}_turns", admitted, _only(Admitted))
    refused = op.filter_map_value(f"{step_id}_refused", admitted, _only(DeadLetter))
    letters = op.map(f"{step_id}_letters", refused, lambda item: item[1])
    return turns, op.merge(f"{step_id}_rejected", valid.falses, letters)


def cut_windows(step_id: str, turns: KeyedStream[Admitted], engine: Engine) -> KeyedStream[Window]:
    """Closed windows; at the end of the input also the open one, provisionally."""
    return op.stateful_batch(step_id, turns, partial(CuttingLogic, engine))


def record_history(step_id: str, windows: KeyedStream[Window], engine: Engine) -> KeyedStream[Window]:
    """Chunk, embed, index and store each closed window; from here on it is a reference."""

    async def record(window: Window) -> Window:
        if not window.ref.final:
            return window
        if window.turns:
            with stage("record"):
                new = await on_executor(lambda: engine.histories.record(window), priority=3)
            engine.counters["recorded"] += new
        return Window(window.ref, ())

    return _concurrently(step_id, windows, record, engine, per_key=1)


def detect_gaps(step_id: str, windows: KeyedStream[Window], engine: Engine) -> KeyedStream[Gapped]:
    """What each window presupposes; a window that was summarised before passes by."""

    async def call(window: Window) -> Gapped:
        history = engine.histories[window.ref.key]
        id_ = summary_id(window.ref, engine.strategy)
        if window.ref.final and id_ in history.summary_ids:
            body = await on_executor(lambda: engine.histories.store.summary(id_))
            return Gapped(window, _NO_GAPS, 0.0, body)
        started = time.perf_counter()
        whole = Window(window.ref, tuple(_turns(engine, window)))
        try:
            with stage("gaps"):
                detection = await engine.gaps.detect(whole, max_gaps=engine.max_gaps)
        except LLMError as err:
            return Gapped(window, _NO_GAPS, 0.0, failure=f"gaps: {err}")
        engine.counters["gaps"] += len(detection.gaps)
        for reason, count in detection.dropped.items():
            DROPPED_GAPS.labels(reason).inc(count)
            engine.counters["dropped_gaps"] += count
        return Gapped(window, detection, _elapsed_ms(started))

    return _concurrently(step_id, windows, call, engine)


def build_memory(step_id: str, gapped: KeyedStream[Gapped], engine: Engine) -> KeyedStream[Recalled]:
    """The missing evidence from the history as it was before the window."""

    def build(item: Gapped) -> Recalled:
        started = time.perf_counter()
        ref = item.window.ref
        request = MemoryRequest(
            turns=_turns(engine, item.window),
            gaps=item.detection.gaps,
            history=engine.histories[ref.key].as_of(ref.first_seq),
            embedder=engine.histories.embedder,
            budget=engine.budget,
            retrieval=engine.retrieval,
        )
        memory = STRATEGIES[engine.strategy](request)
        return Recalled(item, tuple(map(MemoryRef.of, memory)), _elapsed_ms(started))

    async def call(item: Gapped) -> Recalled:
        if item.emitted is not None or item.failure is not None:
            return Recalled(item, (), 0.0)
        with stage("memory"):
            return await on_executor(lambda: build(item), priority=1)

    return _concurrently(step_id, gapped, call, engine)


def summarize(
    step_id: str, recalled: KeyedStream[Recalled], engine: Engine
) -> tuple[KeyedStream[bytes], Stream[DeadLetter]]:
    """Summary records as JSON, stored before they are emitted; windows without one are dead letters."""

    async def call(item: Recalled) -> bytes | DeadLetter:
        gapped = item.gapped
        if gapped.emitted is not None:
            engine.counters["reissued"] += 1
            SUMMARIES.labels("any", "store").inc()
            return gapped.emitted
        if gapped.failure is not None:
            return _give_up(engine, gapped.window, gapped.failure)
        started = time.perf_counter()
        whole = Window(gapped.window.ref, tuple(_turns(engine, gapped.window)))
        history = engine.histories[whole.ref.key]
        memory = [reference.read(history) for reference in item.memory]
        try:
            with stage("summary"):
                written = await engine.summaries.write(whole, gapped.detection.gaps, memory)
        except LLMError as err:
            return _give_up(engine, gapped.window, f"summary: {err}")
        embedder = engine.histories.embedder
        summary = summary_record(
            whole,
            gapped.detection,
            memory,
            written,
            strategy=engine.strategy,
            embedding=embedder.name if embedder else "none",
            timings_ms={
                "gaps": gapped.gaps_ms,
                "memory": item.memory_ms,
                "summary": _elapsed_ms(started),
            },
        )
        body = summary.to_json()
        if whole.ref.final:
            await on_executor(lambda: engine.histories.put_summary(whole.ref.key, summary.summary_id, body))
        _count(engine, summary)
        return body

    done = settle(f"{step_id}_done", _concurrently(step_id, recalled, call, engine), engine)
    finished = op.filter_map_value(f"{step_id}_finished", done, _only(bytes))
    failed = op.filter_map_value(f"{step_id}_failed", done, _only(DeadLetter))
    return finished, op.map(f"{step_id}_letters", failed, lambda item: item[1])


def settle(step_id: str, done: KeyedStream[X], engine: Engine) -> KeyedStream[X]:
    """Count windows as done, so that the source may go on."""

    def count_down(item: tuple[str, X]) -> tuple[str, X]:
        engine.pending.add(-1)
        return item

    return op.map(step_id, done, count_down)


def _concurrently(
    step_id: str,
    up: KeyedStream[X],
    call: Callable[[X], Awaitable[Y]],
    engine: Engine,
    *,
    per_key: int = 8,
) -> KeyedStream[Y]:
    def build(resume: tuple[X, ...] | None) -> ConcurrentCalls[X, Y]:
        return ConcurrentCalls(call, resume, per_key=per_key, stopping=engine.stopping, fail=engine.fail)

    return op.stateful_batch(step_id, up, build)


def _is_arrival(item: Arrival | DeadLetter) -> TypeGuard[Arrival]:
    return isinstance(item, Arrival)


def _only(kind: type[Y]) -> Callable[[object], Y | None]:
    return lambda item: item if isinstance(item, kind) else None


def _parse(engine: Engine, received: Received) -> Arrival | DeadLetter:
    engine.counters["messages"] += 1
    MESSAGES.inc()
    try:
        if isinstance(received.value, MessageError):
            raise received.value
        return Arrival(parse_message(received.value, namespace=engine.namespace), received)
    except MessageError as err:
        return reject(engine, received, err)


def _turns(engine: Engine, window: Window) -> Sequence[Turn]:
    return window.turns or engine.histories.window_turns(window.ref)


def _give_up(engine: Engine, window: Window, reason: str) -> DeadLetter:
    engine.counters["failed"] += 1
    DEAD_LETTERS.inc()
    return DeadLetter((("window", summary_id(window.ref, engine.strategy)),), reason, b"")


def _count(engine: Engine, summary: Summary) -> None:
    engine.counters["summaries"] += 1
    engine.counters.update({f"{name}_tokens": summary.tokens[name] for name in ("prompt", "completion")})
    SUMMARIES.labels(summary.kind, "made").inc()
    if summary.degraded is not None:
        engine.counters["degraded"] += 1
        DEGRADED.labels(summary.degraded).inc()


def _elapsed_ms(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)
