"""Write summaries, dead letters and a debug stream to Kafka topics.

A summary's key is its `summary_id`, so that a compacted topic keeps the newest revision. Its partition is
that of its channel, so that a reader of one partition sees whole channels. A tombstone is a record without
a value. Delivery is at least once; repeated records have the same id and body.

Records above the brokers' size limit do not stop the engine. A summary becomes a dead letter and a
tombstone, so that no older revision remains; a dead letter is shortened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import orjson
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from backscroll.connectors.kafka.connection import KafkaConnection, RecordTooLargeError
from backscroll.connectors.kafka.delivery import Delivery, Record, partition_of
from backscroll.operators.messages import DeadLetter
from backscroll.operators.summary.record import VERSION, Emission

__all__ = ["KafkaDeadLetters", "KafkaDebug", "KafkaSink"]

_SHORT, _FEW = 4096, 16  # of a shortened dead letter: longest key or header in bytes, most headers

X = TypeVar("X")


class _Partition(StatelessSinkPartition[Any]):
    """Converts each item with `record`, writes it, and waits until the whole batch is acknowledged."""

    def __init__(self, delivery: Delivery, record: Callable[[Any, int], Record]) -> None:
        self._delivery = delivery
        self._record = record

    def write_batch(self, items: list[Any]) -> None:
        """Bytewax: blocks until delivered; after an exception the epoch is replayed."""
        partitions = self._delivery.partitions
        self._delivery.deliver([self._record(item, partitions) for item in items])

    def close(self) -> None:
        """Bytewax: at the end of the input; never raises."""
        self._delivery.close()


class _TopicSink(DynamicSink[X], ABC):
    """Converts each item with `record` and writes it to one topic."""

    def __init__(self, connection: KafkaConnection, topic: str, *, stopping: Callable[[], bool]) -> None:
        self._connection = connection
        self._topic = topic
        self._stopping = stopping

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Partition:
        """Bytewax: called once on each worker; raises a `KafkaError` if the topic cannot be written."""
        del step_id, worker_index, worker_count
        delivery = Delivery(self._connection, self._topic, stopping=self._stopping, too_large=self._shrink)
        return _Partition(delivery, self.record)

    @abstractmethod
    def record(self, item: X, partitions: int) -> Record:
        """The record to write for an item."""

    @abstractmethod
    def _shrink(self, record: Record) -> Record:
        """Return what to write instead of a record above the brokers' size limit, or raise."""


class KafkaSink(_TopicSink[tuple[str, Emission]]):
    """Writes summaries. Headers: `backscroll-version`, `backscroll-kind`, `backscroll-revision`.

    Args:
        connection: the cluster.
        topic: the topic; it must exist and should be compacted.
        dead_letters: receives the id of a summary above the brokers' size limit, and the reason.
        on_refused: called for each such summary, after its dead letter is acknowledged and before its
            tombstone is written.
        stopping: returns whether the program is stopping, so that unreachable brokers are not waited for.

    Writing raises `UndeliveredError` if the brokers stay unreachable.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        *,
        dead_letters: KafkaDeadLetters,
        on_refused: Callable[[], None],
        stopping: Callable[[], bool],
    ) -> None:
        super().__init__(connection, topic, stopping=stopping)
        self._dead_letters = dead_letters
        self._on_refused = on_refused

    def record(self, item: tuple[str, Emission], partitions: int) -> Record:
        """The record to write for an emission."""
        _, emission = item
        fields = {} if emission.body is None else orjson.loads(emission.body)
        return Record(
            name=emission.summary_id,
            value=emission.body,
            key=emission.summary_id.encode(),
            headers=_headers(
                version=fields.get("version", VERSION),
                kind=fields.get("kind", "tombstone"),
                revision=emission.revision,
            ),
            partition=partition_of(str(emission.key), partitions),
        )

    def _shrink(self, record: Record) -> Record:
        if record.value is None:
            raise RecordTooLargeError(f"{record.name}: {_too_large(record, self._topic)}")
        reason = f"summary: {_too_large(record, self._topic)}"
        letters = self._dead_letters.build("dead_letters", 0, 1)  # too rare to keep one open
        try:
            letters.write_batch([DeadLetter((("window", record.name),), reason, b"")])
        finally:
            letters.close()
        self._on_refused()
        headers = {**dict(record.headers), **dict(_headers(kind="tombstone"))}
        return replace(record, value=None, headers=tuple(headers.items()))


class KafkaDebug(KafkaSink):
    """Writes only the gaps and the memory of each summary, with the summary's key and partition.

    Args: as `KafkaSink`.
    """

    def record(self, item: tuple[str, Emission], partitions: int) -> Record:
        """The record to write for an emission, without its summary."""
        record = super().record(item, partitions)
        if record.value is None:
            return record
        fields = orjson.loads(record.value)
        names = ("summary_id", "revision", "gaps", "memory")
        return replace(record, value=orjson.dumps({name: fields.get(name) for name in names}))


class KafkaDeadLetters(_TopicSink[DeadLetter]):
    """Writes rejected input unchanged (value, key and headers), with headers for the reason and origin.

    The added headers are `backscroll-reason` and one for each part of the origin (`backscroll-topic`,
    `backscroll-partition`, `backscroll-offset`). Input without bytes is written as JSON. A letter above
    the brokers' size limit is written without its value and without long keys and headers;
    `backscroll-omitted` then says how many bytes it had.

    Args:
        connection: the cluster.
        topic: the topic; it must exist.
        stopping: as for `KafkaSink`.
    """

    def record(self, item: DeadLetter, partitions: int) -> Record:
        """The record to write for a dead letter."""
        del partitions
        letter = item
        where = dict(letter.origin)
        return Record(
            name=" ".join(f"{name} {value}" for name, value in letter.origin),
            value=letter.raw or letter.to_json(),
            key=letter.key,
            headers=letter.headers + _headers(reason=letter.reason, **where),
        )

    def _shrink(self, record: Record) -> Record:
        if not record.value:
            raise RecordTooLargeError(f"{record.name}: {_too_large(record, self._topic)}")
        short = [(name, value) for name, value in record.headers if len(name.encode()) + len(value) <= _SHORT]
        key = record.key if record.key is None or len(record.key) <= _SHORT else None
        headers = (*short[-_FEW:], *_headers(omitted=f"{record.size} bytes"))  # our own headers come last
        return replace(record, value=b"", key=key, headers=headers)


def _headers(**fields: object) -> tuple[tuple[str, bytes], ...]:
    return tuple(
        (f"backscroll-{name}", str(value).encode(errors="backslashreplace")) for name, value in fields.items()
    )


def _too_large(record: Record, topic: str) -> str:
    return f"{record.size:,} bytes exceed the limit of topic {topic!r}: raise its max.message.bytes"
