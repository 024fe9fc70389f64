"""Commits how far reading has come to a consumer group, for lag tools and autoscalers.

Bytewax keeps the offsets that count. These are informational: the group is never joined, and what
goes wrong is logged once and hurts nothing.
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
    """One a process: a thread commits about once a second what is durable by now.

    A snapshot is durable once its epoch is written, so that the one before the latest is taken.
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
        """Tell that a snapshot with this next offset was taken; returns at once."""
        place = TopicPartition(topic, partition)
        with self._lock:
            if place in self._latest:
                self._durable[place] = self._latest[place]
            self._latest[place] = offset
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="kafka-lag", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Commit a last time, and end the thread; takes a second at most."""
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
            _LOG.warning("group %s: offsets cannot be committed (%s): lag looks stale", self._group, why)
