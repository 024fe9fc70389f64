"""`backscroll bench`: the commands, apart from their options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import orjson
from rich.console import Console

from benchmarks.gaps import BenchmarkError
from benchmarks.memory import MemoryBenchmark, measure_memory
from benchmarks.report import memory_plot, memory_table
from connectors.recorded_gaps import RecordedDetector
from operators.dense import Embedder
from operators.gaps import GapDetector
from operators.rules import RulesDetector

__all__ = ["bench_memory"]


def bench_memory(
    folder: Path,
    strategies: Sequence[str],
    detector: Literal["recorded", "rules"],
    *,
    embedder: Embedder | None,
    budget: int,
    json: Path | None,
    plot: Path | None,
) -> None:
    """Measure, print the table, and write the files asked for.

    Raises:
        BenchmarkError: the folder is no benchmark.
        FormatError: a file of it cannot be read.
    """
    found: GapDetector = RulesDetector()
    if detector == "recorded":
        if not (folder / "detected.jsonl").is_file():
            raise BenchmarkError(f"{folder} has no detected.jsonl: use --detector rules")
        found = RecordedDetector.read(folder / "detected.jsonl")
    benchmark = MemoryBenchmark.read(folder, embedder)
    measured = measure_memory(benchmark, strategies, found, budget=budget)
    rows = {name: results.to_json() for name, results in measured.items()}
    title = f"{folder.name}: memory recall, {detector} gaps, {budget} tokens"
    Console().print(memory_table(rows, title))
    if json is not None:
        json.write_bytes(orjson.dumps({"strategies": rows}, option=orjson.OPT_INDENT_2) + b"\n")
    if plot is not None:
        plot.write_text(memory_plot(rows, title), encoding="utf-8")
