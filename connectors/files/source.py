"""Files as a Bytewax source: one partition that reads them in the order given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from pathlib import Path

from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition

from backscroll.connectors.files.formats import FormatError, read_file
from backscroll.connectors.files.pace import Pace
from backscroll.operators.messages import MessageError, Received, parse_message
from backscroll.operators.runtime.feed import Feed

__all__ = ["FilesSource"]

_BATCH = 128

_WAIT, _LONGEST = timedelta(milliseconds=20), timedelta(milliseconds=200)


class FilesSource(FixedPartitionedSource[Received, int]):
    """Reads chat files from the start; the history store, not this source, knows what was processed.

    Args:
        files: paths and their formats, in order.
        speed: how many seconds of chat to replay in one second; None for as fast as possible.
        tz: the time zone of times that name none.
        counters: counts what the readers skip, by the reason.
        feed: the engine.
    """

    def __init__(
        self,
        files: Sequence[tuple[Path, str]],
        *,
        speed: float | None,
        tz: tzinfo | None = None,
        counters: Counter[str] | None = None,
        feed: Feed,
    ) -> None:
        self.feed = feed
        self._files = files
        self._speed = speed
        self._tz = tz
        self._counters = counters

    def list_parts(self) -> list[str]:
        """Bytewax: a single partition, so that channels keep the order of the files."""
        return ["files"]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> _FilesPartition:
        """Bytewax: called once, by the worker that reads."""
        del step_id, for_part
        received = (
            item
            for path, format_ in self._files
            for item in read_file(path, format_, tz=self._tz, counters=self._counters)
        )
        pace = None if self._speed is None else Pace(self._speed)
        return _FilesPartition(islice(received, resume_state or 0, None), self, pace, resume_state or 0)


class _FilesPartition(StatefulSourcePartition[Received, int]):
    def __init__(
        self, received: Iterator[Received], source: FilesSource, pace: Pace | None, read: int
    ) -> None:
        self._received = received
        self._feed = source.feed
        self._pace = pace
        self._read = read
        self._held: Received | None = None
        self._wait: timedelta | None = None

    def next_batch(self) -> list[Received]:
        """Bytewax: what to hand on now; nothing while the engine is busy or the next is not due."""
        self._wait = None
        if self._feed.stopping():
            raise StopIteration
        if self._feed.throttled():
            self._wait = _WAIT
            return []
        try:
            batch = list(islice(self._received, _BATCH)) if self._pace is None else self._due(self._pace)
        except FormatError as err:
            self._feed.fail(err)
            raise StopIteration from err
        self._read += len(batch)
        if not batch and self._wait is None:
            raise StopIteration
        return batch

    def next_awake(self) -> datetime | None:
        """Bytewax: when to ask again; None for at once."""
        return None if self._wait is None else datetime.now(UTC) + self._wait

    def snapshot(self) -> int:
        """Bytewax: how many items have been handed on."""
        return self._read

    def _due(self, pace: Pace) -> list[Received]:
        batch = list[Received]()
        while len(batch) < _BATCH:
            item = self._held or next(self._received, None)
            self._held = None
            if item is None:
                break
            ts = _time(item)
            wait = 0.0 if ts is None else pace.wait(ts)
            if wait > 0:
                self._held, self._wait = item, min(timedelta(seconds=wait), _LONGEST)
                break
            batch.append(item)
        return batch


def _time(item: Received) -> datetime | None:
    """When a message was written; None if the item is not a message."""
    try:
        return None if isinstance(item.value, MessageError) else parse_message(item.value).ts
    except MessageError:
        return None
