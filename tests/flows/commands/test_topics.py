from __future__ import annotations

import os
from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from backscroll.connectors.kafka import connection as kafka_connection
from backscroll.flows.commands.topics import run_create_topics
from backscroll.flows.settings.settings import Settings
from backscroll.flows.terminal.errors import UserError
from support.brokers import Broker, free_port, refused_sockets, running
from support.commands import run

pytestmark = refused_sockets


def create(broker: Broker, name: str, *, partitions: int = 3, replication: int = 1, days: float = 7) -> None:
    settings = Settings(
        kafka_brokers=broker.address,
        kafka_topics=f"{name}-in",
        kafka_summaries=f"{name}-out",
        kafka_dead_letters=f"{name}-dead",
        kafka_debug=f"{name}-debug",
    )
    run_create_topics(settings, partitions=partitions, replication=replication, retention_days=days)


def test_missing_topics_are_created_and_existing_ones_are_unchanged(
    broker: Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    create(broker, topic)
    assert capsys.readouterr().out.splitlines() == [
        f"{topic}-in: created, 3 partitions, kept for 7 days",
        f"{topic}-dead: created, 3 partitions, kept for 7 days",
        f"{topic}-out: created, 3 partitions, compacted",
        f"{topic}-debug: created, 3 partitions, compacted",
    ]
    names = [f"{topic}-{name}" for name in ("in", "dead", "out", "debug")]
    assert broker.connection.partitions(names) == dict.fromkeys(names, 3)
    create(broker, topic)
    assert capsys.readouterr().out.splitlines() == [f"{name}: exists" for name in names]


def test_a_topic_with_a_different_number_of_partitions_gives_a_warning(
    broker: Broker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    create(broker, topic)
    capsys.readouterr()
    create(broker, topic, partitions=8)
    first = capsys.readouterr().out.splitlines()[0]
    warning = "warning: it has 3 partitions, not 8; adding some would move channels"
    assert first == f"{topic}-in: exists; {warning}"


def test_retention_and_compaction_are_set_on_the_broker(tmp_path: Path, topic: str) -> None:
    """On noida only: Tansu cannot describe its configuration."""
    with running("noida", tmp_path) as broker:
        create(broker, topic, days=0.5)
        with broker.admin() as admin:
            names = [f"{topic}-in", f"{topic}-out"]
            resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
            told = admin.describe_configs(resources, config_filter="all")["topic"]
    assert told[f"{topic}-in"]["retention.ms"]["value"] == "43200000"
    assert told[f"{topic}-out"]["cleanup.policy"]["value"] == "compact"


def test_a_topic_with_wrong_compaction_gives_a_warning(
    tmp_path: Path, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with running("noida", tmp_path) as broker:
        broker.create(f"{topic}-in", 3, **{"cleanup.policy": "compact"})
        broker.create(f"{topic}-out", 3, **{"cleanup.policy": "delete"})
        create(broker, topic)
    lines = capsys.readouterr().out.splitlines()
    assert "warning: it is compacted, so messages with the same key replace each other" in lines[0]
    assert "warning: it is not compacted, so replaced and withdrawn summaries are kept" in lines[2]


def test_the_command_creates_the_topics_named_in_the_environment(broker: Broker, topic: str) -> None:
    environment = {**os.environ, "BACKSCROLL_KAFKA_BROKERS": broker.address}
    environment |= {"BACKSCROLL_KAFKA_TOPICS": f"{topic}-a,{topic}-b"}
    names = ["--summaries", f"{topic}-out", "--dead-letters", f"{topic}-dead"]
    done = run("topics", "create", "--partitions", 2, *names, env=environment)
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        f"{topic}-a",
        f"{topic}-b",
        f"{topic}-dead",
        f"{topic}-out",
    ]


def test_unreachable_brokers_end_the_command_with_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_connection, "START_SECONDS", 0.5)
    settings = Settings(kafka_brokers=f"127.0.0.1:{free_port()}")
    with pytest.raises(UserError, match=r"no Kafka broker at .* \(Connection refused\): start one"):
        run_create_topics(settings, partitions=1, replication=1, retention_days=1)
