"""`backscroll tail`: show summaries as they arrive on their topic."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import tzinfo
from typing import Any, Literal

import orjson
from kafka import KafkaConsumer, TopicPartition, errors
from rich.console import Console

from backscroll.connectors.kafka.connection import KafkaConnection
from backscroll.flows.assembly.kafka import kafka_connection
from backscroll.flows.running.signals import StopSignal, handle_signals
from backscroll.flows.settings.settings import Settings
from backscroll.flows.settings.time_zones import shown_zone
from backscroll.flows.terminal.cards import print_card
from backscroll.flows.terminal.errors import report_user_errors
from backscroll.operators.messages import ChannelKey, channels_called

__all__ = ["run_tail"]

_POLL_MS = 200


def run_tail(
    settings: Settings,
    *,
    start: Literal["earliest", "latest"],
    channel: str | None,
    form: Literal["auto", "cards", "jsonl"],
    limit: int | None,
) -> int:
    """Print summaries until interrupted or until `limit` is reached; returns the exit code.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    cards = form == "cards" or (form == "auto" and sys.stdout.isatty())
    wanted = None if channel is None else _Wanted(channel, settings.namespace)
    with report_user_errors(), handle_signals() as stop:
        connection = kafka_connection(settings)
        consumer = _open(connection, settings.kafka_summaries, start)
        try:
            with suppress(BrokenPipeError):  # the reader, such as `head`, has closed the pipe
                printer = _Printer(cards, *shown_zone(settings.tz))
                _follow(consumer, printer, wanted, limit, stop)
        except errors.KafkaError as err:
            raise connection.explain(err) from err
        finally:
            consumer.close(autocommit=False, timeout_ms=1000)
    return 0


class _Wanted:
    """The channel given on the command line, with or without its namespace and `#`.

    Which channels there are is learned from their records: `dock` shows `#dock` until `dock` is seen.
    """

    def __init__(self, channel: str, namespace: str) -> None:
        named = ChannelKey.parse(channel)
        self._name = channel if "/" in channel else str(ChannelKey(namespace, named.channel))
        self._known = set[ChannelKey]()

    def __call__(self, record_key: bytes) -> bool:
        """Whether a record is of this channel; its key begins with that of the channel."""
        key = ChannelKey.parse(record_key.decode("utf-8", "replace").partition(":")[0])
        if key not in self._known and channels_called([key], self._name):
            self._known.add(key)
        return key in channels_called(self._known, self._name)


def _open(connection: KafkaConnection, topic: str, start: str) -> KafkaConsumer:
    count = connection.partitions([topic])[topic]
    consumer, _ = connection.connect(
        KafkaConsumer,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset=start,
        allow_auto_create_topics=False,
        isolation_level="read_committed",
        metrics_enabled=False,
    )
    consumer.assign([TopicPartition(topic, number) for number in range(count)])
    return consumer


def _follow(
    consumer: KafkaConsumer, printer: _Printer, wanted: _Wanted | None, limit: int | None, stop: StopSignal
) -> None:
    shown = 0
    while not stop.is_set():
        for records in consumer.poll(timeout_ms=_POLL_MS).values():
            for record in records:
                if wanted is not None and not wanted(record.key or b""):
                    continue
                printer.show(record)
                shown += 1
                if shown == limit:
                    return


class _Printer:
    """Prints records as cards or JSON Lines; in JSON Lines, a tombstone has `"tombstone": true`."""

    def __init__(self, cards: bool, zone: tzinfo, zone_name: str) -> None:
        self._cards = cards
        self._zone, self._zone_name = zone, zone_name
        self._console = Console(highlight=False)
        self._errors = Console(stderr=True, highlight=False)

    def show(self, record: Any) -> None:
        """Print a record from kafka-python."""
        headers = dict(record.headers or ())
        name = (record.key or b"").decode("utf-8", "backslashreplace")
        revision = int(headers.get("backscroll-revision", b"0"))
        if not self._cards:
            gone = {"summary_id": name, "revision": revision, "tombstone": True}
            line = orjson.dumps(gone) if record.value is None else record.value
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
            return
        if record.value is None:
            self._note(f"{name}: withdrawn because all its messages were deleted")
            return
        try:
            if revision:
                self._note(f"{name}: revision {revision}, updated because its messages changed")
            print_card(self._console, record.value, self._zone, self._zone_name)
        except ValueError:
            where = f"{record.topic}[{record.partition}] offset {record.offset}"
            self._errors.print(f"{where}: not a summary record that this version can read", markup=False)

    def _note(self, text: str) -> None:
        self._console.print(text, style="dim", markup=False, soft_wrap=True)
