"""`backscroll bench history`: measure channels of several sizes, and many channels, and show the results."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from os import cpu_count
from pathlib import Path
from platform import python_version
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from numpy import __version__ as numpy_version
from rich.console import Console

from backscroll.benchmarks.cost.history import measure_size
from backscroll.benchmarks.cost.history_report import history_plot, history_tables
from backscroll.benchmarks.cost.many_channels import measure_channels
from backscroll.benchmarks.cost.synthetic_channel import read_dialogues
from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.benchmarks.memory.report import wide_console

__all__ = ["bench_history"]


def bench_history(
    sources: Sequence[Path],
    tokens: Sequence[int],
    *,
    windows: int,
    plain: bool,
    channels: int,
    ceiling_mb: int,
    json: Path | None,
    plot: Path | None,
) -> None:
    """Measure channels of these sizes, print the tables, and write the requested files.

    Raises:
        BenchmarkError: the sources hold no message, or what the plain way needs is not installed.
        FormatError: one of them cannot be read.
    """
    if plain and find_spec("rank_bm25") is None:
        raise BenchmarkError("comparing with plain BM25 needs rank-bm25: install it or use --no-plain")
    dialogues = read_dialogues(sources)
    console, report = Console(stderr=True), dict[str, Any]()
    report["machine"] = {"processors": cpu_count(), "python": python_version(), "numpy": numpy_version}
    report["sizes"] = []
    for size in tokens:
        with TemporaryDirectory(prefix="backscroll-bench-") as folder:
            report["sizes"].append(
                measure_size(dialogues, size, Path(folder), windows=windows, plain=plain, say=console.print)
            )
        _write(report, json, plot)
    if channels:
        with TemporaryDirectory(prefix="backscroll-bench-") as folder:
            report["channels"] = measure_channels(
                dialogues, Path(folder), channels=channels, ceiling=ceiling_mb << 20, say=console.print
            )
    for table in history_tables(report):
        wide_console().print(table)
    _write(report, json, plot)


def _write(report: dict[str, Any], json: Path | None, plot: Path | None) -> None:
    """Write the files after each size, as the largest channel takes long."""
    if json is not None:
        json.write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2) + b"\n")
    if plot is not None:
        plot.write_text(history_plot(report["sizes"]), encoding="utf-8")
