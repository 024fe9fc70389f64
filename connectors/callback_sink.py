"""A Bytewax sink that passes each batch to a function in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from bytewax.outputs import DynamicSink, StatelessSinkPartition

__all__ = ["CallbackSink"]

X = TypeVar("X")


class CallbackSink(DynamicSink[X]):
    """Calls `write` with every batch, on the worker that produced it. An exception stops the dataflow."""

    def __init__(self, write: Callable[[Sequence[X]], None]) -> None:
        self._write = write

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _CallbackPartition[X]:
        """Bytewax: called once on each worker."""
        del step_id, worker_index, worker_count
        return _CallbackPartition(self._write)


class _CallbackPartition(StatelessSinkPartition[X]):
    def __init__(self, write: Callable[[Sequence[X]], None]) -> None:
        self._write = write

    def write_batch(self, items: list[X]) -> None:
        self._write(items)
