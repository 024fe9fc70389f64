"""Kafka topics as a Bytewax source: one Bytewax partition for each partition of a topic.

Partitions are assigned, not subscribed to: Bytewax's recovery store keeps the offsets. Each channel must
stay in one partition, or its messages interleave differently from run to run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from kafka import TopicPartition, errors

from backscroll.connectors.kafka.connection import BatchError, KafkaConnection, KafkaError
from backscroll.connectors.kafka.group_offsets import GroupOffsets
from backscroll.connectors.kafka.reader import OnLost, PartitionReader, Place, Start
from backscroll.connectors.kafka.records import receive
from backscroll.operators.messages import Received
from backscroll.operators.runtime.feed import Feed
from backscroll.operators.stream.event_clock import EventClock

__all__ = ["KafkaSource", "State"]

# Version, next offset (None before one is known), greatest event time.
State: TypeAlias = tuple[int, int | None, datetime | None]

_LOG = logging.getLogger(__name__)
_VERSION = 1
_THROTTLED = timedelta(milliseconds=20)
_SHORTEST, _LONGEST = timedelta(milliseconds=1), timedelta(milliseconds=100)
_AWAY_SECONDS = 1.0  # without a connection, before a log line says so
_QUIET_SECONDS = 2.0  # without expected records, before checking whether an open transaction holds them back
_TROUBLE_SECONDS = 10.0  # of nothing but errors, before giving up
_MISPLACED_SECONDS = 5.0  # beyond the end; longer than the election of a leader takes


class KafkaSource(FixedPartitionedSource[Received, State]):
    """Reads topics; partitions are named `topic:partition`.

    Args:
        connection: the cluster.
        topics: the topics to read, with all their partitions.
        start: where to start partitions without a snapshot: `earliest`, `latest`, or a time, for the first
            record whose Kafka timestamp is not before it.
        on_lost: what to do if a snapshot's offset no longer exists: `stop`, or continue at the `earliest`.
        lateness: how much older than the latest event time a message may be.
        group: a consumer group to commit offsets to, for lag tools; None to commit nothing.
        feed: the engine.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topics: Iterable[str],
        *,
        feed: Feed,
        start: Start = "earliest",
        on_lost: OnLost = "stop",
        lateness: timedelta = timedelta(),
        group: str | None = None,
    ) -> None:
        self.feed = feed
        self.on_lost: OnLost = on_lost
        self.lag = None if group is None else GroupOffsets(connection, group)
        self._connection = connection
        self._topics = tuple(dict.fromkeys(topics))
        self._start: Start = start
        self._lateness = lateness
        self._open = 0

    def list_parts(self) -> list[str]:
        """Bytewax: every partition. Also checks that the cluster answers and the topics exist.

        Raises:
            KafkaError: as `KafkaConnection.partitions`.
        """
        counts = self._connection.partitions(self._topics)
        self.feed.progress.listed(sum(counts.values()))
        return [f"{topic}:{number}" for topic in self._topics for number in range(counts[topic])]

    def build_part(self, step_id: str, for_part: str, resume_state: State | None) -> _KafkaPartition:
        """Bytewax: called once for each partition, by the worker that reads it; may take seconds."""
        del step_id
        version, offset, greatest = resume_state or (_VERSION, None, None)
        if version != _VERSION:
            msg = f"{for_part}: the recovery store has version {version}: this program reads {_VERSION}"
            raise KafkaError(msg)
        topic, _, number = for_part.rpartition(":")
        at = TopicPartition(topic, int(number))
        self._open += 1
        part = _KafkaPartition(self, at, offset, EventClock(greatest, self._lateness))
        try:
            part.open(PartitionReader(self._connection, at), self._start)
        except KafkaError as err:
            self.feed.fail(err)
        return part

    def part_closed(self) -> None:
        """Note that a partition is closed; the last one stops the commits."""
        self._open -= 1
        if self._open == 0 and self.lag is not None:
            self.lag.close()


