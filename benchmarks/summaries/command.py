"""`backscroll bench summaries`, apart from its options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson

from backscroll.benchmarks.data.benchmark import read_benchmark
from backscroll.benchmarks.judge.asking import concurrently
from backscroll.benchmarks.judge.judge import Judge
from backscroll.benchmarks.memory.report import show
from backscroll.benchmarks.progress import progress
from backscroll.benchmarks.summaries.quality import judge_summary, quality
from backscroll.benchmarks.summaries.records import match_records
from backscroll.benchmarks.summaries.report import summary_table

__all__ = ["bench_summaries"]


async def bench_summaries(
    folder: Path, files: Sequence[Path], judge: Judge, *, judge_memory: bool, json: Path | None = None
) -> None:
    """Judge the summaries of each file, print the table, and write the figures.

    Raises:
        BenchmarkError: the folder is no benchmark, or a file has no summary of its windows.
        FormatError: a file cannot be read.
        CircuitOpen: the judge has stopped answering.
    """
    benchmark = read_benchmark(folder, None)
    named = match_records(benchmark, files)
    work = [
        (name, judge_summary(benchmark, row, record, judge, judge_memory=judge_memory))
        for name, records in named.items()
        for row, record in records.items()
    ]
    with progress("summaries", len(work)) as step:
        judged = await concurrently((one for _, one in work), step)
    rows = {
        name: quality(
            [one for (whose, _), one in zip(work, judged, strict=True) if whose == name],
            len(benchmark.windows),
        )
        for name in named
    }
    asked = {"judge": judge.model.to_json()}
    show([summary_table(rows, f"{folder.name}: summaries, judged by {judge.model.name}")], asked)
    if json is not None:
        json.write_bytes(orjson.dumps({"summaries": rows, **asked}, option=orjson.OPT_INDENT_2) + b"\n")
