"""`backscroll bench memory`, apart from its options: phase by phase, with progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from backscroll.benchmarks.data.benchmark import Benchmark, read_benchmark
from backscroll.benchmarks.data.gaps import BenchmarkError, WindowRow
from backscroll.benchmarks.data.prepend_history import behind
from backscroll.benchmarks.judge.asking import CountedModel, concurrently
from backscroll.benchmarks.judge.judge import Judge
from backscroll.benchmarks.memory.ablations import FULL_TOKENS
from backscroll.benchmarks.memory.compared import COMPARED
from backscroll.benchmarks.memory.detection import DetectorOutput, agreement, find_gaps
from backscroll.benchmarks.memory.explained import Explained, record_of
from backscroll.benchmarks.memory.recall import (
    BuiltMemory,
    Measured,
    Verdicts,
    build_memory,
    judge_memory,
)
from backscroll.benchmarks.memory.report import explained_table, memory_plot, memory_table, show
from backscroll.benchmarks.progress import progress
from backscroll.connectors.files.recorded_gaps import RecordedDetector
from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.gaps.stage import GapStage, RuleGaps
from backscroll.operators.index.embedder import Embedder

__all__ = ["MemoryModels", "bench_memory"]

Built = tuple[str, WindowRow, BuiltMemory]


@dataclass(frozen=True, slots=True)
class MemoryModels:
    """The language models of a measurement.

    Args:
        gaps: finds gaps, for the detector `llm`.
        writer: writes the memories that need a model.
        judge: decides what is in those.
        judge_all: it decides for the verbatim memories as well, and is compared with their ids.
        context: most tokens of the memory `full`.
    """

    gaps: GapStage | None = None
    writer: CountedModel | None = None
    judge: Judge | None = None
    judge_all: bool = False
    context: int = FULL_TOKENS


async def bench_memory(
    folder: Path,
    strategies: Sequence[str],
    detector: Literal["recorded", "rules", "llm"],
    *,
    models: MemoryModels,
    embedder: Embedder | None,
    budget: int,
    before: Sequence[Path] = (),
    json: Path | None = None,
    plot: Path | None = None,
) -> None:
    """Measure, print the table, and write the files asked for.

    The messages of the dialogues `before` come before those of each dialogue.

    Raises:
        BenchmarkError: the folder is no benchmark, or a memory needs a judge.
        FormatError: a file of it cannot be read.
        CircuitOpen: a model has stopped answering.
    """
    stage = _stage(folder, detector, models)
    benchmark = read_benchmark(folder, embedder)
    with progress("gaps", len(benchmark.windows)) as step:
        found = await find_gaps(benchmark, stage, step)
    if before:
        benchmark = behind(benchmark, before, embedder)
    built = await _build(benchmark, strategies, found, budget, models)
    explained = await _explain(benchmark, built, found)
    verdicts = await _judge(benchmark, built, models)
    measured = {name: Measured() for name in strategies}
    for (name, row, memory), judged in zip(built, verdicts, strict=True):
        measured[name].add(row, memory, judged)
    rows = {
        name: {**results.to_json(), "explained": explained[name].to_json() if name in explained else None}
        for name, results in measured.items()
    }
    asked = {
        "detector": {"name": detector, **found.to_json(), **await _agreements(benchmark, folder, found)},
        "writer": None if models.writer is None else models.writer.to_json(),
        "judge": None if models.judge is None else models.judge.model.to_json(),
    }
    title = f"{folder.name}: memory recall, {detector} gaps, {budget} tokens"
    show([memory_table(rows, title), *([explained_table(rows)] if explained else [])], asked)
    if json is not None:
        json.write_bytes(orjson.dumps({"strategies": rows, **asked}, option=orjson.OPT_INDENT_2) + b"\n")
    if plot is not None:
        plot.write_text(memory_plot(rows, title), encoding="utf-8")


def _stage(folder: Path, detector: str, models: MemoryModels) -> GapStage:
    if detector == "llm" and models.gaps is not None:
        return models.gaps
    if detector == "rules":
        return RuleGaps(RulesDetector())
    if not (folder / "detected.jsonl").is_file():
        raise BenchmarkError(f"{folder} has no detected.jsonl: use --detector rules")
    return RuleGaps(RecordedDetector.read(folder / "detected.jsonl"))


async def _agreements(benchmark: Benchmark, folder: Path, found: DetectorOutput) -> dict[str, Any]:
    """How the gaps agree with the annotated ones, and with the recorded ones where there are any."""
    annotated = {row: {gap.utterance for gap in row.gaps} for row in benchmark.windows}
    agreements = {"annotated": agreement(found, annotated).to_json()}
    if (folder / "detected.jsonl").is_file():
        recorded = await find_gaps(benchmark, _stage(folder, "recorded", MemoryModels()), lambda: None)
        named = {row: {gap.utterance for gap in gaps} for row, gaps in recorded.gaps.items()}
        agreements["recorded"] = agreement(found, named).to_json()
    return agreements


async def _build(
    benchmark: Benchmark, strategies: Sequence[str], found: DetectorOutput, budget: int, models: MemoryModels
) -> list[Built]:
    """Memories that need no model one at a time, as they are timed; then the others side by side."""

    async def build(name: str, row: WindowRow) -> Built:
        memory = await build_memory(
            benchmark,
            name,
            row,
            found.gaps[row],
            budget=budget,
            context=models.context,
            writer=models.writer,
        )
        return name, row, memory

    asking = [name for name in strategies if COMPARED.get(name).needs.model]
    built = list[Built]()
    with progress("memories", len(benchmark.windows)) as step:
        for row in benchmark.windows:
            built += [await build(name, row) for name in strategies if name not in asking]
            step()
    work = [build(name, row) for name in asking for row in benchmark.windows if row.gaps]
    if work:
        with progress("written memories", len(work)) as step:
            built += await concurrently(work, step)
    return built


async def _explain(
    benchmark: Benchmark, built: Sequence[Built], found: DetectorOutput
) -> dict[str, Explained]:
    """What the records made with each memory explain; memories that a model writes have no records."""
    explained = dict[str, Explained]()
    with progress("records", len(built)) as step:
        for name, row, memory in built:
            if memory.ids is not None:
                record = await record_of(benchmark, name, row, found.gaps[row], memory)
                explained.setdefault(name, Explained()).add(row, record)
            step()
    return explained


async def _judge(benchmark: Benchmark, built: Sequence[Built], models: MemoryModels) -> list[Verdicts | None]:
    """The verdicts on each memory, None where the ids decide."""

    verdicts: list[Verdicts | None] = [None] * len(built)
    places = [place for place, item in enumerate(built) if models.judge_all or item[2].ids is None]
    if not places:
        return verdicts
    with progress("verdicts", len(places)) as step:
        given = await concurrently(
            [judge_memory(benchmark, *built[place][1:], models.judge) for place in places], step
        )
    for place, verdict in zip(places, given, strict=True):
        verdicts[place] = verdict
    return verdicts
