"""Summaries, dead letters and a debug stream as records of Kafka topics.

A summary's key is its `summary_id`, and its partition the one of its channel, so that a compacted
topic keeps the newest revision and a reader of one partition sees whole channels. A tombstone is a
record without a value. Output is at least once, with equal ids and bodies. A record that the brokers
find too large becomes a dead letter and a tombstone, so that no older revision stays, and a dead letter
is made small enough: neither ends the engine.
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

_SHORT, _FEW = 4096, 16  # bytes of a key or header, and headers, of a dead letter that was too large


X = TypeVar("X")


class _Partition(StatelessSinkPartition[Any]):
    """Writes what `record` makes of each item, and waits until all of a batch are acknowledged."""

    def __init__(self, delivery: Delivery, record: Callable[[Any, int], Record]) -> None:
        self._delivery = delivery
        self._record = record

    def write_batch(self, items: list[Any]) -> None:
        """Bytewax: blocks until delivered; what it raises replays the epoch."""
        partitions = self._delivery.partitions
        self._delivery.deliver([self._record(item, partitions) for item in items])

    def close(self) -> None:
        """Bytewax: at the end of the input; never raises."""
        self._delivery.close()


class _TopicSink(DynamicSink[X], ABC):
    """Writes what `record` makes of each item to one topic."""

    def __init__(self, connection: KafkaConnection, topic: str, *, stopping: Callable[[], bool]) -> None:
        self._connection = connection
        self._topic = topic
        self._stopping = stopping

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Partition:
        """Bytewax: called once on each worker; raises a `KafkaError` where nothing can be written."""
        del step_id, worker_index, worker_count
        delivery = Delivery(self._connection, self._topic, stopping=self._stopping, too_large=self._shrink)
        return _Partition(delivery, self.record)

    @abstractmethod
    def record(self, item: X, partitions: int) -> Record:
        """The record of an item."""

    @abstractmethod
    def _shrink(self, record: Record) -> Record:
        """What to write for a record that the brokers find too large, or raise."""


class KafkaSink(_TopicSink[tuple[str, Emission]]):
    """Writes summaries. Headers: `backscroll-version`, `backscroll-kind`, `backscroll-revision`.

    Args:
        connection: the cluster.
        topic: has to exist, and should be compacted.
        dead_letters: gets the id of a summary that the brokers find too large, and the reason.
        on_refused: called for each of those, once its dead letter is acknowledged and before the tombstone
            that takes its place is written.
        stopping: whether the program is to end, so that brokers that are away are not waited for.

    Writing raises `UndeliveredError` when the brokers stay away.
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
        """The record of an emission."""
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
        letters = self._dead_letters.build("dead_letters", 0, 1)  # so rarely that none is kept open
        try:
            letters.write_batch([DeadLetter((("window", record.name),), reason, b"")])
        finally:
            letters.close()
        self._on_refused()
        headers = {**dict(record.headers), **dict(_headers(kind="tombstone"))}
        return replace(record, value=None, headers=tuple(headers.items()))


class KafkaDebug(KafkaSink):
    """Writes only the gaps and the memory of each summary, keyed and placed as the summary is.

    Args: as `KafkaSink`.
    """

    def record(self, item: tuple[str, Emission], partitions: int) -> Record:
        """The record of an emission, without its summary."""
        record = super().record(item, partitions)
        if record.value is None:
            return record
        fields = orjson.loads(record.value)
        names = ("summary_id", "revision", "gaps", "memory")
        return replace(record, value=orjson.dumps({name: fields.get(name) for name in names}))


class KafkaDeadLetters(_TopicSink[DeadLetter]):
    """Writes rejected input as it came: value, key and headers, and headers that say why and whence.

    The added ones are `backscroll-reason` and one for each part of the origin (`backscroll-topic`,
    `backscroll-partition`, `backscroll-offset`). What had no bytes is written as JSON. A letter that
    the brokers find too large is written without its bytes and without long keys and headers, and
    `backscroll-omitted` says how many bytes it had.

    Args:
        connection: the cluster.
        topic: has to exist.
        stopping: as for `KafkaSink`.
    """

    def record(self, item: DeadLetter, partitions: int) -> Record:
        """The record of a letter."""
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
        headers = (*short[-_FEW:], *_headers(omitted=f"{record.size} bytes"))  # ours stand last
        return replace(record, value=b"", key=key, headers=headers)


def _headers(**fields: object) -> tuple[tuple[str, bytes], ...]:
    return tuple(
        (f"backscroll-{name}", str(value).encode(errors="backslashreplace")) for name, value in fields.items()
    )


def _too_large(record: Record, topic: str) -> str:
    return f"{record.size:,} bytes are more than topic {topic!r} takes: raise its max.message.bytes"
