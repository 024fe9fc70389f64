from __future__ import annotations

import logging
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from backscroll.connectors.kafka import connection as kafka_connection
from backscroll.connectors.kafka import group_offsets as kafka_lag
from backscroll.connectors.kafka.connection import KafkaConnection
from backscroll.connectors.kafka.group_offsets import GroupOffsets
from backscroll.connectors.kafka.source import KafkaSource
from backscroll.operators.runtime.feed import Feed
from support.brokers import Broker, free_port, refused_sockets, wait_for

pytestmark = refused_sockets


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_lag, "_SECONDS", 0.05)


def committed(broker: Broker, topic: str, group: str, partition: int = 0) -> int | None:
    consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=group, enable_auto_commit=False)
    try:
        offset: int | None = consumer.committed(TopicPartition(topic, partition), timeout_ms=5000)
        return offset
    finally:
        consumer.close()


def test_the_group_gets_the_snapshot_before_the_latest(broker: Broker, topic: str) -> None:
    broker.create(topic, 2)
    offsets = GroupOffsets(broker.connection, topic)
    for offset in (5, 9):
        offsets.snapshot(topic, 0, offset)
    offsets.snapshot(topic, 1, 3)
    wait_for(lambda: committed(broker, topic, topic) == 5, what="a commit")
    offsets.snapshot(topic, 0, 12)
    wait_for(lambda: committed(broker, topic, topic) == 9, what="a commit")
    offsets.snapshot(topic, 0, 12)
    offsets.close()
    assert committed(broker, topic, topic) == 12
    assert committed(broker, topic, topic, 1) in (None, -1)


def test_the_source_commits_what_it_has_read(broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.write(topic, b"{}", b"{}", b"{}")
    feed = Feed(
        throttled=lambda: False,
        stopping=lambda: False,
        fail=lambda _: None,
        lost=lambda *_: None,
        at_end=lambda *_: None,
    )
    source = KafkaSource(broker.connection, [topic], feed=feed, group=topic)
    part = source.build_part("messages", f"{topic}:0", None)
    found: list[Any] = []
    wait_for(lambda: found.extend(part.next_batch()) or len(found) == 3, what="messages")
    part.snapshot()
    part.snapshot()
    part.close()
    assert committed(broker, topic, topic) == 3


def test_a_failure_to_commit_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_connection, "START_SECONDS", 0.1)
    caplog.set_level(logging.WARNING, logger="backscroll.connectors")
    tries: list[int] = []
    reach = GroupOffsets._open
    monkeypatch.setattr(GroupOffsets, "_open", lambda self: tries.append(1) or reach(self))
    offsets = GroupOffsets(KafkaConnection(brokers=(f"127.0.0.1:{free_port()}",)), "lag")
    for offset in (1, 2):
        offsets.snapshot("messages", 0, offset)
    wait_for(lambda: len(tries) >= 3, what="three tries")
    offsets.close()
    ours = [record.message for record in caplog.records if record.name.startswith("backscroll.connectors")]
    assert ours == ["group lag: cannot commit offsets (UnreachableError): lag will look stale"]
