from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from functools import partial
from queue import Queue

import pytest

from backscroll.operators.runtime.calls import ConcurrentCalls, drain, on_executor
from backscroll.operators.runtime.state import Codec, Stamped

PATIENCE = 10.0
CODEC = Codec({})


class Works:
    """Calls that start at once and return the item in upper case when the test lets them."""

    def __init__(self, items: Iterable[str] = "abcdef") -> None:
        self.gates: dict[str, Future[None]] = {item: Future() for item in items}
        self.begun: Queue[str] = Queue()
        self.running = 0
        self.most = 0

    async def call(self, item: str) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        self.begun.put(item)
        try:
            await asyncio.wrap_future(self.gates[item])
        finally:
            self.running -= 1
        return item.upper()

    def finish(self, *items: str) -> None:
        for item in items:
            self.gates[item].set_result(None)

    def begin(self, number: int) -> list[str]:
        """The next calls to start."""
        return [self.begun.get(timeout=PATIENCE) for _ in range(number)]


class Step:
    """A step over `Works` for one key, as Bytewax would drive it."""

    def __init__(self, works: Works, resume: Stamped | None = None, *, per_key: int = 8) -> None:
        self.stopping = threading.Event()
        self.failures: list[BaseException] = []
        self.calls = ConcurrentCalls(
            works.call,
            CODEC.decode(resume) or (),
            codec=CODEC,
            per_key=per_key,
            stopping=self.stopping,
            fail=self.fail,
        )

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)
        self.stopping.set()

    def results(self, number: int) -> list[str]:
        """Poll until this many results have been emitted."""
        results, deadline = list[str](), time.monotonic() + PATIENCE
        while len(results) < number and time.monotonic() < deadline:
            emitted, _ = self.calls.on_notify()
            results += emitted
        return results

    def end(self) -> tuple[list[str], bool]:
        """Signal the end of the input to the step; fails if the step waits too long."""
        ended: Future[tuple[list[str], bool]] = Future()
        threading.Thread(target=lambda: ended.set_result(self.calls.on_eof()), daemon=True).start()
        return ended.result(timeout=PATIENCE)

    def failed(self) -> BaseException:
        """Poll until a call failed."""
        deadline = time.monotonic() + PATIENCE
        while not self.failures and time.monotonic() < deadline:
            assert self.calls.on_notify() == ([], False)
        return self.failures[0]


def test_results_keep_the_order_of_their_items_even_if_calls_finish_out_of_order() -> None:
    works = Works()
    step = Step(works)
    assert step.calls.on_batch(["a", "b", "c"]) == ([], False)
    assert sorted(works.begin(3)) == ["a", "b", "c"]
    works.finish("c", "b")
    assert step.calls.on_notify() == ([], False)
    assert step.calls.snapshot() == CODEC.encode(("a", "b", "c"))
    works.finish("a")
    assert step.results(3) == ["A", "B", "C"]
    assert step.calls.snapshot() == CODEC.encode(())


def test_a_key_with_nothing_in_flight_is_discarded() -> None:
    works = Works()
    step = Step(works)
    step.calls.on_batch(["a", "b"])
    works.finish("a", "b")
    emitted, discard = list[str](), False
    deadline = time.monotonic() + PATIENCE
    while not discard and time.monotonic() < deadline:
        more, discard = step.calls.on_notify()
        emitted += more
        assert discard == (emitted == ["A", "B"])
    assert emitted == ["A", "B"]


def test_a_key_never_exceeds_its_number_of_concurrent_calls() -> None:
    works = Works()
    step = Step(works, per_key=2)
    step.calls.on_batch(list("abcdef"))
    assert sorted(works.begin(2)) == ["a", "b"]
    works.finish("b")
    assert works.begin(1) == ["c"]
    works.finish(*"acdef")
    assert step.results(6) == list("ABCDEF")
    assert works.most == 2


def test_keys_do_not_wait_for_each_other() -> None:
    works = Works()
    slow, quick = Step(works, per_key=1), Step(works, per_key=1)
    slow.calls.on_batch(["a"])
    quick.calls.on_batch(["b"])
    works.finish("b")
    assert quick.results(1) == ["B"]
    assert slow.calls.snapshot() == CODEC.encode(("a",))
    works.finish("a")
    assert slow.results(1) == ["A"]


