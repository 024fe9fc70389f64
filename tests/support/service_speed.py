"""How fast `backscroll run` is against a real broker: messages a second, and from a pause to its summary.

PYTHONPATH=tests .venv/bin/python -m support.service_speed
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from backscroll.connectors.kafka.delivery import partition_of
from backscroll.connectors.lancedb.tables import SharedTable, connect
from support.brokers import Broker, KafkaProducer, running, wait_for
from support.commands import BACKSCROLL, WORDS
from support.crashes import PARTITIONS, kill, records, send, stop

CHANNELS = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", default="noida")
    parser.add_argument("--messages", type=int, default=8_000)
    parser.add_argument("--embedded", type=int, default=2_000, help="messages with embeddings on")
    parser.add_argument("--pauses", type=int, default=60)
    given = parser.parse_args()
    console = Console(width=120)
    table = Table("broker", "embeddings", "strategy", "processes", "messages/s", "windows/s")
    for model, strategy, messages in (
        ("none", "sparse", given.messages),
        ("all-MiniLM-L6-v2", "remember", given.embedded),
    ):
        for processes in (1, 2):
            rates = throughput(given.broker, messages, model, strategy, processes)
            table.add_row(given.broker, model, strategy, str(processes), *(f"{rate:,.0f}" for rate in rates))
    console.print(table)
    waits = pauses(given.broker, given.pauses)
    p99 = statistics.quantiles(waits, n=100)[98]
    console.print(
        f"idle-closed windows: {len(waits)}, from the send of their last message to their summary, less "
        f"the pause of 1 s: p50 {statistics.median(waits) * 1000:,.0f} ms, p99 {p99 * 1000:,.0f} ms"
    )


def throughput(kind: str, messages: int, model: str, strategy: str, processes: int) -> tuple[float, float]:
    """Messages and windows a second, from the first window that is recorded to the last."""
    with _running(kind) as (broker, folder):
        send(broker, _chat(messages))
        with _engine(
            broker, folder, "--embedding-model", model, "--strategy", strategy, "--workers", processes
        ):
            first = _windows_when(folder, 1)
            last = _windows_when(folder, None, seconds=600)
        turns = SharedTable(connect(str(folder / "store")), "turns").count("")
    spent, windows = last[0] - first[0], last[1] - first[1]
    return turns / last[1] * windows / spent, windows / spent


def pauses(kind: str, count: int) -> list[float]:
    """Seconds from a channel's last message to the arrival of its summary, less the pause."""
    waits = list[float]()
    with (
        _running(kind) as (broker, folder),
        _engine(broker, folder, "--embedding-model", "none", "--strategy", "recent", "--idle", 1 / 60),
    ):
        with KafkaProducer(bootstrap_servers=broker.address, linger_ms=0) as producer:
            ready = {"channel": "ready", "id": "m", "author": "Ana", "text": "Go."}
            ready["ts"] = "2026-03-02T09:00:00Z"
            producer.send("messages", orjson.dumps(ready), partition=0).get(10)
            wait_for(lambda: records(broker), seconds=60, what="the engine")
            for number in range(count):
                channel = f"p{number}"
                value = {"channel": channel, "id": "m", "author": "Ana", "text": "Is it done?"}
                value["ts"] = datetime.now(UTC).isoformat()
                where = partition_of(f"default/{channel}", PARTITIONS)
                producer.send("messages", orjson.dumps(value), partition=where).get(10)
                time.sleep(0.1)
        found = {}
        wait_for(
            lambda: len(found.update((r.key.decode(), r) for r in records(broker)) or found) >= count,
            seconds=60,
        )
        del found[next(name for name in found if "/ready:" in name)]
        for record in found.values():
            sent = datetime.fromisoformat(orjson.loads(record.value)["window"]["end"])
            arrived = datetime.fromtimestamp(record.timestamp / 1000, UTC)
            waits.append((arrived - sent - timedelta(seconds=1)).total_seconds())
    return waits


def _chat(messages: int) -> Iterator[dict[str, str]]:
    """Messages of about 500 bytes as JSON."""
    chance = random.Random(1)
    for number in range(messages):
        text = " ".join(chance.choices(WORDS, k=76)) + ". Is it done again?"
        clock = f"{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
        yield {
            "channel": f"c{chance.randrange(CHANNELS)}",
            "id": f"m{number}",
            "ts": f"2026-03-{2 + number // 86400:02}T{clock}Z",
            "author": chance.choice(["Ana", "Ben", "Cem"]),
            "text": text,
        }


@contextmanager
def _running(kind: str) -> Iterator[tuple[Broker, Path]]:
    with tempfile.TemporaryDirectory() as name, running(kind, Path(name) / "broker") as broker:
        for topic, parts in (("messages", PARTITIONS), ("summaries", PARTITIONS), ("dead-letters", 1)):
            broker.create(topic, parts)
        yield broker, Path(name)


@contextmanager
def _engine(broker: Broker, folder: Path, *options: object) -> Iterator[None]:
    command = [str(BACKSCROLL), "run", "--brokers", broker.address, "--store", str(folder / "store")]
    with (folder / "engine.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, *map(str, options)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "BACKSCROLL_HTTP_PORT": "0"},
        )
        try:
            yield
            stop(process)
        finally:
            kill(process)


def _windows_when(folder: Path, at_least: int | None, *, seconds: float = 60) -> tuple[float, int]:
    """When a number of windows is recorded, or, without one, when no more come for eight seconds."""
    deadline, seen, since = time.monotonic() + seconds, 0, time.monotonic()
    while time.monotonic() < deadline:
        rows = 0
        if (folder / "store" / "windows.lance").is_dir():
            rows = SharedTable(connect(str(folder / "store")), "windows").count("")
        if rows != seen:
            seen, since = rows, time.monotonic()
        if at_least is not None and seen >= at_least:
            return since, seen
        if at_least is None and time.monotonic() - since > 8:
            return since, seen
        time.sleep(0.1)
    raise AssertionError(f"{seen} windows after {seconds} s")


if __name__ == "__main__":
    main()
