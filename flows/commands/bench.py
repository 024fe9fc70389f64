"""`backscroll bench memory` and `bench summaries`: run benchmarks with the models of the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Literal

from backscroll.benchmarks.judge.asking import CountedModel
from backscroll.benchmarks.judge.judge import Judge
from backscroll.benchmarks.memory.ablations import FULL_TOKENS
from backscroll.benchmarks.memory.command import MemoryModels, bench_memory
from backscroll.benchmarks.memory.compared import COMPARED
from backscroll.benchmarks.summaries.command import bench_summaries
from backscroll.flows.assembly.embedder import make_embedder
from backscroll.flows.assembly.language_model import Chosen, open_model
from backscroll.flows.settings.settings import Settings
from backscroll.flows.terminal.errors import UserError, report_user_errors
from backscroll.operators.gaps.stage import ModelGaps
from backscroll.operators.llm.protocol import LLM, CircuitOpen

__all__ = ["run_memory", "run_summaries"]

_JUDGING_TOKENS = 8192  # for window, gaps, instructions and answer, besides a memory that fills the context


def run_memory(
    folder: Path,
    settings: Settings,
    *,
    strategies: Sequence[str],
    detector: Literal["recorded", "rules", "llm"],
    judge: bool,
    judge_llm: str | None,
    judge_model: str | None,
    context: int | None,
    behind: Sequence[Path],
    json: Path | None,
    plot: Path | None,
) -> None:
    """Measure memory strategies: those named, or all that can be built.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    with report_user_errors():
        needs_model = {name: COMPARED.get(name).needs.model for name in strategies or COMPARED.names()}
    strategies = strategies or [name for name, needs in needs_model.items() if settings.llm or not needs]
    writing = [name for name in strategies if needs_model[name]]
    asked = [*(f"--strategy {name}" for name in writing), *(["--judge"] if judge else [])]
    asked += ["--detector llm"] if detector == "llm" else []
    if asked and settings.llm is None and not (asked == ["--judge"] and judge_llm):
        raise UserError(f"{asked[0]} needs a language model: set --llm")
    check_folders(json, plot)
    with report_user_errors():
        model = open_model(settings) if writing or detector == "llm" else None
        judging = _judging(settings, judge_llm, judge_model) if writing or judge else None
        models = MemoryModels(
            gaps=None if model is None else ModelGaps(model.llm, model.gap_model, None),
            writer=None if model is None else _counted(model.llm, model.summary_model, settings),
            judge=None if judging is None else _judge(judging, settings),
            judge_all=judge,
            context=FULL_TOKENS if context is None else max(context - _JUDGING_TOKENS, 1),
        )
        work = bench_memory(
            folder,
            strategies,
            detector,
            models=models,
            embedder=make_embedder(settings),
            budget=settings.budget,
            before=behind,
            json=json,
            plot=plot,
        )
        _run(work, settings, [chosen for chosen in (model, judging) if chosen is not None])


def run_summaries(
    folder: Path,
    files: Sequence[Path],
    settings: Settings,
    *,
    judge_memory: bool,
    judge_model: str | None,
    json: Path | None,
) -> None:
    """Judge summaries.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    if settings.llm is None:
        raise UserError("bench summaries needs a language model as judge: set --llm")
    check_folders(json)
    with report_user_errors():
        judging = _judging(settings, None, judge_model)
        work = bench_summaries(folder, files, _judge(judging, settings), judge_memory=judge_memory, json=json)
        _run(work, settings, [judging])


def check_folders(*files: Path | None) -> None:
    """Check that results can be written before the work starts."""
    for file in files:
        if file is not None and not file.absolute().parent.is_dir():
            raise UserError(f"{file}: cannot be written: its directory does not exist")


def _judging(settings: Settings, llm: str | None, model: str | None) -> Chosen:
    """The model that judges; by default the gap model."""
    name = model or (settings.gap_model if llm is None else None)
    changed = {"llm": llm or settings.llm, "gap_model": name, "summary_model": name}
    return open_model(settings.model_copy(update=changed), ("--judge-model",) * 2)


def _judge(chosen: Chosen, settings: Settings) -> Judge:
    return Judge(_counted(chosen.llm, chosen.gap_model, settings))


def _counted(llm: LLM, name: str, settings: Settings) -> CountedModel:
    return CountedModel(llm, name, limit=settings.llm_concurrency)


def _run(work: Coroutine[None, None, None], settings: Settings, models: Sequence[Chosen]) -> None:
    async def run() -> None:
        try:
            await work
        finally:
            for model in models:
                if model.aclose is not None:
                    await model.aclose()

    try:
        asyncio.run(run())
    except CircuitOpen as err:
        kept = (
            ""
            if settings.llm_record is None
            else ": its answers so far are kept, run the command again to continue"
        )
        raise UserError(f"the language model has stopped answering ({err}){kept}") from err
