"""`backscroll bench throughput`: run files through the whole flow, each run in its own process."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from backscroll.benchmarks.cost.throughput import WAYS, Figures, ThroughputCase, throughput_table, write_chat
from backscroll.benchmarks.memory.report import wide_console
from backscroll.benchmarks.progress import progress
from backscroll.flows.settings.settings import Settings
from backscroll.flows.terminal.errors import UserError, report_user_errors

__all__ = ["run_throughput"]


def run_throughput(
    sources: Sequence[Path],
    *,
    messages: int,
    channels: int,
    ways: Sequence[str],
    processes: Sequence[int],
    json: Path | None,
) -> None:
    """Measure, print the table, and write the figures to `json` if given.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    names = [way.name for way in WAYS]
    for name in ways:
        if name not in names:
            raise UserError(f"--way {name!r} does not exist: use one of {', '.join(map(repr, names))}")
    chosen = [way for way in WAYS if not ways or way.name in ways]
    rows = list[tuple[str, Figures]]()
    with tempfile.TemporaryDirectory(prefix="backscroll-") as folder:
        chat, one = Path(folder) / "chat.jsonl", Path(folder) / "one.jsonl"
        with report_user_errors():
            write_chat(sources, messages, channels, chat)
            write_chat(sources, 1, 1, one)
        with progress("runs", len(chosen) * len(processes)) as step:
            for way in chosen:
                for count in processes:
                    rows.append((way.name, _in_a_process(way, chat, one, count)))
                    step()
    wide_console().print(throughput_table(rows))
    if json is not None:
        figures = [{"way": name, **figures.to_json()} for name, figures in rows]
        json.write_bytes(orjson.dumps({"runs": figures}, option=orjson.OPT_INDENT_2) + b"\n")


def _in_a_process(way: ThroughputCase, chat: Path, one: Path, processes: int) -> Figures:
    asked = orjson.dumps(
        {"settings": way.settings, "chat": str(chat), "one": str(one), "processes": processes}
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BACKSCROLL_")}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "backscroll.flows.commands.bench_throughput"],
        input=asked,
        capture_output=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UserError(f"{way.name}: the run failed: {said[-1] if said else done.returncode}")
    return Figures(**orjson.loads(done.stdout))


def _measure(settings: Settings, chat: Path, one: Path, processes: int) -> Figures:
    """Run one message to import everything, again to measure the startup cost, then the chat."""
    _run(settings, one, processes)
    idle, _ = _run(settings, one, processes)
    before = _work()
    spent, windows = _run(settings, chat, processes)
    work = {kind: seconds - before.get(kind, 0.0) for kind, seconds in _work().items()}
    return Figures(
        messages=sum(1 for _ in chat.open("rb")),
        windows=windows,
        processes=processes,
        seconds=spent[0] - idle[0],
        processor=spent[1] - idle[1],
        work={kind: seconds for kind, seconds in work.items() if kind != "embedding"},
        embedding=work.get("embedding", 0.0),
    )


def _run(settings: Settings, chat: Path, processes: int) -> tuple[tuple[float, float], int]:
    """The wall-clock and processor seconds, and the number of summaries."""
    from backscroll.flows.commands.replay import run_files

    started, used = time.perf_counter(), _processor_seconds()
    with tempfile.TemporaryDirectory(prefix="backscroll-") as folder:
        out = Path(folder) / "summaries.jsonl"
        with contextlib.redirect_stderr(io.StringIO()):
            run_files(
                "replay",
                [chat],
                settings,
                format="messages",
                out=out,
                dead_letters=None,
                form="jsonl",
                workers=processes,
                speed=None,
                detected=None,
            )
        spent = time.perf_counter() - started, _processor_seconds() - used
        return spent, sum(1 for _ in out.open("rb"))


def _processor_seconds() -> float:
    ours, theirs = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return ours.ru_utime + ours.ru_stime + theirs.ru_utime + theirs.ru_stime


def _work() -> dict[str, float]:
    """The seconds by kind of work so far in this process; `embedding` is included in the others."""
    from backscroll.operators.runtime.metrics import EMBEDDING_SECONDS, EXECUTOR_SECONDS

    samples = {
        sample.labels["work"]: sample.value
        for metric in EXECUTOR_SECONDS.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }
    (embedding,) = (
        sample.value
        for metric in EMBEDDING_SECONDS.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    )
    return {**samples, "embedding": embedding}


def _child() -> None:
    asked: dict[str, Any] = orjson.loads(sys.stdin.buffer.read())
    figures = _measure(
        Settings(**asked["settings"]), Path(asked["chat"]), Path(asked["one"]), asked["processes"]
    )
    sys.stdout.buffer.write(orjson.dumps(asdict(figures)))


if __name__ == "__main__":
    _child()
