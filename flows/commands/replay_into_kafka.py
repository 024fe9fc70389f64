"""Replay chat files into a Kafka topic at the pace of their timestamps, as a command."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from backscroll.connectors.files.formats import check_file, read_file
from backscroll.connectors.files.pace import Pace
from backscroll.connectors.kafka.connection import RecordTooLargeError
from backscroll.connectors.kafka.delivery import Delivery, Record
from backscroll.flows.assembly.kafka import kafka_connection
from backscroll.flows.running.signals import StopSignal, handle_signals
from backscroll.flows.settings.settings import Settings
from backscroll.flows.settings.time_zones import time_zone
from backscroll.flows.terminal.errors import UserError, report_user_errors
from backscroll.flows.terminal.progress import count_entries, left_out
from backscroll.flows.terminal.results import FileResults
from backscroll.operators.messages import (
    DeadLetter,
    Message,
    MessageError,
    Received,
    format_time,
    parse_message,
)

__all__ = ["message_json", "run_into"]

_BATCH = 500
_LOOK_SECONDS = 0.2
_LINE_SECONDS = 10.0


def run_into(
    files: Sequence[Path],
    settings: Settings,
    into: str,
    *,
    format: str,
    dead_letters: Path | None,
    speed: float | None,
) -> int:
    """Write the messages of files to a topic, in order; returns the exit code.

    Args:
        files: in the order to send.
        settings: the namespace, and how to log in to Kafka.
        into: `kafka://host:port/topic`; separate several brokers with commas.
        format: the format of the files, or `auto`.
        dead_letters: file for invalid entries.
        speed: seconds of chat per second; None for as fast as possible.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    console = Console(stderr=True, highlight=False)
    brokers, topic = _target(into)
    letters = dead_letters or Path("dead-letters.jsonl")
    skipped: Counter[str] = Counter()
    if letters.resolve() in {path.resolve() for path in files}:
        raise UserError(f"{letters} is also an input: write to another file")
    with report_user_errors(), handle_signals() as stop:
        tz = None if settings.tz is None else time_zone(settings.tz)
        named = [(path, check_file(path, format, tz)) for path in files]
        connection = kafka_connection(settings.model_copy(update={"kafka_brokers": brokers}))
        delivery = Delivery(connection, topic, stopping=stop.is_set, too_large=_too_large)
        with FileResults(None, letters, "jsonl") as outlet, _Counts(console, count_entries(named)) as counts:
            try:
                items = (
                    item
                    for path, format_ in named
                    for item in read_file(path, format_, tz=tz, counters=skipped)
                )
                _send(items, delivery, outlet, counts, namespace=settings.namespace, speed=speed, stop=stop)
            finally:
                delivery.close()
    plural = "" if counts.messages == 1 else "s"
    sent = f"{counts.messages:,} message{plural} into {topic} in {counts.seconds:.1f} s"
    rejected = f", {counts.rejected:,} rejected: see {letters}" if counts.rejected else ""
    console.print(sent + rejected, markup=False, soft_wrap=True)
    for line in left_out(skipped, outlet.reasons):
        console.print(line, markup=False, soft_wrap=True)
    return 128 + stop.signal if stop.signal else 0


def message_json(message: Message) -> bytes:
    """A message as JSON that `parse_message` turns back into the same message."""
    fields: dict[str, Any] = {"op": message.op, "namespace": message.key.namespace}
    fields |= {"channel": message.key.channel, "ts": format_time(message.ts)}
    if message.op != "flush":
        fields["id"] = message.id
    if message.op in ("post", "edit"):
        author = message.author
        fields |= {"author": {"id": author.id, "name": author.name, "bot": author.bot}, "text": message.text}
    for name in ("thread", "reply_to", "permalink"):
        if (value := getattr(message, name)) is not None:
            fields[name] = value
    return orjson.dumps(fields)


def _target(into: str) -> tuple[str, str]:
    """The brokers and the topic of `kafka://host:port/topic`."""
    parts = urlsplit(into)
    topic = parts.path.removeprefix("/")
    if "@" in parts.netloc:
        raise UserError(
            "--into: remove the login from the URL, and set BACKSCROLL_KAFKA_USERNAME and _PASSWORD instead"
        )
    if parts.scheme != "kafka" or not parts.netloc or not topic or "/" in topic or parts.query:
        raise UserError(f"--into {into}: write it as kafka://host:port/topic")
    return parts.netloc, topic


def _send(
    items: Iterator[Received],
    delivery: Delivery,
    outlet: FileResults,
    counts: _Counts,
    *,
    namespace: str,
    speed: float | None,
    stop: StopSignal,
) -> None:
    pace = None if speed is None else Pace(speed)
    due = list[Record]()

    def flush() -> None:
        delivery.deliver(due)
        counts.add(messages=len(due))
        due.clear()

    for item in items:
        try:
            message = _message(item, namespace)
        except MessageError as err:
            outlet.dead_letters([DeadLetter(item.origin, str(err), item.raw).to_json()])
            counts.add(rejected=1)
            continue
        while pace is not None and (wait := pace.wait(message.ts)) > 0 and not stop.is_set():
            flush()
            stop.wait(min(wait, _LOOK_SECONDS))
            counts.add()
        if stop.is_set():
            break
        where = " ".join(f"{name} {value}" for name, value in item.origin)
        due.append(Record(where, message_json(message), str(message.key).encode()))
        if len(due) >= _BATCH:
            flush()
    flush()


def _message(item: Received, namespace: str) -> Message:
    if isinstance(item.value, MessageError):
        raise item.value
    return parse_message(item.value, namespace=namespace)


def _too_large(record: Record) -> Record:
    msg = f"{record.name}: {record.size:,} bytes exceed the topic's limit: raise its max.message.bytes"
    raise RecordTooLargeError(msg)


class _Counts:
    """Counts what was sent and shows it: as a progress bar on a terminal, else a line every ten seconds."""

    def __init__(self, console: Console, total: int | None) -> None:
        columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=total)
        self._console = console
        self._began = self._shown = time.monotonic()
        self.messages = self.rejected = 0

    def __enter__(self) -> _Counts:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def add(self, *, messages: int = 0, rejected: int = 0) -> None:
        """Update the counts and show them."""
        self.messages += messages
        self.rejected += rejected
        text = f"{self.messages:,} messages, {self.messages / max(self.seconds, 1e-9):,.0f} messages/s"
        self._bar.update(self._task, completed=self.messages + self.rejected, description=text)
        if not self._console.is_terminal and time.monotonic() - self._shown > _LINE_SECONDS:
            self._shown = time.monotonic()
            self._console.print(text)
