"""A job: a stream of messages through a dataflow, in this process or in one of a cluster's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import orjson
from bytewax.dataflow import Dataflow
from bytewax.run import cli_main
from pydantic import SecretStr

from connectors.replay import FilesSource
from connectors.sinks import CallbackSink
from flows.ingest import ingest_flow
from flows.settings import Settings
from flows.summarize import summarize_flow
from flows.time_zones import time_zone
from operators.engine import Engine
from operators.messages import DeadLetter
from operators.summaries import Emission
from operators.windows import Window

__all__ = ["Job", "Outlet", "OutletSinks", "run_dataflow"]

X = TypeVar("X")


@dataclass(frozen=True, slots=True)
class Job:
    """What to run, and how: files with their formats, in order, or, for `run`, the topics of the settings.

    `speed` is in seconds of chat a second, None for as fast as possible; `detected` names a file of
    recorded gaps.
    """

    kind: Literal["replay", "ingest", "run"]
    files: tuple[tuple[str, str], ...]
    settings: Settings
    speed: float | None = None
    detected: str | None = None

    def to_json(self) -> bytes:
        """For a worker process."""
        fields = {name: getattr(self, name) for name in ("kind", "files", "speed", "detected")}
        settings = self.settings.model_dump(mode="json")
        for name, value in self.settings:
            if isinstance(value, SecretStr):  # the pipe to a worker is private
                settings[name] = value.get_secret_value()
        return orjson.dumps({**fields, "settings": settings})

    @classmethod
    def from_json(cls, body: bytes) -> Job:
        """Read what `to_json` wrote."""
        fields: dict[str, Any] = orjson.loads(body)
        files = tuple((path, format_) for path, format_ in fields.pop("files"))
        return cls(files=files, settings=Settings(**fields.pop("settings")), **fields)


class Outlet(Protocol):
    """Where a job's results go; called on the dataflow's worker thread, one batch at a time."""

    def summaries(self, bodies: Sequence[bytes]) -> None:
        """Summary records."""
        ...

    def dead_letters(self, letters: Sequence[bytes]) -> None:
        """Rejected input, as JSON."""
        ...

    def open_windows(self, windows: Sequence[Mapping[str, Any]]) -> None:
        """Turns at the end of an ingested channel that no closed window holds yet."""
        ...


def run_dataflow(
    job: Job,
    engine: Engine,
    outlet: Outlet,
    *,
    process_id: int | None = None,
    addresses: list[str] | None = None,
) -> None:
    """Run the job's dataflow to its end, as one process or as one of a cluster's.

    Raises whatever a step or the source failed with, after an orderly stop.
    """
    place = {"process_id": process_id, "addresses": addresses}
    if job.kind == "run":
        from flows.live import run_live

        run_live(engine, job.settings, place)
    else:
        cli_main(_files_flow(job, engine, outlet), **place, epoch_interval=timedelta(seconds=1))  # type: ignore[no-untyped-call]
    if engine.failure is not None:
        raise engine.failure


def _files_flow(job: Job, engine: Engine, outlet: Outlet) -> Dataflow:
    source = FilesSource(
        [(Path(path), format_) for path, format_ in job.files],
        speed=job.speed,
        tz=None if job.settings.tz is None else time_zone(job.settings.tz),
        counters=engine.counters,
        throttled=lambda: engine.throttled,
        stopping=engine.stopping.is_set,
        fail=engine.fail,
    )

    sinks = OutletSinks(engine, outlet)
    if job.kind == "ingest":
        return ingest_flow(engine, source, sinks.open_windows, sinks.dead_letters)
    return summarize_flow(engine, source, sinks.summaries, sinks.dead_letters)


class OutletSinks:
    """An outlet as Bytewax sinks.

    A failure to write stops the flow in good order; what was not written is in the store.

    Args:
        engine: told of the failure.
        outlet: written to.
    """

    def __init__(self, engine: Engine, outlet: Outlet) -> None:
        def write_letters(letters: Sequence[DeadLetter]) -> None:
            outlet.dead_letters([letter.to_json() for letter in letters])

        def write_open(items: Sequence[tuple[str, Window]]) -> None:
            outlet.open_windows([_open_window(window) for _, window in items])

        def write_summaries(items: Sequence[tuple[str, Emission]]) -> None:
            outlet.summaries([emission.body for _, emission in items if emission.body is not None])

        def guarded(write: Callable[[Sequence[X]], None]) -> CallbackSink[X]:
            def write_or_stop(items: Sequence[X]) -> None:
                try:
                    write(items)
                except Exception as err:
                    engine.fail(err)

            return CallbackSink(write_or_stop)

        self.dead_letters = guarded(write_letters)
        self.open_windows = guarded(write_open)
        self.summaries = guarded(write_summaries)


def _open_window(window: Window) -> Mapping[str, Any]:
    return {"channel": str(window.ref.key), "turns": len(window.turns), "first": window.turns[0].id}
