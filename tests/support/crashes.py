"""The engine under `kill -9`: a chat is sent while the engine is killed and started, then all is counted.

`make soak` runs it at length on both brokers; `tests/flows/test_crashes.py` runs it shortly.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from backscroll.connectors.kafka.delivery import partition_of
from backscroll.connectors.lancedb.tables import SharedTable, connect
from backscroll.operators.messages import ChannelKey
from support.brokers import Broker, KafkaConsumer, KafkaProducer, TopicPartition, running, wait_for
from support.commands import BACKSCROLL, WORDS

PARTITIONS = 4
_STOP_SECONDS = 20.0  # the engine stops within five on a machine that has nothing else to do


@dataclass
class Outcome:
    """What was done to the engine, and what came of it."""

    broker: str
    processes: int
    kills: int = 0
    stops: int = 0
    messages: int = 0
    changes: int = 0
    windows: int = 0
    records: int = 0
    ids: int = 0
    duplicates: int = 0
    reissues: int = 0
    differing: int = 0
    lost: int = 0
    twice: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Chat:
    """A chat over several channels with edits and deletions, and what it says in the end."""

    channels: int
    chance: random.Random
    texts: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    posted: list[tuple[str, str]] = field(default_factory=list)
    changes: int = 0

    def posts(self, count: int) -> Iterator[dict[str, Any]]:
        """The next messages, with a change now and then, each in the order of its channel."""
        for _ in range(count):
            channel = f"c{self.chance.randrange(self.channels)}"
            number = len(self.posted)
            id_, text = f"m{number}", " ".join(self.chance.choices(WORDS, k=self.chance.randrange(5, 30)))
            self.posted.append((channel, id_))
            self.texts[id_] = text
            yield self._event(
                "post", channel, id_, number, author=self.chance.choice(["Ana", "Ben"]), text=text
            )
            if number % 40 == 39:
                yield self._change(number)

    def flushes(self) -> Iterator[dict[str, Any]]:
        """Close what is open in every channel."""
        for channel in range(self.channels):
            yield self._event("flush", f"c{channel}", "", len(self.posted))

    def _change(self, number: int) -> dict[str, Any]:
        channel, id_ = self.posted[self.chance.randrange(max(0, number - 400), number)]
        self.changes += 1
        if self.chance.random() < 0.5:
            self.deleted.add(id_)
            return self._event("delete", channel, id_, number)
        text = " ".join(self.chance.choices(WORDS, k=20))
        if id_ not in self.deleted:
            self.texts[id_] = text
        return self._event("edit", channel, id_, number, text=text)

    @staticmethod
    def _event(op: str, channel: str, id_: str, number: int, **fields: str) -> dict[str, Any]:
        clock = f"{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
        event = {"op": op, "channel": channel, "ts": f"2026-03-{2 + number // 86400:02}T{clock}Z", **fields}
        return event | ({"id": id_} if id_ else {})


def crash_run(
    broker: Broker,
    folder: Path,
    *,
    messages: int,
    kills: int,
    stops: int = 2,
    channels: int = 50,
    processes: tuple[int, ...] = (1,),
    broker_stops: int = 0,
    seed: int = 1,
) -> Outcome:
    """Send a chat while the engine is killed, stopped and started on changing numbers of processes.

    Args:
        broker: a running broker.
        folder: an empty folder.
        messages: how many posts to send in all.
        kills: how often the engine is killed with SIGKILL at a random moment.
        stops: how often it is ended with SIGTERM.
        channels: over how many channels.
        processes: numbers of processes, taken in turn.
        broker_stops: how often the broker is stopped and started while the engine runs.
        seed: of all that is random.
    """
    chance = random.Random(seed)
    outcome = Outcome(broker.kind, max(processes), messages=messages)
    started = time.monotonic()
    for topic, parts in (("messages", PARTITIONS), ("summaries", PARTITIONS), ("dead-letters", 1)):
        broker.create(topic, parts)
    chat = Chat(channels, chance)
    ends = ["kill"] * kills + ["stop"] * stops + ["broker"] * broker_stops
    chance.shuffle(ends)
    part = messages // (len(ends) + 1)
    for number, end in enumerate(ends):
        send(broker, chat.posts(part))
        with engine(broker, folder, processes[number % len(processes)]) as process:
            _let_run(process, folder, chance)
            if end == "kill":
                outcome.kills += 1
                kill(process)
            elif end == "broker":
                broker.stop()
                time.sleep(chance.uniform(0.5, 2.0))
                broker.start()
                kill(process)
            else:
                outcome.stops += 1
                stop(process)
    send(broker, chat.posts(messages - len(chat.posted)))
    send(broker, chat.flushes())
    with engine(broker, folder, processes[-1]) as process:
        wait_for(
            lambda: _is_done(broker, folder, chat, process), seconds=120 + messages / 50, what="all summaries"
        )
        stop(process)
    outcome.changes = chat.changes
    outcome.seconds = time.monotonic() - started
    count(outcome, broker, folder, chat)
    return outcome


def _let_run(process: subprocess.Popen[bytes], folder: Path, chance: random.Random) -> None:
    """Until a random moment: of the start, or, more often, of its work."""

    def running_until(moment: float, work: bool) -> None:
        before = _work_done(folder) if work else 0
        while time.monotonic() < moment and not (work and _work_done(folder) > before):
            assert process.poll() is None, f"the engine ended by itself with {process.returncode}"
            time.sleep(0.01)

    if chance.random() < 0.25:
        running_until(time.monotonic() + chance.uniform(0.2, 4.0), False)
        return
    running_until(time.monotonic() + 30, True)
    running_until(time.monotonic() + chance.expovariate(3.0), False)


def _work_done(folder: Path) -> int:
    """How many versions the table of turns has had, a sign that windows are being recorded."""
    names = (folder / "store" / "turns.lance" / "_versions").glob("*.manifest")
    return max((2**64 - 1 - int(path.stem) for path in names), default=0)  # Lance counts down


def send(broker: Broker, events: Iterator[dict[str, Any]]) -> None:
    with KafkaProducer(bootstrap_servers=broker.address, linger_ms=20) as producer:
        for event in events:
            channel = event["channel"]
            where = partition_of(str(ChannelKey("default", channel)), PARTITIONS)
            producer.send("messages", orjson.dumps(event), key=channel.encode(), partition=where)
        producer.flush()


@contextmanager
def engine(broker: Broker, folder: Path, processes: int) -> Iterator[subprocess.Popen[bytes]]:
    """The command, in a process group of its own."""
    command = [str(BACKSCROLL), "run", "--brokers", broker.address, "--store", str(folder / "store")]
    command += ["--embedding-model", "none", "--strategy", "sparse", "--window", "128", "--workers"]
    with (folder / "engine.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, str(processes)],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={
                **os.environ,
                "BACKSCROLL_HTTP_PORT": "0",
                "BACKSCROLL_MAINTENANCE_MINUTES": "0.05",
                "BACKSCROLL_CHUNK_TOKENS": "48",
            },
        )
        try:
            yield process
        finally:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """All processes of the engine at once, as when a machine goes."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def stop(process: subprocess.Popen[bytes]) -> None:
    """An orderly stop, in time."""
    process.terminate()
    process.wait(_STOP_SECONDS)
    # Before it is ready for signals the engine has begun nothing, and just ends.
    assert process.returncode in (0, -signal.SIGTERM), f"the engine stopped with {process.returncode}"


