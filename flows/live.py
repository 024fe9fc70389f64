"""The dataflow on live topics: Kafka in, Kafka out, with state that survives the process."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

from connectors.kafka_sink import KafkaDeadLetters, KafkaDebug, KafkaSink
from connectors.kafka_source import Feed, KafkaSource
from connectors.lancedb_store import LanceStore
from flows.cluster import ClusterError
from flows.kafka_settings import kafka_connection
from flows.maintenance import maintained
from flows.settings import Settings, SettingsError
from flows.summarize import summarize_flow
from operators.engine import Engine
from operators.metrics import LOST

__all__ = ["await_recovery", "live_flow", "prepare_recovery", "recovery_directory", "run_live"]


def run_live(engine: Engine, settings: Settings, place: Mapping[str, Any]) -> None:
    """Run the dataflow on live topics until the engine is to stop; the first process keeps the store.

    Args:
        engine: the engine, over its store.
        settings: its settings.
        place: `process_id` and `addresses` in a cluster; both None for one process.
    """
    recovery = RecoveryConfig(recovery_directory(settings), timedelta())  # type: ignore[no-untyped-call]
    flow = live_flow(engine, settings)
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
            raise ClusterError("another process of the cluster ended: start all of them again") from err


def live_flow(engine: Engine, settings: Settings) -> Dataflow:
    """The summarizing dataflow between the topics of the settings.

    Raises:
        KafkaError: the brokers cannot be used, or a topic does not exist.
    """
    connection = kafka_connection(settings)
    written = (settings.kafka_summaries, settings.kafka_dead_letters, settings.kafka_debug)
    connection.partitions([*settings.kafka_topic_names, *(topic for topic in written if topic is not None)])

    def lost(topic: str, partition: int, messages: int) -> None:
        engine.counters["lost"] += messages
        LOST.labels(topic, str(partition)).inc(messages)

    engine.liveness.begin()
    source = KafkaSource(
        connection,
        settings.kafka_topic_names,
        start=settings.kafka_start_at,
        on_lost=settings.on_lost_offset,
        lateness=engine.lateness,
        group=settings.kafka_group,
        feed=Feed(
            throttled=lambda: engine.throttled,
            stopping=engine.stopping.is_set,
            fail=engine.fail,
            lost=lost,
            at_end=engine.liveness.at_end,
        ),
    )
    stopping = engine.stopping.is_set
    return summarize_flow(
        engine,
        source,
        KafkaSink(connection, settings.kafka_summaries, stopping=stopping),
        KafkaDeadLetters(connection, settings.kafka_dead_letters, stopping=stopping),
        None
        if settings.kafka_debug is None
        else KafkaDebug(connection, settings.kafka_debug, stopping=stopping),
    )


def recovery_directory(settings: Settings) -> Path:
    """Where the state of the dataflow is kept.

    Raises:
        SettingsError: it is not set, and the store is no local directory to keep it in.
    """
    if settings.recovery is not None:
        return settings.recovery
    if settings.store is None or "://" in settings.store:
        raise SettingsError("recovery: name a local directory for the state of the dataflow (--recovery)")
    return Path(settings.store) / "recovery"


def prepare_recovery(settings: Settings, processes: int, *, alone: bool = True) -> None:
    """Make the recovery partitions if there are none, and drop what old snapshots left in them.

    Args:
        settings: the engine's settings.
        processes: how many will use them.
        alone: no other process has them open; only then are they cleaned.

    Raises:
        SettingsError: there are fewer partitions than processes, or the directory cannot be used.
    """
    directory = recovery_directory(settings)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (directory / "part-0.sqlite3").exists():
            _make_partitions(directory, settings.recovery_partitions)
        parts = sorted(directory.glob("part-*.sqlite3"))
        for part in parts if alone else ():
            with closing(sqlite3.connect(part)) as database:
                database.execute("VACUUM")  # message text of states that are over is gone from the file
    except (OSError, sqlite3.Error) as err:
        raise SettingsError(f"recovery directory {directory} cannot be used: {err}") from err
    if len(parts) < processes:
        raise SettingsError(
            f"recovery directory {directory} has {len(parts)} partitions, fewer than the {processes} "
            "processes: their number (recovery_partitions) is fixed when the directory is made"
        )


def _make_partitions(directory: Path, count: int) -> None:
    """Make all partitions or none: the first comes last, and tells that the others are there."""
    new = directory / "new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    init_db_dir(new, count)  # type: ignore[no-untyped-call]
    for number in reversed(range(count)):
        (new / f"part-{number}.sqlite3").replace(directory / f"part-{number}.sqlite3")
    new.rmdir()


def await_recovery(settings: Settings, seconds: float = 60.0) -> None:
    """Wait until the first process of a cluster has made the recovery partitions.

    Raises:
        SettingsError: it has not in that time.
    """
    directory, deadline = recovery_directory(settings), time.monotonic() + seconds
    while not (directory / "part-0.sqlite3").exists():
        if time.monotonic() > deadline:
            raise SettingsError(f"recovery directory {directory} is empty: is process 0 running?")
        time.sleep(0.1)