class _KafkaPartition(StatefulSourcePartition[Received, State]):
    def __init__(self, source: KafkaSource, at: TopicPartition, next_: int | None, clock: EventClock) -> None:
        self._source = source
        self._feed = source.feed
        self._at = at
        self._part = f"{at.topic}:{at.partition}"
        self._next = next_
        self._clock = clock
        self._reader: PartitionReader | None = None
        self._pause = _SHORTEST  # before the next poll; grows while nothing comes
        self._awake: datetime | None = None
        self._quiet: float | None = None  # since when a connected broker sent nothing
        self._away: float | None = None
        self._trouble: float | None = None  # since when every answer was an error
        self._away_logged = False
        self._at_end = False
        self._feed.at_end(self._part, False)

    def open(self, reader: PartitionReader, start: Start) -> None:
        """Start reading; without this call, the input ends at once.

        Raises:
            KafkaError: the offset no longer exists, or the partition's broker does not answer.
        """
        try:
            self._go_on(reader.begin(self._next, start, self._source.on_lost))
        except KafkaError:
            reader.close()
            raise
        self._reader = reader
        self._feed.progress.assigned(self._part, self._next)

    def next_batch(self) -> list[Received]:
        """Bytewax: what has arrived; nothing while the engine is busy or nothing is there."""
        reader = self._reader
        if reader is None or self._feed.stopping():
            raise StopIteration
        if self._feed.throttled():
            self._quiet = None
            return self._wait(_THROTTLED)
        try:
            records = reader.poll()
            if not records:
                self._idle(reader)
                self._pause = min(self._pause * 2, _LONGEST)
                return self._wait(self._pause)
        except BatchError as err:
            self._feed.fail(err)
            self._close_reader()
            return []
        except errors.OffsetOutOfRangeError:
            self._misplaced(reader)
            return self._wait(_LONGEST)
        except errors.LogTruncationError as err:
            self._truncated(reader, err)
            return self._wait(_LONGEST)
        except errors.RetriableError:
            return self._wait(_LONGEST)
        except (errors.KafkaError, ValueError) as err:
            self._troubled(err)
            return self._wait(_LONGEST)
        self._awake = self._quiet = self._trouble = None
        self._pause = _SHORTEST
        self._tell_at_end(False)
        now = datetime.now(UTC)
        self._next = records[-1].offset + 1
        self._tell_at_end(reader.highwater is not None and self._next >= reader.highwater)
        return [receive(record, self._part, self._clock, now) for record in records]

    def next_awake(self) -> datetime | None:
        """Bytewax: when to ask again; None for at once."""
        return self._awake

    def snapshot(self) -> State:
        """Bytewax: version, next offset, greatest event time, at the close of each epoch."""
        if self._source.lag is not None and self._next is not None:
            self._source.lag.snapshot(self._at.topic, self._at.partition, self._next)
        self._feed.progress.epoch_closed(self._part, self._next)
        return _VERSION, self._next, self._clock.greatest

    def close(self) -> None:
        """Bytewax: at the end of the input; never raises."""
        self._close_reader()
        self._source.part_closed()

    def _wait(self, pause: timedelta) -> list[Received]:
        """Return nothing, and ask again after the pause."""
        self._awake = datetime.now(UTC) + pause
        return []

    def _idle(self, reader: PartitionReader) -> None:
        """Nothing arrived: find out whether this is the end or the broker is unreachable."""
        now = time.monotonic()
        if not self._check_connection(reader, now):
            return
        position, highwater = reader.position, reader.highwater
        if position is None or highwater is None:
            return
        self._quiet = self._quiet or now
        if position > highwater:
            if now - self._quiet > _MISPLACED_SECONDS:
                self._misplaced(reader, highwater)
            return
        self._next = position
        if position == highwater:
            self._tell_at_end(True)
        elif now - self._quiet > _QUIET_SECONDS:
            self._quiet = now
            if reader.is_last_committed(position):
                self._tell_at_end(True)

    def _check_connection(self, reader: PartitionReader, now: float) -> bool:
        if reader.connected:
            if self._away_logged:
                _LOG.warning("%s: the broker is back", self._part)
            self._away, self._away_logged = None, False
            return True
        self._quiet = None
        self._tell_at_end(False)
        self._away = self._away or now
        if not self._away_logged and now - self._away > _AWAY_SECONDS:
            self._away_logged = True
            _LOG.warning("%s: the broker is unreachable: retrying until it is back", self._part)
        return False

    def _misplaced(self, reader: PartitionReader, highwater: int = 0) -> None:
        """The broker does not know the offset: continue elsewhere or fail, depending on the policy."""
        self._quiet = None
        try:
            self._go_on(reader.find(self._next or 0, self._source.on_lost, highwater))
        except KafkaError as err:
            self._feed.fail(err)
            self._close_reader()
        except errors.KafkaError:
            reader.seek(self._next or 0)  # the broker is unreachable now: retry later

    def _go_on(self, place: Place) -> None:
        self._next = place.offset
        if place.warning is not None:
            _LOG.warning("%s", place.warning)
            self._feed.lost(self._at.topic, self._at.partition, place.lost)

    def _truncated(self, reader: PartitionReader, err: errors.LogTruncationError) -> None:
        """An unclean election replaced records already read: read the new ones (KIP-320)."""
        found = err.divergent_offsets.get(self._at)
        if found is None:
            self._misplaced(reader)
            return
        _LOG.warning("%s: the log was truncated at offset %d: continuing there", self._part, found.offset)
        reader.seek(found.offset)
        self._next = found.offset

    def _tell_at_end(self, at_end: bool) -> None:
        if at_end != self._at_end:
            self._at_end = at_end
            self._feed.at_end(self._part, at_end)

    def _troubled(self, err: Exception) -> None:
        """An error that is unlikely to pass: fail if it persists, or at once if access is denied."""
        now = time.monotonic()
        self._trouble = self._trouble or now
        why = f"{self._at.topic}[{self._at.partition}]: {type(err).__name__} at offset {self._next}"
        if isinstance(err, errors.AuthorizationError | errors.SaslAuthenticationFailedError):
            self._feed.fail(KafkaError(f"{why}: access denied: check the login and its ACL"))
        elif now - self._trouble > _TROUBLE_SECONDS:
            self._feed.fail(KafkaError(f"{why}: cannot read the partition: check it with Kafka's own tools"))
        else:
            return
        self._close_reader()

    def _close_reader(self) -> None:
        """Close the reader, which ends the input."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
