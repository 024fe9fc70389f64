"""`backscroll run` as a real process, with topics, a store and a recovery directory of its own."""

from __future__ import annotations

import os
import re
import subprocess
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import orjson

from backscroll.connectors.kafka.delivery import partition_of
from backscroll.operators.messages import ChannelKey, format_time
from support.brokers import Broker, KafkaConsumer, KafkaProducer, TopicPartition, wait_for
from support.commands import BACKSCROLL
from support.crashes import kill, revision

T = TypeVar("T")
START = datetime(2026, 3, 2, 9, tzinfo=UTC)
_FAST = {"BACKSCROLL_CHUNK_TOKENS": "48", "BACKSCROLL_CHUNK_OVERLAP": "16", "COLUMNS": "400"}
_QUIET = {"BACKSCROLL_HTTP_PORT": "0"}  # several engines run beside each other


def post(
    channel: str, id_: str, text: str = "the ship is in", at: float = 0, **fields: Any
) -> dict[str, Any]:
    """A message, `at` seconds after the start of the chat."""
    return {"channel": channel, "id": id_, "ts": moment(at), "author": "Ana", "text": text, **fields}


def edit(channel: str, id_: str, text: str, at: float = 60) -> dict[str, Any]:
    return {"op": "edit", "channel": channel, "id": id_, "ts": moment(at), "text": text}


def delete(channel: str, id_: str, at: float = 60) -> dict[str, Any]:
    return {"op": "delete", "channel": channel, "id": id_, "ts": moment(at)}


def flush(channel: str, at: float = 60) -> dict[str, Any]:
    return {"op": "flush", "channel": channel, "ts": moment(at)}


def moment(seconds: float) -> str:
    return format_time(START + timedelta(seconds=seconds))


class Records:
    """Everything of a topic, as it comes."""

    def __init__(self, broker: Broker, topic: str, partitions: int) -> None:
        self._found: list[Any] = []
        self._consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=None, fetch_max_wait_ms=50)
        places = [TopicPartition(topic, number) for number in range(partitions)]
        self._consumer.assign(places)
        for place in places:
            self._consumer.seek(place, 0)

    def __call__(self, channel: str | None = None) -> list[Any]:
        """What has come by now, those of a partition in their order; of one channel by its key."""
        for records in self._consumer.poll(timeout_ms=20).values():
            self._found += records
        return [one for one in self._found if channel is None or one.key.startswith(f"{channel}:".encode())]

    def close(self) -> None:
        self._consumer.close()


