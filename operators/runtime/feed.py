"""The link between a source and the engine; `fed` wraps sources that do not use it themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from bytewax.inputs import (
    DynamicSource,
    FixedPartitionedSource,
    Source,
    StatefulSourcePartition,
    StatelessSourcePartition,
)

from backscroll.operators.runtime.progress import ProgressRecorder

__all__ = ["Feed", "fed"]

X = TypeVar("X")

_WAIT = timedelta(milliseconds=20)
_LOOK = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class Feed:
    """The functions through which a source talks to the engine, on the worker's thread.

    throttled: whether to wait because too much is in flight.
    stopping: whether to end now.
    fail: report the error that prevents further reading; the input then ends.
    lost: report messages that were skipped: topic, partition, number of messages.
    at_end: report by partition name whether everything in the partition has been read.
    progress: records which partitions are read, and how far at the close of each epoch.
    """

    throttled: Callable[[], bool]
    stopping: Callable[[], bool]
    fail: Callable[[Exception], None]
    lost: Callable[[str, int, int], None]
    at_end: Callable[[str, bool], None]
    progress: ProgressRecorder = field(default_factory=ProgressRecorder)


def fed(source: Source[X], feed: Feed) -> Source[X]:
    """A source that waits while the engine is busy, and ends when the engine stops.

    A source with a `feed` does this itself and is returned unchanged.
    """
    if isinstance(getattr(source, "feed", None), Feed):
        return source
    if isinstance(source, FixedPartitionedSource):
        return _FedSource(source, feed)
    if isinstance(source, DynamicSource):
        return _FedDynamicSource(source, feed)
    raise TypeError(f"{source!r} is not a Bytewax source")


class _FedSource(FixedPartitionedSource[Any, Any]):
    def __init__(self, source: FixedPartitionedSource[Any, Any], feed: Feed) -> None:
        self._source = source
        self._feed = feed

    def list_parts(self) -> list[str]:
        """Bytewax: the partitions of the wrapped source."""
        return self._source.list_parts()

    def build_part(self, step_id: str, for_part: str, resume_state: Any) -> _FedPartition:
        """Bytewax: a partition of the source."""
        return _FedPartition(self._source.build_part(step_id, for_part, resume_state), self._feed)


class _FedDynamicSource(DynamicSource[Any]):
    def __init__(self, source: DynamicSource[Any], feed: Feed) -> None:
        self._source = source
        self._feed = feed

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _FedStatelessPartition:
        """Bytewax: the source's partition on a worker."""
        return _FedStatelessPartition(self._source.build(step_id, worker_index, worker_count), self._feed)


class _Gate:
    """Checks with the engine before each batch of a partition."""

    def __init__(self, part: StatefulSourcePartition[Any, Any] | StatelessSourcePartition[Any], feed: Feed):
        self._part = part
        self._feed = feed
        self._due: datetime | None = None  # when the source's next batch is due
        self._asked = False  # whether `_due` is of the latest batch; sources may count it from when asked
        self._throttled = False

    def next_batch(self) -> Iterable[Any]:
        """Bytewax: the source's next batch; nothing while the engine is busy or the batch is not due."""
        if self._feed.stopping():
            raise StopIteration
        self._throttled = self._feed.throttled()
        if self._throttled or (self._due is not None and self._due > datetime.now(UTC)):
            return []
        self._asked = False
        return self._part.next_batch()

    def next_awake(self) -> datetime | None:
        """Bytewax: when to ask again, soon enough to see that the engine stops; None for at once."""
        if not self._asked:
            self._asked, self._due = True, self._part.next_awake()
        now = datetime.now(UTC)
        if self._throttled:
            return now + _WAIT
        return self._due and min(self._due, now + _LOOK)

    def close(self) -> None:
        """Bytewax: at the end of the input."""
        self._part.close()


class _FedPartition(_Gate, StatefulSourcePartition[Any, Any]):
    def snapshot(self) -> Any:
        """Bytewax: the state of the source."""
        assert isinstance(self._part, StatefulSourcePartition)
        return self._part.snapshot()


class _FedStatelessPartition(_Gate, StatelessSourcePartition[Any]):
    pass
