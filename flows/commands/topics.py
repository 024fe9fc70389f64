"""`backscroll topics create`: create the topics named in the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from kafka import KafkaAdminClient, errors
from kafka.admin import ConfigResource, ConfigResourceType

from backscroll.connectors.kafka.connection import KafkaConnection, KafkaError, TopicError
from backscroll.flows.assembly.kafka import kafka_connection
from backscroll.flows.settings.kafka import KafkaSettings
from backscroll.flows.terminal.errors import report_user_errors

__all__ = ["run_create_topics"]

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic as it should be, with `days` of retention, or compacted if None."""

    name: str
    partitions: int
    days: float | None

    @property
    def configs(self) -> dict[str, str]:
        if self.days is None:
            # Replaced and withdrawn summaries are removed within a day, even on a quiet topic.
            return {"cleanup.policy": "compact", "max.compaction.lag.ms": str(_DAY_MS)}
        return {"cleanup.policy": "delete", "retention.ms": str(int(self.days * _DAY_MS))}

    def __str__(self) -> str:
        kept = "compacted" if self.days is None else f"kept for {self.days:g} days"
        return f"{self.partitions} partitions, {kept}"


def run_create_topics(
    settings: KafkaSettings, *, partitions: int, replication: int, retention_days: float
) -> int:
    """Create the missing topics and print what was done for each; returns the exit code.

    Existing topics are not changed; a warning is printed if they differ in a way that matters.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    kept = [*settings.kafka_topic_names, settings.kafka_dead_letters]
    compacted = [settings.kafka_summaries, *([settings.kafka_debug] if settings.kafka_debug else [])]
    topics = {name: _Topic(name, partitions, retention_days) for name in kept}
    topics |= {name: _Topic(name, partitions, None) for name in compacted}
    with report_user_errors():
        connection = kafka_connection(settings)
        admin, _ = connection.connect(KafkaAdminClient)
        try:
            for topic in topics.values():
                click.echo(_create(connection, admin, topic, replication))
        except errors.KafkaError as err:
            raise connection.explain(err) from err
        finally:
            admin.close()
    return 0


def _create(connection: KafkaConnection, admin: KafkaAdminClient, topic: _Topic, replication: int) -> str:
    wanted = {
        "num_partitions": topic.partitions,
        "replication_factor": replication,
        "configs": topic.configs,
    }
    (answer,) = admin.create_topics({topic.name: wanted}, raise_errors=False)["topics"]
    code = answer["error_code"]
    if code == 0:
        return f"{topic.name}: created, {topic}"
    if code == errors.TopicAlreadyExistsError.errno:
        return _compare(admin, topic)
    raise _refusal(connection, topic, replication, errors.for_code(code))


def _compare(admin: KafkaAdminClient, topic: _Topic) -> str:
    (described,) = admin.describe_topics([topic.name])
    count = len(described["partitions"])
    notes = []
    if count != topic.partitions:
        notes.append(
            f"warning: it has {count} partitions, not {topic.partitions}; adding some would move channels"
        )
    policy = _cleanup_policy(admin, topic.name)
    if topic.days is None and policy is not None and "compact" not in policy:
        notes.append("warning: it is not compacted, so replaced and withdrawn summaries are kept")
    if topic.days is not None and policy is not None and "compact" in policy:
        notes.append("warning: it is compacted, so messages with the same key replace each other")
    return "; ".join([f"{topic.name}: exists", *notes])


def _cleanup_policy(admin: KafkaAdminClient, name: str) -> str | None:
    """The topic's cleanup policy; None if the broker does not report it."""
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    answer: Mapping[str, Any] = admin.describe_configs([resource], config_filter="all")
    entry = answer.get("topic", {}).get(name, {}).get("cleanup.policy")
    return None if entry is None else str(entry["value"])


def _refusal(
    connection: KafkaConnection, topic: _Topic, replication: int, error: type[errors.KafkaError]
) -> KafkaError:
    where = f"topic {topic.name!r} of {connection}"
    if issubclass(error, errors.InvalidReplicationFactorError):
        return TopicError(
            f"{where}: replication {replication} is more than the number of brokers: use a lower one"
        )
    if issubclass(error, errors.AuthorizationError):
        return TopicError(f"{where}: this login is not allowed to create it: ask for an ACL")
    if issubclass(error, errors.InvalidTopicError):
        return TopicError(f"{where}: not a valid name: use letters, digits, dots, dashes and underscores")
    return TopicError(
        f"{where}: the broker refused to create it ({error.__name__}): create it with Kafka's own tools"
    )
