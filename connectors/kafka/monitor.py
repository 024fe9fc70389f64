"""Ask the brokers for the end of each partition about once a second: are they up, and is there a backlog?"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from kafka import KafkaConsumer, TopicPartition

from backscroll.connectors.kafka.connection import KafkaConnection

__all__ = ["BrokerMonitor"]

_LOG = logging.getLogger(__name__)
_SECONDS = 1.0
_TIMEOUT_MS = 2000


class BrokerMonitor:
    """Monitors the brokers on a separate thread and client, so that it works while the worker is blocked.

    Args:
        connection: the cluster.
        parts: returns the partitions to ask for, as `topic:partition`; if none, nothing is asked.
    """

    def __init__(self, connection: KafkaConnection, parts: Callable[[], Collection[str]]) -> None:
        self._connection = connection
        self._parts = parts
        self._stop = threading.Event()
        self._answering: float | None = None
        self._ends: Mapping[str, int] = {}
        self._thread = threading.Thread(target=self._run, name="kafka-watch", daemon=True)

    def start(self) -> None:
        """Start monitoring."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread; waits at most a second."""
        self._stop.set()
        self._thread.join(1.0)

    @property
    def answering(self) -> float | None:
        """Since when every request was answered (monotonic clock); None if the last one was not."""
        return self._answering

    @property
    def ends(self) -> Mapping[str, int]:
        """The offset after the last committed record of each partition, as of the last answer."""
        return self._ends

    def _run(self) -> None:
        consumer: KafkaConsumer | None = None
        while not self._stop.wait(_SECONDS):
            places = [TopicPartition(topic, int(number)) for topic, number in map(_split, self._parts())]
            if not places:
                continue
            try:
                consumer = consumer or self._open()
                ends = consumer.end_offsets(places, timeout_ms=_TIMEOUT_MS)
            except Exception as err:  # any error means that the brokers do not answer
                _LOG.debug("the brokers do not answer: %s", type(err).__name__)
                self._answering = None
                continue
            self._ends = {f"{at.topic}:{at.partition}": int(end) for at, end in ends.items()}
            self._answering = self._answering or time.monotonic()
        if consumer is not None:
            with suppress(Exception):
                consumer.close(autocommit=False, timeout_ms=100)

    def _open(self) -> KafkaConsumer:
        consumer, _ = self._connection.connect(
            KafkaConsumer,
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            metrics_enabled=False,
        )
        return consumer


def _split(part: str) -> tuple[str, str]:
    topic, _, number = part.rpartition(":")
    return topic, number
