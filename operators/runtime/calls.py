"""Concurrent work beside the dataflow, so that no step blocks its worker and every channel keeps its order.

A step passes each item to a coroutine on one background event loop, and emits a key's results in the
order of its items. Items whose results have not been emitted are the step's state, so a restart issues
them again. Processor and disk work (embedding, retrieval, the store) runs on one executor thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, wait
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from functools import cache
from itertools import count
from queue import Empty, PriorityQueue
from typing import Any, Generic, TypeVar

from bytewax.operators import StatefulBatchLogic

from backscroll.operators.runtime.metrics import EXECUTOR_SECONDS
from backscroll.operators.runtime.state import Codec, Stamped

__all__ = ["ConcurrentCalls", "Grouped", "Work", "drain", "on_executor"]

X = TypeVar("X")
Y = TypeVar("Y")
_POLL = timedelta(milliseconds=10)
_ARRIVAL = count()


class Work(IntEnum):
    """Kinds of work on the executor; the lowest value runs first.

    Later stages run before earlier ones, so that summaries appear as windows close, not after all have.
    """

    STOP = -1
    SUMMARY = 0
    MEMORY = 1
    GAPS = 2
    STORE = 3
    RECORD = 4


async def on_executor(work: Callable[[], Y], kind: Work = Work.SUMMARY) -> Y:
    """Run processor or disk work on the executor thread."""
    future: Future[Y] = Future()
    _queue().put((kind, next(_ARRIVAL), work, future))
    return await asyncio.wrap_future(future)


class Grouped(Generic[X, Y]):
    """Executor work that is cheaper for several items at once.

    Items that arrive while the executor is busy are processed together, in order.

    Args:
        work: processes a group, and returns one result per item.
        kind: the kind of work.
        most: most items in a group.
    """

    def __init__(self, work: Callable[[list[X]], Sequence[Y]], kind: Work, *, most: int = 64) -> None:
        self._work = work
        self._kind = kind
        self._most = most
        self._waiting: deque[tuple[X, asyncio.Future[Y]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, item: X) -> Y:
        """Return the item's result, or raise the error of its group."""
        done: asyncio.Future[Y] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        return await done

    async def _run(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # let other ready items join
            await self._do([self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))])

    async def _do(self, group: list[tuple[X, asyncio.Future[Y]]]) -> None:
        try:
            results = await on_executor(lambda: self._work([item for item, _ in group]), self._kind)
        except Exception as err:
            for _, done in group:
                if not done.done():
                    done.set_exception(err)
            return
        for (_, done), result in zip(group, results, strict=True):
            if not done.done():
                done.set_result(result)


def drain() -> None:
    """Cancel what is in flight, and wait for the piece of work that is running.

    Call it before closing what the work uses, such as the store. After an orderly end nothing is left.
    """

    async def cancel() -> None:
        calls = asyncio.all_tasks() - {asyncio.current_task()}
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    waiting = _queue()
    cancelled = asyncio.run_coroutine_threadsafe(cancel(), _loop())
    while True:
        try:
            waiting.get_nowait()[3].cancel()
        except Empty:
            break
    last: Future[None] = Future()
    waiting.put((Work.STOP, next(_ARRIVAL), lambda: None, last))
    last.result()
    cancelled.result()


class ConcurrentCalls(StatefulBatchLogic[X, Y, Stamped], Generic[X, Y]):
    """Calls in flight for one key.

    Args:
        call: processes an item. Errors that the flow can survive are returned as results.
        in_flight: items that were in flight when the dataflow stopped.
        codec: encodes the items.
        per_key: most items of the key in flight at once.
        stopping: set when the dataflow should stop without waiting for what is in flight.
        fail: called with the exception that a call raised; it must set `stopping`. The item stays in
            flight.
    """

    def __init__(
        self,
        call: Callable[[X], Awaitable[Y]],
        in_flight: Sequence[X],
        *,
        codec: Codec,
        per_key: int,
        stopping: threading.Event,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._call = call
        self._codec = codec
        self._lane = asyncio.Semaphore(per_key)
        self._stopping = stopping
        self._fail = fail
        self._queue: deque[tuple[X, Future[Y]]] = deque()
        for item in in_flight:
            self._submit(item)

    def on_batch(self, values: list[X]) -> tuple[list[Y], bool]:
        """Bytewax: new items of the key."""
        for value in values:
            self._submit(value)
        return self._drain()

    def on_notify(self) -> tuple[list[Y], bool]:
        """Bytewax: check for results."""
        return self._drain()

    def on_eof(self) -> tuple[list[Y], bool]:
        """Bytewax: the input has ended; wait for what is in flight, unless the dataflow is stopping."""
        for _, future in self._queue:
            while not future.done() and not self._stopping.is_set():
                wait([future], timeout=0.1)  # returns to Python often enough to handle a signal
        return self._drain()

    def notify_at(self) -> datetime | None:
        """Bytewax: when to check again; None while nothing is in flight."""
        return datetime.now(UTC) + _POLL if self._queue and not self._stopping.is_set() else None

    def snapshot(self) -> Stamped:
        """Bytewax: the items whose results have not been emitted."""
        return self._codec.encode(tuple(item for item, _ in self._queue))

    def _submit(self, item: X) -> None:
        self._queue.append((item, asyncio.run_coroutine_threadsafe(self._run(item), _loop())))

    async def _run(self, item: X) -> Y:
        async with self._lane:
            return await self._call(item)

    def _drain(self) -> tuple[list[Y], bool]:
        results = []
        while self._queue and self._queue[0][1].done():
            if self._queue[0][1].cancelled():
                break
            if error := self._queue[0][1].exception():
                self._fail(error)
                break
            results.append(self._queue.popleft()[1].result())
        return results, not self._queue


@cache
def _queue() -> PriorityQueue[tuple[Work, int, Callable[[], Any], Future[Any]]]:
    # One thread, because the embedder's tokenizer is not thread-safe and appends must stay in order.
    waiting: PriorityQueue[tuple[Work, int, Callable[[], Any], Future[Any]]] = PriorityQueue()
    threading.Thread(target=_work, args=(waiting,), name="backscroll-work", daemon=True).start()
    return waiting


def _work(waiting: PriorityQueue[tuple[Work, int, Callable[[], Any], Future[Any]]]) -> None:
    while True:
        kind, _, work, future = waiting.get()
        if not future.set_running_or_notify_cancel():
            continue
        started = time.perf_counter()
        try:
            future.set_result(work())
        except BaseException as err:
            future.set_exception(err)
        EXECUTOR_SECONDS.labels(kind.name.lower()).inc(time.perf_counter() - started)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="backscroll-calls", daemon=True).start()
    return loop
