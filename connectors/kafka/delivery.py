"""Deliver records to Kafka: all replicas acknowledge each record, or an error says how many are missing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kafka import KafkaProducer, errors
from kafka.partitioner import murmur2

from backscroll.connectors.kafka.connection import (
    AuthenticationError,
    KafkaConnection,
    KafkaError,
    UndeliveredError,
)

__all__ = ["Delivery", "Record", "partition_of"]

_LOG = logging.getLogger(__name__)
_DELIVERY_SECONDS = 120.0
_STOPPING_SECONDS = 1.0  # to wait for acknowledgements when the program is stopping
_SILENT_SECONDS = 1.0  # without an acknowledgement, before a log line says so
_LOOK_SECONDS = 0.1
_REFUSALS = 3  # of the same record, each with a new producer, before giving up
_REOPEN_MS = 1000
_LINGER_MS = 5
_BATCH_BYTES = 256 * 1024
_REQUEST_BYTES = 16 * 1024 * 1024  # above the brokers' own limit, 1 MiB by default
_TOO_LARGE = (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key, as Java's default partitioner chooses it."""
    return int((murmur2(key.encode()) & 0x7FFFFFFF) % partitions)


@dataclass(frozen=True, slots=True)
class Record:
    """A record to write. Without a partition, its key decides. `name` is for errors; never chat text."""

    name: str
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None

    @property
    def size(self) -> int:
        """Bytes of value, key and headers."""
        headers = sum(len(name.encode()) + len(value) for name, value in self.headers)
        return len(self.value or b"") + len(self.key or b"") + headers


class Delivery:
    """Writes records to one topic in order. After a failure, the same records may be written again.

    Args:
        connection: the cluster.
        topic: the topic; it must exist.
        stopping: returns whether the program is stopping, so that unreachable brokers are not waited for.
        too_large: returns the record to write instead of one that exceeds the brokers' limit, or raises.

    Raises:
        KafkaError: the cluster does not answer, rejects the login, or does not have the topic.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        *,
        stopping: Callable[[], bool],
        too_large: Callable[[Record], Record],
    ) -> None:
        self.topic = topic
        self.partitions = connection.partitions([topic])[topic]
        self._connection = connection
        self._stopping = stopping
        self._too_large = too_large
        self._warned = False
        self._producer: KafkaProducer | None = self._open()

    def deliver(self, records: Sequence[Record]) -> None:
        """Write records and wait until all are acknowledged; retries for up to two minutes.

        Raises:
            UndeliveredError: some records were not acknowledged in time, or the program is stopping.
                They must be written again.
            KafkaError: the brokers reject the records.
        """
        pending = list(records)
        deadline = time.monotonic() + _DELIVERY_SECONDS
        alone = False  # one at a time, as one bad record makes its whole batch fail
        refusals = 0
        while pending:
            written, err = self._attempt(pending[:1] if alone else pending, deadline)
            pending = pending[written:]
            if err is None:
                refusals = 0
                self._warned = False
                continue
            if isinstance(err, errors.AuthorizationError | errors.SaslAuthenticationFailedError):
                raise self._connection.explain(err) from err
            # A failed producer may have lost its sequence, or its identity at the broker.
            self._give_up_producer()
            if alone and isinstance(err, _TOO_LARGE):
                pending[0] = self._too_large(pending[0])
            elif alone and not isinstance(err, errors.RetriableError):
                refusals += 1
                if refusals == _REFUSALS:
                    raise self._refused(pending[0], err) from err
            if time.monotonic() > deadline:
                raise self._undelivered(len(pending))
            alone = True

    def close(self) -> None:
        """Close the producer; never raises."""
        if self._producer is not None:
            with suppress(Exception):
                self._producer.close(timeout=2)
            self._producer = None

    def _attempt(self, records: Sequence[Record], deadline: float) -> tuple[int, BaseException | None]:
        """Write all records; returns how many, counted from the first, were acknowledged, and the error."""
        if self._producer is None:
            self._reopen(len(records), deadline)
        assert self._producer is not None
        futures = []
        refused: BaseException | None = None
        for record in records:
            try:
                future = self._producer.send(
                    self.topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                )
            except errors.KafkaError as err:
                refused = err
                break
            futures.append(future)
        began = time.monotonic()
        for number, future in enumerate(futures):
            while not future.is_done:
                with suppress(errors.KafkaError):
                    future.get(timeout=_LOOK_SECONDS)
                if not future.is_done:
                    self._check_time(len(records) - number, began, deadline)
        for number, future in enumerate(futures):
            if future.failed():
                return number, future.exception
        return len(futures), refused

    def _check_time(self, records: int, began: float, deadline: float) -> None:
        now = time.monotonic()
        if now - began > _SILENT_SECONDS and not self._warned:
            self._warned = True
            _LOG.warning(
                "topic %s: no acknowledgement from the brokers: retrying for two minutes", self.topic
            )
        ending = self._stopping() and now - began > _STOPPING_SECONDS
        if not ending and now < deadline:
            return
        self._give_up_producer()
        raise self._undelivered(records)

    def _undelivered(self, records: int) -> UndeliveredError:
        why = f"topic {self.topic!r} on {self._connection}: no acknowledgement from the brokers"
        return UndeliveredError(f"{why}: {records} records will be sent again after a restart")

    def _refused(self, record: Record, err: BaseException) -> KafkaError:
        what = f"{self._connection} rejected {record.name} for topic {self.topic!r} ({type(err).__name__})"
        return KafkaError(f"{what}: check the topic's configuration")

    def _open(self, **options: int) -> KafkaProducer:
        producer, _ = self._connection.connect(
            KafkaProducer,
            enable_idempotence=True,
            acks="all",
            linger_ms=_LINGER_MS,
            batch_size=_BATCH_BYTES,
            max_request_size=_REQUEST_BYTES,
            delivery_timeout_ms=int(_DELIVERY_SECONDS * 1000),
            max_block_ms=10_000,
            allow_auto_create_topics=False,
            metrics_enabled=False,
            **options,
        )
        return producer

    def _reopen(self, records: int, deadline: float) -> None:
        began = time.monotonic()
        while self._producer is None:
            try:
                self._producer = self._open(bootstrap_timeout_ms=_REOPEN_MS)
            except AuthenticationError:
                raise
            except KafkaError:
                self._check_time(records, began, deadline)

    def _give_up_producer(self) -> None:
        """Close the producer and drop its unsent records, which could otherwise arrive out of order."""
        if self._producer is not None:
            # `close` alone waits for records that cannot be sent, then leaves its thread running.
            self._producer._sender.force_close()
            self._producer._sender.join(2.0)
            with suppress(Exception):
                self._producer.close(timeout=0)
            self._producer = None
