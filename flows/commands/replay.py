"""Run chat files through a dataflow, as a command: checks, progress, signals, report."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Literal

from rich.console import Console

from backscroll.connectors.files.formats import check_file
from backscroll.flows.running.cluster import run_cluster
from backscroll.flows.running.job import Job
from backscroll.flows.running.signals import StopSignal, handle_signals
from backscroll.flows.settings.settings import Settings
from backscroll.flows.settings.time_zones import shown_zone, time_zone
from backscroll.flows.terminal.errors import UserError, report_user_errors
from backscroll.flows.terminal.progress import count_entries, report, show_progress
from backscroll.flows.terminal.results import FileResults

__all__ = ["run_files"]


def run_files(
    kind: Literal["replay", "ingest"],
    files: Sequence[Path],
    settings: Settings,
    *,
    format: str,
    out: Path | None,
    dead_letters: Path | None,
    form: Literal["auto", "cards", "jsonl"],
    workers: int,
    speed: float | None,
    detected: Path | None,
) -> int:
    """Run files through `kind`'s dataflow; returns the exit code.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    if kind == "ingest":
        settings = settings.model_copy(update={"llm": None})
    console = Console(stderr=True, highlight=False)
    counters: Counter[str] = Counter()
    letters = dead_letters or (out.parent if out else Path()) / "dead-letters.jsonl"
    with report_user_errors():
        tz = None if settings.tz is None else time_zone(settings.tz)
        formats = [_with_format(path, format, workers, tz) for path in files]
        _refuse_overwriting([*files, *([detected] if detected else [])], [letters, *([out] if out else [])])
        job = Job(
            kind,
            tuple((str(path), format_) for path, format_ in formats),
            settings,
            speed,
            None if detected is None else str(detected),
        )
        shown: Literal["cards", "jsonl"] = form if form != "auto" else "cards" if _is_terminal() else "jsonl"
        zone, zone_name = shown_zone(settings.tz)
        with (
            FileResults(out, letters, shown, zone=zone, zone_name=zone_name) as results,
            handle_signals() as stop,
        ):
            started = time.monotonic()
            with show_progress(console, counters, count_entries(formats)):
                _run(job, results, workers, counters, stop)
            report(
                console,
                counters,
                seconds=time.monotonic() - started,
                dead_letters=letters,
                reasons=results.reasons,
                left_open=results.left_open,
            )
            if detected is not None and counters["summaries"] and not counters["gaps"]:
                console.print(f"no gap in {detected} is in a window of these files: check its channels")
    if stop.signal:
        again = "run it again to continue" if settings.store else "set --store to be able to continue"
        console.print(f"stopped before the end: {again}")
        return 128 + stop.signal
    return 0


def _run(job: Job, results: FileResults, workers: int, counters: Counter[str], stop: StopSignal) -> None:
    if workers > 1:
        run_cluster(job, results, processes=workers, counters=counters, stopping=stop)
        return
    from backscroll.flows.assembly.engine import open_engine
    from backscroll.flows.running.dataflow import run_dataflow
    from backscroll.operators.runtime.runtime import Runtime

    runtime = Runtime(counters=counters, stopping=stop, raises=False)
    detected = None if job.detected is None else Path(job.detected)
    with open_engine(job.settings, runtime=runtime, detected=detected) as engine:
        run_dataflow(job, engine, results)


def _with_format(path: Path, format: str, workers: int, tz: tzinfo | None) -> tuple[Path, str]:
    """A file and its format; `-` is standard input, whose default format is `messages`."""
    if path != Path("-"):
        return path, check_file(path, format, tz)
    if workers > 1:
        raise UserError("only one process can read standard input: leave --workers at 1")
    stdin = Path("/dev/stdin")
    return stdin, check_file(stdin, "messages" if format == "auto" else format, tz)


def _refuse_overwriting(inputs: Sequence[Path], outputs: Sequence[Path]) -> None:
    read = {path.resolve() for path in inputs}
    for path in outputs:
        if path.resolve() in read:
            raise UserError(f"{path} is also an input: write to another file")


def _is_terminal() -> bool:
    return sys.stdout.isatty()
