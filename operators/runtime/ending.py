"""Makes a dataflow fail as a whole when one of its steps fails, however it is run.

An error raised in a step would end the dataflow while other steps still have results to pass on, and
raised in a sink that is closing it could abort the process. So the input ends first, and finished
results are written. Then a second source, which outlives the first, raises the error.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from backscroll.operators.runtime.runtime import Runtime

__all__ = ["EndSink", "FailureSource"]

_POLL = timedelta(milliseconds=10)


class EndSink(DynamicSink[Any]):
    """Discards its input; `reached` is true once all its streams in this process have ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._closed = False

    @property
    def reached(self) -> bool:
        """Whether no more results will arrive."""
        return self._closed and not self._open

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _EndPartition:
        """Bytewax: called once on each worker."""
        del step_id, worker_index, worker_count
        self.count(1)
        return _EndPartition(self)

    def count(self, opened: int) -> None:
        """Add opened partitions; a negative number removes closed ones."""
        with self._lock:
            self._open += opened
            self._closed = self._closed or opened < 0


class _EndPartition(StatelessSinkPartition[Any]):
    def __init__(self, end: EndSink) -> None:
        self._end = end

    def write_batch(self, items: list[Any]) -> None:
        """Bytewax: results; other sinks write them."""

    def close(self) -> None:
        """Bytewax: the streams have ended."""
        self._end.count(-1)


class FailureSource(DynamicSource[Any]):
    """Emits nothing. When the results have ended, it ends too or raises the error that stopped the flow.

    It leaves nothing in the recovery store: another process, with another failure, resumes the dataflow.

    Args:
        runtime: holds the failure.
        end: the sink that receives all results.
    """

    def __init__(self, runtime: Runtime, end: EndSink) -> None:
        self._runtime = runtime
        self._end = end

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _FailurePartition:
        """Bytewax: called once on each worker."""
        del step_id, worker_index, worker_count
        return _FailurePartition(self._runtime, self._end)


class _FailurePartition(StatelessSourcePartition[Any]):
    def __init__(self, runtime: Runtime, end: EndSink) -> None:
        self._runtime = runtime
        self._end = end

    def next_batch(self) -> list[Any]:
        """Bytewax: nothing, until the results have ended."""
        if not self._end.reached:
            return []
        self._runtime.raise_failure()
        raise StopIteration

    def next_awake(self) -> datetime:
        """Bytewax: when to ask again."""
        return datetime.now(UTC) + _POLL
