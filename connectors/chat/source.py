"""A live chat platform as a Bytewax source. Its only partition is the inbox that a listener fills."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition

from backscroll.connectors.chat.inbox import Entry, Inbox
from backscroll.connectors.chat.listener import Listener
from backscroll.connectors.kafka.source import State
from backscroll.operators.messages import Received
from backscroll.operators.runtime.feed import Feed
from backscroll.operators.stream.event_clock import EventClock

__all__ = ["InboxSource"]

_VERSION = 1
_BATCH = 128
_THROTTLED = timedelta(milliseconds=20)
_PAUSE = timedelta(milliseconds=50)
_SAFE = timedelta(seconds=30)  # after this time, no restart returns to before a snapshot


class InboxSource(FixedPartitionedSource[Received, State]):
    """Reads the inbox of a listener, which it starts and stops.

    Args:
        listener: fills the inbox.
        feed: the engine.
        lateness: how much older than the latest event time a message may be.
        keep: how long events stay in the inbox after the dataflow has finished with them.
    """

    def __init__(
        self, listener: Listener, *, feed: Feed, lateness: timedelta = timedelta(), keep: timedelta
    ) -> None:
        self.listener = listener
        self.feed = feed
        self.lateness = lateness
        self.keep = keep

    def list_parts(self) -> list[str]:
        """Bytewax: a single partition, in which every channel keeps its order."""
        self.feed.progress.listed(1)
        return [self.listener.name]

    def build_part(self, step_id: str, for_part: str, resume_state: State | None) -> _InboxPartition:
        """Bytewax: called once, by the worker that reads."""
        del step_id
        _, offset, greatest = resume_state or (_VERSION, None, None)
        part = _InboxPartition(self, Inbox(self.listener.path), for_part, offset or 0, greatest)
        self.listener.start()
        self.feed.progress.assigned(for_part, offset)
        return part


class _InboxPartition(StatefulSourcePartition[Received, State]):
    def __init__(
        self, source: InboxSource, inbox: Inbox, part: str, offset: int, greatest: datetime | None
    ) -> None:
        self._feed = source.feed
        self._listener = source.listener
        self._keep = source.keep
        self._inbox = inbox
        self._part = part
        self._offset = offset
        self._clock = EventClock(greatest, source.lateness)
        self._awake: datetime | None = None
        self._trimmed: tuple[datetime, int] | None = None  # when next, and up to where
        self._feed.at_end(part, False)

    def next_batch(self) -> list[Received]:
        """Bytewax: what has arrived; nothing while the engine is busy or nothing is there."""
        if self._feed.stopping():
            raise StopIteration
        if self._listener.error is not None:
            self._fail(self._listener.error)
        if self._feed.throttled():
            return self._wait(_THROTTLED)
        is_current = self._listener.is_current
        entries = self._inbox.read(self._offset, _BATCH)
        if not entries:
            self._feed.at_end(self._part, is_current)
            return self._wait(_PAUSE)
        self._feed.at_end(self._part, False)
        self._awake = None
        self._offset = entries[-1].number
        now = datetime.now(UTC)
        return [self._received(entry, now) for entry in entries]

    def next_awake(self) -> datetime | None:
        """Bytewax: when to ask again; None for at once."""
        return self._awake

    def snapshot(self) -> State:
        """Bytewax: version, offset, greatest event time, at the close of each epoch."""
        now = datetime.now(UTC)
        if self._trimmed is None or now > self._trimmed[0]:
            if self._trimmed is not None:
                self._inbox.trim(self._trimmed[1], self._keep)
            self._trimmed = now + _SAFE, self._offset
        self._feed.progress.epoch_closed(self._part, self._offset)
        return _VERSION, self._offset, self._clock.greatest

    def close(self) -> None:
        """Bytewax: at the end of the input."""
        self._listener.close()
        self._inbox.close()

    def _received(self, entry: Entry, now: datetime) -> Received:
        value = orjson.loads(entry.body)
        origin = (("source", self._part), ("channel", entry.channel), ("id", entry.id))
        return Received(value, origin, entry.body, self._part, self._clock.see(value, now))

    def _wait(self, pause: timedelta) -> list[Received]:
        self._awake = datetime.now(UTC) + pause
        return []

    def _fail(self, error: BaseException) -> None:
        self._feed.fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))
        raise StopIteration
