"""Runs a job's dataflow to its end in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from bytewax.dataflow import Dataflow
from bytewax.run import cli_main

from backscroll.connectors.callback_sink import CallbackSink
from backscroll.connectors.files.source import FilesSource
from backscroll.flows.ingest import ingest_flow
from backscroll.flows.running.job import Job, ResultWriter
from backscroll.flows.settings.time_zones import time_zone
from backscroll.flows.summarize import summarize_flow
from backscroll.operators.engine import Engine
from backscroll.operators.messages import DeadLetter
from backscroll.operators.stream.windows import Window
from backscroll.operators.summary.record import Emission

__all__ = ["ResultSinks", "run_dataflow"]

X = TypeVar("X")


def run_dataflow(
    job: Job,
    engine: Engine,
    results: ResultWriter | None = None,
    *,
    process_id: int | None = None,
    addresses: list[str] | None = None,
) -> None:
    """Run the job's dataflow to its end, as one process or as one of a cluster's.

    Args:
        job: what to run.
        engine: the engine, over its store.
        results: where results go; None if they go to topics.
        process_id: the index of this process in a cluster.
        addresses: `host:port` of every process of the cluster.

    After an orderly stop, it raises the error of a step or the source, if there is one.
    """
    place = {"process_id": process_id, "addresses": addresses}
    if results is None:
        from backscroll.flows.running.live import run_live

        run_live(engine, job.settings, place)
    else:
        cli_main(_files_flow(job, engine, results), **place, epoch_interval=timedelta(seconds=1))  # type: ignore[no-untyped-call]
    engine.runtime.raise_failure()


def _files_flow(job: Job, engine: Engine, results: ResultWriter) -> Dataflow:
    source = FilesSource(
        [(Path(path), format_) for path, format_ in job.files],
        speed=job.speed,
        tz=None if job.settings.tz is None else time_zone(job.settings.tz),
        counters=engine.runtime.counters,
        feed=engine.feed,
    )

    sinks = ResultSinks(engine, results)
    if job.kind == "ingest":
        return ingest_flow(engine, source, sinks.open_windows, sinks.dead_letters)
    return summarize_flow(engine, source, sinks.summaries, sinks.dead_letters)


class ResultSinks:
    """A result writer as Bytewax sinks.

    If writing fails, the flow stops in an orderly way; results that were not written are in the store.

    Args:
        engine: receives the failure.
        results: where results are written.
    """

    def __init__(self, engine: Engine, results: ResultWriter) -> None:
        def write_letters(letters: Sequence[DeadLetter]) -> None:
            results.dead_letters([letter.to_json() for letter in letters])

        def write_open(items: Sequence[tuple[str, Window]]) -> None:
            results.open_windows([_open_window(window) for _, window in items])

        def write_summaries(items: Sequence[tuple[str, Emission]]) -> None:
            results.summaries([emission.body for _, emission in items if emission.body is not None])

        def guarded(write: Callable[[Sequence[X]], None]) -> CallbackSink[X]:
            def write_or_stop(items: Sequence[X]) -> None:
                try:
                    write(items)
                except Exception as err:
                    engine.runtime.fail(err)

            return CallbackSink(write_or_stop)

        self.dead_letters = guarded(write_letters)
        self.open_windows = guarded(write_open)
        self.summaries = guarded(write_summaries)


def _open_window(window: Window) -> Mapping[str, Any]:
    return {"channel": str(window.ref.key), "turns": len(window.turns), "first": window.turns[0].id}