def records(broker: Broker) -> list[Any]:
    """All records of the summaries topic, those of a partition in their order."""
    consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=None, fetch_max_wait_ms=50)
    try:
        places = [TopicPartition("summaries", number) for number in range(PARTITIONS)]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        found, quiet = list[Any](), 0
        while quiet < 4:
            batch = [record for part in consumer.poll(timeout_ms=100).values() for record in part]
            quiet = 0 if batch else quiet + 1
            found += batch
        return found
    finally:
        consumer.close()


def _is_done(broker: Broker, folder: Path, chat: Chat, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, f"the engine ended by itself with {process.returncode}"
    time.sleep(1.0)
    database = connect(str(folder / "store"))
    if SharedTable(database, "turns").count("") < len(chat.posted):
        return False
    revisions = {record.key.decode(): revision(record) for record in records(broker)}
    windows = SharedTable(database, "windows").rows("")
    gone = sum(row["tokens"] == 0 for row in windows)
    kept = SharedTable(database, "summaries").rows("")
    if len(revisions) < len(windows) or sum(not row["body"] for row in kept) > gone:
        return False
    return all(revisions[row["summary_id"]] >= row["revision"] for row in kept if row["body"])


def revision(record: Any) -> int:
    return int(dict(record.headers)["backscroll-revision"])


def count(outcome: Outcome, broker: Broker, folder: Path, chat: Chat) -> None:
    """Compare the topic and the store with what was sent."""
    database = connect(str(folder / "store"))
    turns = SharedTable(database, "turns").rows("")
    windows = SharedTable(database, "windows").rows("")
    kept = {row["summary_id"]: row for row in SharedTable(database, "summaries").rows("")}
    sent = records(broker)
    outcome.windows, outcome.records = len(windows), len(sent)

    admitted = [row["id"] for row in turns]
    never = {id_ for _, id_ in chat.posted} - set(admitted)
    outcome.lost += len(never)
    outcome.twice += len(admitted) - len(set(admitted))
    for row in turns:
        expected = "" if row["id"] in chat.deleted else chat.texts[row["id"]]
        if row["text"] != expected or row["deleted"] != (row["id"] in chat.deleted):
            outcome.wrong.append(f"text of {row['id']}")
    covered = {
        (row["channel"], seq) for row in windows for seq in range(row["first_seq"], row["last_seq"] + 1)
    }
    places = {(row["channel"], row["seq"]) for row in turns}
    if covered != places or sum(row["last_seq"] - row["first_seq"] + 1 for row in windows) != len(places):
        outcome.wrong.append("windows do not hold each turn once")

    bodies = dict[tuple[str, int], bytes | None]()
    newest = dict[str, tuple[int, bytes | None]]()
    for record in sent:
        id_, number = record.key.decode(), revision(record)
        if (id_, number) in bodies:
            outcome.duplicates += 1
            outcome.differing += bodies[id_, number] != record.value
        elif id_ in newest:
            outcome.reissues += 1
        bodies[id_, number] = record.value
        if number < newest.get(id_, (0, None))[0]:
            outcome.wrong.append(f"{id_} goes back to revision {number}")
        newest[id_] = number, record.value
    outcome.ids = len(newest)
    for row in windows:
        key = ChannelKey(row["namespace"], row["channel"])
        id_ = f"{key}:{row['first_seq']}-{row['last_seq']}:sparse"
        if id_ not in newest:
            outcome.lost += 1
            outcome.wrong.append(f"no summary {id_}")
        elif row["tokens"] == 0:
            if newest[id_][1] is not None:
                outcome.wrong.append(f"{id_} is no tombstone")
        elif newest[id_][1] != kept[id_]["body"]:
            outcome.wrong.append(f"{id_} is not what the store holds")


def show(outcomes: list[Outcome], console: Console) -> None:
    """The crash table."""
    names = ("broker", "processes", "kills", "stops", "messages", "changes", "windows", "records", "ids")
    names += ("reissues", "duplicates", "differing", "twice", "lost", "seconds")
    table = Table(*names)
    for outcome in outcomes:
        values = [getattr(outcome, name) for name in names]
        table.add_row(*(f"{value:,.0f}" if isinstance(value, float) else str(value) for value in values))
    console.print(table)
    for outcome in outcomes:
        for wrong in outcome.wrong[:20]:
            console.print(f"{outcome.broker}: {wrong}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--brokers", nargs="+", default=["noida", "tansu"])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 1, 3])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    console = Console(width=150)
    outcomes = list[Outcome]()
    for kind in given.brokers:
        with tempfile.TemporaryDirectory() as folder, running(kind, Path(folder) / "broker") as broker:
            outcomes.append(
                crash_run(
                    broker,
                    Path(folder),
                    messages=given.messages,
                    kills=given.kills,
                    stops=given.kills // 5,
                    processes=tuple(given.processes),
                    broker_stops=given.kills // 10 if kind == "noida" else 0,
                    seed=given.seed,
                )
            )
            show(outcomes[-1:], console)
    show(outcomes, console)
    bad = any(outcome.lost or outcome.twice or outcome.differing or outcome.wrong for outcome in outcomes)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
