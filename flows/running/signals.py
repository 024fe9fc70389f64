"""Signals: the first one requests an orderly stop; a second one of the same kind ends the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["StopSignal", "handle_signals", "kill_after"]


class StopSignal(threading.Event):
    """Set by the first interrupt or termination signal; `signal` is its number, or 0 before that."""

    signal = 0


@contextmanager
def handle_signals(stop: StopSignal | None = None) -> Iterator[StopSignal]:
    """A `StopSignal` (by default a new one) that this process's signals set while the context is open."""
    stop = stop or StopSignal()

    def ask(number: int, _: Any) -> None:
        stop.signal = number
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def kill_after(stopping: threading.Event, seconds: float, exit_code: Callable[[], int]) -> Iterator[None]:
    """Kill the process if the context is still open `seconds` after `stopping` was set.

    This is as safe as any crash: what the dataflow was writing is stored completely or not at all.
    """
    over = threading.Event()

    def watch() -> None:
        while not stopping.wait(0.1):
            if over.is_set():
                return
        if not over.wait(seconds):
            os._exit(exit_code())

    threading.Thread(target=watch, name="backscroll-stop", daemon=True).start()
    try:
        yield
    finally:
        over.set()
