"""Commit read offsets to a consumer group, for lag tools and autoscalers.

These offsets are informational only: Bytewax keeps the ones used for recovery, and the group is never
joined. A failure to commit is logged once and has no other effect.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from backscroll.connectors.kafka.connection import KafkaConnection

__all__ = ["GroupOffsets"]

_LOG = logging.getLogger(__name__)
_SECONDS = 1.0
_TIMEOUT_MS = 5000


class GroupOffsets:
    """Commits the durable offsets about once a second, on one thread per process.

    A snapshot is durable once its epoch is written, so the snapshot before the latest is committed.
    """

    def __init__(self, connection: KafkaConnection, group: str) -> None:
        self._connection = connection
        self._group = group
        self._lock = threading.Lock()
        self._latest = dict[TopicPartition, int]()
        self._durable = dict[TopicPartition, int]()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._warned = False

    def snapshot(self, topic: str, partition: int, offset: int) -> None:
        """Note that a snapshot with this next offset was taken; returns at once."""
        place = TopicPartition(topic, partition)
        with self._lock:
            if place in self._latest:
                self._durable[place] = self._latest[place]
            self._latest[place] = offset
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="kafka-lag", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Commit one last time and stop the thread; takes at most a second."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)

    def _run(self) -> None:
        consumer: KafkaConsumer | None = None
        committed = dict[TopicPartition, int]()
        while True:
            last = self._stop.wait(_SECONDS)
            with self._lock:
                due = {at: offset for at, offset in self._durable.items() if committed.get(at) != offset}
            try:
                if due:
                    consumer = consumer or self._open()
                    consumer.commit(
                        {at: OffsetAndMetadata(offset, "", -1) for at, offset in due.items()},
                        timeout_ms=_TIMEOUT_MS,
                    )
                    committed |= due
                    self._warned = False
            except Exception as err:
                self._warn(err)
            if last:
                break
        if consumer is not None:
            with suppress(Exception):
                consumer.close(autocommit=False, timeout_ms=1000)

    def _open(self) -> KafkaConsumer:
        consumer, _ = self._connection.connect(
            KafkaConsumer, group_id=self._group, enable_auto_commit=False, metrics_enabled=False
        )
        return consumer

    def _warn(self, err: Exception) -> None:
        if not self._warned:
            self._warned = True
            why = type(err).__name__
            _LOG.warning("group %s: cannot commit offsets (%s): lag will look stale", self._group, why)