class Engine:
    """A running `backscroll run`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def said(self) -> str:
        """Its standard error."""
        return self._log.read_text()

    def until(self, look: Callable[[], T], what: str, *, seconds: float = 60.0) -> T:
        """Poll until `look` returns something true, while the engine runs."""

        def alive() -> T:
            ended = self.process.poll()
            found = look()
            assert found or ended is None, f"the engine ended with {ended}: {self.said}"
            return found

        return wait_for(alive, seconds=seconds, what=what)

    def stop(self, within: float = 15.0) -> None:
        """An orderly stop, in so many seconds, with exit code 0."""
        self.process.terminate()
        assert self.process.wait(within) == 0, self.said

    def ended(self, seconds: float = 60.0) -> tuple[int, list[str]]:
        """Its exit code, and the lines it said, when it has ended by itself."""
        return self.process.wait(seconds), self.said.splitlines()

    def kill(self) -> None:
        kill(self.process)


class Service:
    """Topics, a store and a recovery directory, for one engine after another.

    Args:
        broker: a running broker.
        folder: an empty folder, whose name is that of the topics.
        partitions: of messages and summaries.
        configs: of the topic of summaries.
    """

    def __init__(self, broker: Broker, folder: Path, *, partitions: int = 4, **configs: str) -> None:
        self.store, self.recovery = folder / "store", folder / "recovery"
        self.messages, self.partitions = f"{folder.name}-messages", partitions
        self._broker, self._folder, self._engines = broker, folder, 0
        names = {"summaries": partitions, "letters": 1, "debug": partitions}
        broker.create(self.messages, partitions)
        for name, parts in names.items():
            broker.create(f"{folder.name}-{name}", parts, **(configs if name == "summaries" else {}))
        self.summaries, self.letters, self.debug = (
            Records(broker, f"{folder.name}-{name}", parts) for name, parts in names.items()
        )

    def send(self, *events: Mapping[str, Any], partition: int | None = None) -> list[Any]:
        """Write events, keyed by channel, and return where each came to stand."""
        with KafkaProducer(bootstrap_servers=self._broker.address, linger_ms=5) as producer:
            futures = [self._write(producer, event, partition) for event in events]
            return [future.get(20) for future in futures]

    def _write(self, producer: KafkaProducer, event: Mapping[str, Any], partition: int | None) -> Any:
        key = str(ChannelKey(event.get("namespace", "default"), event["channel"]))
        where = partition_of(key, self.partitions) if partition is None else partition
        return producer.send(self.messages, orjson.dumps(event), key=key.encode(), partition=where)

    @contextmanager
    def engine(
        self,
        *options: object,
        strategy: str = "recent",
        program: Sequence[object] = (BACKSCROLL,),
        recovery: Path | None = None,
        **settings: object,
    ) -> Iterator[Engine]:
        """The command, in a process group of its own; `settings` become variables."""
        self._engines += 1
        log = self._folder / f"engine-{self._engines}.log"
        topics = ["--topics", self.messages, "--summaries", f"{self._folder.name}-summaries"]
        topics += ["--dead-letters", f"{self._folder.name}-letters", "--brokers", self._broker.address]
        places = ["--store", self.store, "--recovery", recovery or self.recovery]
        command = [*program, "run", "--embedding-model", "none", "--strategy", strategy, *topics, *places]
        variables = {f"BACKSCROLL_{name.upper()}": str(value) for name, value in settings.items()}
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*map(str, command), *map(str, options)],
                stdout=file,
                stderr=file,
                start_new_session=True,
                env={**os.environ, **_FAST, **_QUIET, **variables},
            )
        try:
            yield Engine(process, log)
        finally:
            kill(process)

    def turns(self, channel: str | None = None) -> Counter[str]:
        """How often each message is in a window, by the newest record of each summary."""
        bodies = [body(record) for record in newest(self.summaries(channel)).values() if record.value]
        return Counter(id_ for fields in bodies for id_ in fields["window"]["turns"])

    def close(self) -> None:
        for records in (self.summaries, self.letters, self.debug):
            records.close()


@contextmanager
def service(broker: Broker, folder: Path, *, partitions: int = 4, **configs: str) -> Iterator[Service]:
    made = Service(broker, folder, partitions=partitions, **configs)
    try:
        yield made
    finally:
        made.close()


def body(record: Any) -> dict[str, Any]:
    """A summary record's fields."""
    fields: dict[str, Any] = orjson.loads(record.value)
    return fields


def newest(records: list[Any]) -> dict[str, Any]:
    """Of each key the record that a compacted topic keeps."""
    return {record.key.decode(): record for record in records}


def differing(records: list[Any]) -> list[str]:
    """Keys that came twice with one revision and other bytes, or went back to an older revision."""
    bodies, last, wrong = dict[tuple[str, int], bytes | None](), dict[str, int](), list[str]()
    for record in records:
        key, number = record.key.decode(), revision(record)
        if bodies.setdefault((key, number), record.value) != record.value or number < last.get(key, 0):
            wrong.append(key)
        last[key] = number
    return wrong


_DATABASES = (b"SQLite", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")  # themselves, and their logs


def files_with(folder: Path, secret: str) -> set[str]:
    """The files that hold a text, also as LanceDB compresses it (FSST escapes rare bytes), or in a state."""
    found, told = set[str](), secret.encode()
    for file in folder.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        if (
            told in content
            or told in content.replace(b"\xff", b"")
            or any(told in s for s in _states(content))
        ):
            found.add(str(file.relative_to(folder)))
    return found


def _states(content: bytes) -> Iterator[bytes]:
    """What compressed states in a recovery file hold, those that were deleted but not written over too."""
    if not content.startswith(_DATABASES):
        return
    for start in re.finditer(rb"\x78\x01", content):
        with suppress(zlib.error):
            yield zlib.decompressobj().decompress(content[start.start() :], 1 << 20)
