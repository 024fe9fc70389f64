"""The engine as a service, as a command: topics in, topics out, until it is stopped."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import click
from rich.console import Console

from backscroll.flows.running.cluster import run_cluster
from backscroll.flows.running.job import Job
from backscroll.flows.running.monitoring import Monitoring, monitored
from backscroll.flows.running.service import check_store, until_stopped
from backscroll.flows.running.signals import StopSignal, handle_signals
from backscroll.flows.settings.settings import Settings
from backscroll.flows.terminal.errors import report_user_errors, user_error_line
from backscroll.flows.terminal.log_setup import set_up_logging
from backscroll.flows.terminal.progress import report, show_progress
from backscroll.operators.runtime.progress import Progress

__all__ = ["run_service"]


@dataclass(frozen=True, slots=True)
class _Cluster:
    """Local processes, or the position of this one among processes that you start one by one."""

    workers: int
    process_id: int | None
    addresses: list[str] | None


def run_service(settings: Settings, *, workers: int, process_id: int | None, addresses: str | None) -> int:
    """Run the engine on the topics of the settings; returns the exit code.

    Args:
        settings: the engine's settings; they need a store.
        workers: local processes of one cluster.
        process_id: the position of this process in `addresses`, for a cluster whose processes you start
            one by one.
        addresses: `host:port` of every process of that cluster, separated by commas or semicolons.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    console = Console(stderr=True, highlight=False)
    set_up_logging()
    check_store(settings)
    cluster = _Cluster(workers, process_id, _peers(addresses, process_id, workers))
    counters: Counter[str] = Counter()
    started = time.monotonic()
    with report_user_errors(), show_progress(console, counters, None):
        _run(settings, cluster, counters)
    report(
        console,
        counters,
        seconds=time.monotonic() - started,
        dead_letters=f"topic {settings.kafka_dead_letters}",
    )
    return 0


def _run(settings: Settings, cluster: _Cluster, counters: Counter[str]) -> None:
    if cluster.workers > 1:
        _run_local_cluster(settings, cluster.workers, counters)
        return
    processes = len(cluster.addresses or [""])
    with monitored(settings, alone=processes == 1) as watch:
        _run_process(settings, cluster, counters, watch)


def _run_process(settings: Settings, cluster: _Cluster, counters: Counter[str], watch: Monitoring) -> None:
    from backscroll.flows.assembly.engine import open_engine
    from backscroll.flows.running.dataflow import run_dataflow
    from backscroll.flows.running.recovery import await_recovery, prepare_recovery
    from backscroll.operators.runtime.runtime import Runtime

    peers, number = cluster.addresses, cluster.process_id
    processes = len(peers or [""])
    stop = StopSignal()
    runtime = Runtime(counters=counters, stopping=stop, raises=False)
    with open_engine(settings, runtime=runtime, shared=peers is not None, processes=processes) as engine:
        if number:
            await_recovery(settings, number)
        prepare_recovery(settings, processes, process_id=number)

        with until_stopped(runtime, stop):
            watch.follow(lambda: {0: runtime.progress.latest}, stop)
            try:
                run_dataflow(Job("run", (), settings), engine, process_id=number, addresses=peers)
            except Exception as err:
                if not stop.signal or user_error_line(err) is None:
                    raise
                # For example records that could not be sent: they are sent again next time.
                click.echo(f"stopped: {user_error_line(err)}", err=True)


def _run_local_cluster(settings: Settings, processes: int, counters: Counter[str]) -> None:
    from backscroll.flows.running.recovery import prepare_recovery

    with handle_signals() as stop, monitored(settings, processes=processes) as watch:
        progress = dict[int, Progress]()
        watch.follow(lambda: dict(progress), stop)
        run_cluster(
            Job("run", (), settings),
            processes=processes,
            counters=counters,
            stopping=stop,
            prepare=lambda: prepare_recovery(settings, processes),
            progress=progress,
            metrics=watch.metrics,
        )


def _peers(addresses: str | None, process_id: int | None, workers: int) -> list[str] | None:
    """The processes of a cluster that you start one by one; None if this command starts them all."""
    if addresses is None and process_id is None:
        return None
    if addresses is None or process_id is None:
        raise click.UsageError("use --process-id and --addresses together")
    if workers > 1:
        raise click.UsageError("--workers starts processes on this machine: remove it, or --addresses")
    peers = [address.strip() for address in addresses.replace(";", ",").split(",") if address.strip()]
    if not 0 <= process_id < len(peers):
        raise click.UsageError(
            f"--process-id {process_id} must be from 0 to {len(peers) - 1}: --addresses lists {len(peers)}"
        )
    return peers