def test_what_was_in_flight_at_a_snapshot_is_issued_again() -> None:
    works = Works()
    step = Step(works)
    step.calls.on_batch(["a", "b", "c"])
    works.finish("a")
    assert step.results(1) == ["A"]
    state = step.calls.snapshot()
    assert state == CODEC.encode(("b", "c"))

    again = Works()
    resumed = Step(again, state)
    assert sorted(again.begin(2)) == ["b", "c"]
    resumed.calls.on_batch(["d"])
    again.finish("d", "c", "b")
    assert resumed.results(3) == ["B", "C", "D"]
    works.finish("b", "c")


def test_a_call_that_raises_stops_the_flow_and_its_item_stays_in_flight() -> None:
    works = Works()
    step = Step(works)
    step.calls.on_batch(["a", "b", "c"])
    error = ValueError("the model is gone")
    works.finish("a", "c")
    assert step.results(1) == ["A"]
    works.gates["b"].set_exception(error)
    assert step.failed() is error
    assert step.calls.snapshot() == CODEC.encode(("b", "c"))
    assert step.calls.notify_at() is None
    assert step.end() == ([], False)
    assert step.calls.snapshot() == CODEC.encode(("b", "c"))


def test_while_calls_are_in_flight_results_are_checked_for_soon() -> None:
    works = Works()
    step = Step(works)
    assert step.calls.notify_at() is None
    step.calls.on_batch(["a"])
    at = step.calls.notify_at()
    assert at is not None
    assert at - datetime.now(UTC) <= timedelta(milliseconds=10)
    works.finish("a")
    assert step.results(1) == ["A"]
    assert step.calls.notify_at() is None


def test_the_end_of_the_input_waits_for_what_is_in_flight() -> None:
    works = Works()
    step = Step(works)
    step.calls.on_batch(["a", "b"])
    ended = list[tuple[list[str], bool]]()
    waiting = threading.Thread(target=lambda: ended.append(step.calls.on_eof()), daemon=True)
    waiting.start()
    works.finish("b")
    waiting.join(timeout=0.2)
    assert waiting.is_alive()
    works.finish("a")
    waiting.join(timeout=PATIENCE)
    assert ended == [(["A", "B"], True)]


def test_the_end_of_the_input_does_not_wait_when_the_flow_is_stopping() -> None:
    works = Works()
    step = Step(works)
    step.calls.on_batch(["a", "b"])
    works.begin(2)
    step.stopping.set()
    assert step.end() == ([], False)
    assert step.calls.snapshot() == CODEC.encode(("a", "b"))
    works.finish("a", "b")


def test_the_wait_at_the_end_of_the_input_ends_when_the_flow_is_stopping() -> None:
    works = Works()
    step = Step(works)
    step.calls.on_batch(["a"])
    ended = list[tuple[list[str], bool]]()
    waiting = threading.Thread(target=lambda: ended.append(step.calls.on_eof()), daemon=True)
    waiting.start()
    works.begin(1)
    step.stopping.set()
    waiting.join(timeout=PATIENCE)
    assert ended == [([], False)]
    works.finish("a")


def test_work_for_the_processor_runs_on_one_thread_in_order() -> None:
    async def several() -> list[tuple[int, str]]:
        def work(number: int) -> tuple[int, str]:
            done.append(number)
            return number, threading.current_thread().name

        return list(await asyncio.gather(*(on_executor(partial(work, n)) for n in range(20))))

    done = list[int]()
    results = asyncio.run(several())
    assert [number for number, _ in results] == done == list(range(20))
    assert len({thread for _, thread in results}) == 1
    assert results[0][1].startswith("backscroll-work")


def test_an_error_in_work_on_the_executor_reaches_the_caller() -> None:
    async def broken() -> None:
        await on_executor(lambda: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(broken())


def test_draining_cancels_waiting_work_and_lets_running_work_finish() -> None:
    started, release, done = threading.Event(), threading.Event(), list[str]()

    def work(name: str) -> str:
        started.set()
        release.wait(10)
        done.append(name)
        return name

    async def call(name: str) -> str:
        return await on_executor(lambda: work(name))

    calls = ConcurrentCalls(call, (), codec=CODEC, per_key=9, stopping=threading.Event(), fail=lambda _: None)
    calls.on_batch(["running", "waiting"])
    assert started.wait(10)
    threading.Timer(0.1, release.set).start()
    drain()
    assert done == ["running"]
    # Neither was emitted: a restart issues both again.
    assert calls.snapshot() == CODEC.encode(("running", "waiting"))
