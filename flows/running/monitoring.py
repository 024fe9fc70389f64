"""Serves health and metrics of a running engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from backscroll.connectors.kafka.monitor import BrokerMonitor
from backscroll.flows.assembly.kafka import kafka_connection
from backscroll.flows.running.health import Brokers, Health
from backscroll.flows.running.health_server import serve
from backscroll.flows.settings.settings import Settings
from backscroll.operators.runtime.progress import Progress

__all__ = ["Monitoring", "monitored"]


class Monitoring:
    """The source of progress, once an engine runs; `metrics` is the directory that its processes share."""

    def __init__(self, metrics: Path | None) -> None:
        self.metrics = metrics
        self._progress: Callable[[], Mapping[int, Progress]] = dict
        self._stopping = threading.Event()

    def follow(self, progress: Callable[[], Mapping[int, Progress]], stopping: threading.Event) -> None:
        """Follow the engine's processes, which have started."""
        self._progress, self._stopping = progress, stopping

    @property
    def stopping(self) -> bool:
        """Whether the engine is about to end."""
        return self._stopping.is_set()

    def progress(self) -> Mapping[int, Progress]:
        """The latest progress of each process, by its number."""
        return self._progress()

    def parts(self) -> list[str]:
        """The partitions that the engine reads."""
        return [part for latest in self._progress().values() for part in latest.offsets]


@contextmanager
def monitored(
    settings: Settings, *, processes: int = 1, alone: bool = True, upstream: Brokers | None = None
) -> Iterator[Monitoring]:
    """Serve health and metrics while the context is open, if `http_port` is set.

    Args:
        settings: the engine's settings.
        processes: number of local processes, whose metrics are added up.
        alone: whether all processes of the dataflow run on this machine.
        upstream: the system that messages come from, if it is not Kafka.

    Raises:
        UserError: the port cannot be used.
        KafkaError: a broker is not written as host:port.
    """
    if not settings.http_port:
        yield Monitoring(None)
        return
    with ExitStack() as stack:
        registry, metrics = REGISTRY, None
        if processes > 1:
            metrics = Path(stack.enter_context(TemporaryDirectory(prefix="backscroll-metrics-")))
            registry = CollectorRegistry()
            MultiProcessCollector(registry, str(metrics))  # type: ignore[no-untyped-call]
        watch = Monitoring(metrics)
        brokers = None if upstream else BrokerMonitor(kafka_connection(settings), watch.parts)
        health = Health(
            watch.progress,
            upstream or cast(Brokers, brokers),
            processes=processes,
            alone=alone,
            stall_seconds=settings.stall_seconds,
            stopping=lambda: watch.stopping,
        )
        pages = {"/livez": health.live, "/readyz": health.ready}
        stack.enter_context(serve(settings.http_host, settings.http_port, pages, registry))
        if brokers is not None:
            brokers.start()
            stack.callback(brokers.close)
        yield watch
