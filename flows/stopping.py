"""Signals: the first asks for an orderly stop, a second one of its kind ends the process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Stop", "stoppable"]


class Stop(threading.Event):
    """Set by the first interrupt or termination signal; `signal` is its number, 0 before."""

    signal = 0


@contextmanager
def stoppable() -> Iterator[Stop]:
    """A `Stop` that signals of this process set while the context lasts."""
    stop = Stop()

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
