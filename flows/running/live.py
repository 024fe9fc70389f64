"""Runs the dataflow on live topics: Kafka in, Kafka out, with state that survives a restart."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import timedelta
from typing import Any, cast

from bytewax.dataflow import Dataflow
from bytewax.inputs import Source
from bytewax.recovery import RecoveryConfig
from bytewax.run import cli_main

from backscroll.connectors.kafka.sink import KafkaDeadLetters, KafkaDebug, KafkaSink
from backscroll.connectors.kafka.source import KafkaSource
from backscroll.connectors.lancedb.store import LanceStore
from backscroll.flows.assembly.kafka import kafka_connection
from backscroll.flows.running.maintenance import maintained
from backscroll.flows.running.recovery import recovery_directory
from backscroll.flows.settings.settings import Settings
from backscroll.flows.summarize import summarize_flow
from backscroll.flows.terminal.errors import ClusterError
from backscroll.operators.engine import Engine
from backscroll.operators.messages import Received
from backscroll.operators.runtime.metrics import DEAD_LETTERS

__all__ = ["live_flow", "run_live", "to_topics_flow"]


def run_live(
    engine: Engine, settings: Settings, place: Mapping[str, Any], flow: Dataflow | None = None
) -> None:
    """Run the dataflow on live input until the engine stops; the first process maintains the store.

    Args:
        engine: the engine, over its store.
        settings: its settings.
        place: `process_id` and `addresses` in a cluster; both None for a single process.
        flow: the dataflow; None for the one on live topics.
    """
    recovery = RecoveryConfig(recovery_directory(settings), timedelta())  # type: ignore[no-untyped-call]
    flow = flow or live_flow(engine, settings)
    with ExitStack() as stack:
        if not place["process_id"]:
            stack.enter_context(maintained(cast(LanceStore, engine.histories.store), settings))
        try:
            cli_main(  # type: ignore[no-untyped-call]
                flow, **place, epoch_interval=timedelta(seconds=1), recovery_config=recovery
            )
        except BaseException as err:
            if type(err).__name__ != "PanicException" or place["addresses"] is None:
                raise
            raise ClusterError("another process of the cluster ended: restart all of them") from err


def live_flow(engine: Engine, settings: Settings) -> Dataflow:
    """The summarizing dataflow between the topics of the settings.

    Raises:
        KafkaError: the brokers cannot be used, or a topic does not exist.
    """
    connection = kafka_connection(settings)
    connection.partitions(settings.kafka_topic_names)

    engine.runtime.liveness.begin()
    source = KafkaSource(
        connection,
        settings.kafka_topic_names,
        start=settings.kafka_start_at,
        on_lost=settings.on_lost_offset,
        lateness=engine.config.lateness,
        group=settings.kafka_group,
        feed=engine.feed,
    )
    return to_topics_flow(engine, settings, source)


def to_topics_flow(engine: Engine, settings: Settings, source: Source[Received]) -> Dataflow:
    """The summarizing dataflow from a source to the topics of the settings.

    Raises:
        KafkaError: the brokers cannot be used, or a topic does not exist.
    """
    connection, stopping = kafka_connection(settings), engine.runtime.stopping.is_set
    written = (settings.kafka_summaries, settings.kafka_dead_letters, settings.kafka_debug)
    connection.partitions([topic for topic in written if topic is not None])
    letters = KafkaDeadLetters(connection, settings.kafka_dead_letters, stopping=stopping)

    def refused() -> None:
        engine.runtime.counters["failed"] += 1
        DEAD_LETTERS.inc()

    return summarize_flow(
        engine,
        source,
        KafkaSink(
            connection,
            settings.kafka_summaries,
            dead_letters=letters,
            on_refused=refused,
            stopping=stopping,
        ),
        letters,
        None
        if settings.kafka_debug is None
        else KafkaDebug(
            connection,
            settings.kafka_debug,
            dead_letters=letters,
            on_refused=DEAD_LETTERS.inc,
            stopping=stopping,
        ),
    )
