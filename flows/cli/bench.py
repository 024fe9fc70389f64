"""The `backscroll bench` commands and their options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from backscroll.flows.cli.options import (
    FILE,
    Group,
    config_option,
    deferred,
    format_option,
    option_group,
    popped,
    read_settings,
    setting,
)

__all__ = ["bench"]


@click.group(cls=Group)
def bench() -> None:
    """Measure Backscroll on dialogues."""


_json = click.option("--json", type=FILE, help="File for the results, JSON.")
_asked_models = option_group(
    setting("llm"),
    setting("llm_record"),
    click.option(
        "--judge-model", show_default="the gap model, or the server's only model", help="Model that judges."
    ),
    _json,
    config_option,
)


def _strategies() -> click.Option:
    from backscroll.benchmarks.memory.compared import COMPARED
    from backscroll.operators.errors import BackscrollError

    try:
        names = COMPARED.names()
    except BackscrollError as err:
        raise click.UsageError(str(err)) from err
    return click.Option(
        ["--strategy", "strategies"],
        type=click.Choice(names),
        multiple=True,
        show_default="all; those that a model writes only with --llm",
        help="Memory to measure; repeatable.",
    )


@bench.command("memory")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@deferred("--strategy", "strategies", make=_strategies)
@click.option(
    "--detector",
    type=click.Choice(("recorded", "rules", "llm")),
    default="recorded",
    show_default=True,
    help="Where gaps come from: detected.jsonl, the rules or the language model.",
)
@setting("budget")
@setting("embedding_model")
@setting("gap_model")
@setting("summary_model")
@click.option(
    "--judge",
    is_flag=True,
    help="Have a model judge verbatim memories too, and compare that with scoring by turn ids.",
)
@click.option(
    "--judge-llm", show_default="as --llm", help="Language model that judges: URL or cassette:FILE."
)
@click.option(
    "--context",
    type=click.IntRange(16384),
    help="Context length of the judge in tokens; limits the memory full.",
)
@click.option(
    "--behind",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    help="Chat file or folder to put before each dialogue, for a long history; repeatable.",
)
@click.option("--plot", type=FILE, help="File for a plot of recall over build time, SVG.")
@_asked_models
def bench_memory(folder: Path, strategies: tuple[str, ...], config: Path | None, **options: Any) -> None:
    """Measure the recall of memory strategies on a benchmark.

    FOLDER holds dialogues/, gaps.jsonl and, for recorded gaps, detected.jsonl. The memories incremental
    and hierarchical are written by a model and judged by one; verbatim ones are scored by their turn ids.
    Answers that --record already holds are reused.
    """
    from backscroll.flows.commands.bench import run_memory

    settings = read_settings({"strategy": "none", **popped(options)}, config)
    run_memory(folder, settings, strategies=strategies, **options)


@bench.command("summaries")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--judge-memory", is_flag=True, help="Judge the text of a memory, not the ids of its turns.")
@_asked_models
def bench_summaries(folder: Path, files: tuple[Path, ...], config: Path | None, **options: Any) -> None:
    """Judge summaries on a benchmark.

    FOLDER is the benchmark, and FILES are summaries written by replay --out. Answers that --record
    already holds are reused.
    """
    from backscroll.flows.commands.bench import run_summaries

    settings = read_settings({"strategy": "none", **popped(options)}, config)
    run_summaries(folder, files, settings, **options)


@bench.command("absences")
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="PATH..."
)
@click.option(
    "--dialogues",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="Folder with dialogues, besides dialogues/ next to an annotated file; repeatable.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(32),
    default=400,
    show_default=True,
    help="Maximum tokens of a catch-up.",
)
@click.option(
    "--acts",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder with weights of acts, DIALOGUE.json, to use in place of the packaged ones.",
)
@setting("embedding_model")
@setting("llm")
@setting("summary_model")
@setting("llm_record")
@_json
@config_option
def bench_absences(
    paths: tuple[Path, ...],
    dialogues: tuple[Path, ...],
    max_tokens: int,
    *,
    acts: Path | None,
    json: Path | None,
    config: Path | None,
    **flags: Any,
) -> None:
    """Score catch-ups on annotated absences.

    Each PATH is an annotated file, or a folder of them. Every catch-up is made as by catchup --file, by
    rules or with --llm. Answers that --record already holds are reused. The exit code is 1 if a line
    cites more than three messages.
    """
    from backscroll.flows.commands.bench_absences import run_absences

    settings = read_settings(flags, config)
    sys.exit(run_absences(paths, settings, dialogues=dialogues, max_tokens=max_tokens, json=json, acts=acts))


@bench.command("build")
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--out", type=FILE, required=True, help="Folder of the benchmark, new or unfinished.")
@click.option(
    "--llm",
    "annotators",
    multiple=True,
    required=True,
    help="Annotator: URL, URL#MODEL or cassette:FILE; up to three, from different model families.",
)
@format_option
@click.option(
    "--min-history",
    type=click.IntRange(1),
    default=7000,
    show_default=True,
    help="Minimum tokens of history before a window to annotate.",
)
@click.option(
    "--windows",
    type=click.IntRange(1),
    show_default="all",
    help="Maximum windows of each dialogue, evenly spread.",
)
@click.option("--dry-run", is_flag=True, help="Only estimate the number of calls.")
@setting("namespace")
@setting("llm_concurrency")
@config_option
def bench_build(
    files: tuple[Path, ...],
    annotators: tuple[str, ...],
    config: Path | None,
    namespace: str | None,
    llm_concurrency: int | None,
    **options: Any,
) -> None:
    """Annotate chat FILES with language models to make a benchmark.

    It keeps the gaps and evidence that most of the models agree on. If it is interrupted, run it again
    to continue.
    """
    from backscroll.flows.commands.bench_build import run_build

    settings = read_settings({"namespace": namespace, "llm_concurrency": llm_concurrency}, config)
    sys.exit(run_build(files, settings, annotators, **options))


@bench.command("embedding")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--windows", type=click.IntRange(1), default=12, show_default=True, help="Number of windows to embed."
)
@click.option(
    "--backend",
    "backends",
    type=click.Choice(("torch", "onnx", "int8")),
    multiple=True,
    show_default="all that run here",
    help="Backend to measure; repeatable. The others are compared with the first.",
)
@setting("embedding_model")
@_json
@config_option
def bench_embedding(
    folder: Path,
    windows: int,
    backends: tuple[str, ...],
    json: Path | None,
    config: Path | None,
    **flags: Any,
) -> None:
    """Measure the cost of embedding with torch, ONNX and int8.

    The texts are windows of FOLDER/dialogues.
    """
    from backscroll.benchmarks.cost.embedding import bench_embedding as measure
    from backscroll.flows.terminal.errors import report_user_errors

    settings = read_settings(flags, config)
    with report_user_errors():
        measure(
            folder,
            backends,
            model=settings.embedding_model,
            threads=settings.embedding_threads,
            windows=windows,
            json=json,
        )


@bench.command("throughput")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@click.option(
    "--messages", type=click.IntRange(1), default=4000, show_default=True, help="Number of messages per run."
)
@click.option(
    "--channels",
    type=click.IntRange(1),
    default=40,
    show_default=True,
    help="Number of channels to spread the messages over.",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    multiple=True,
    default=(1, 2),
    show_default=True,
    help="Number of processes; repeatable.",
)
@click.option(
    "--way",
    "ways",
    multiple=True,
    show_default="all",
    help="Row of the table to measure, by name; repeatable.",
)
@_json
def bench_throughput(files: tuple[Path, ...], **options: Any) -> None:
    """Measure messages per second through the whole flow.

    The texts come from chat FILES; no language model is used.
    """
    from backscroll.flows.commands.bench_throughput import run_throughput

    run_throughput(files, **options)


def _sizes(_context: click.Context, _option: click.Parameter, given: str) -> list[int]:
    try:
        sizes = [round(float(size)) for size in given.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 10_000:
        raise click.BadParameter(f"{given} should be numbers of at least 10000, like 1e5,1e6")
    return sizes


@bench.command("history")
@click.argument("dialogues", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--tokens",
    default="1e5,1e6",
    show_default=True,
    callback=_sizes,
    help="Sizes of the channel in tokens, separated by commas.",
)
@click.option(
    "--windows", type=click.IntRange(1), default=30, show_default=True, help="Number of windows to measure."
)
@click.option(
    "--plain/--no-plain", default=True, show_default=True, help="Also measure a plain implementation."
)
@click.option(
    "--channels",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Also measure this many channels with Zipf-like traffic.",
)
@click.option(
    "--ceiling-mb",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    help="Memory limit of those channels, in MB.",
)
@_json
@click.option("--plot", type=FILE, help="File for a plot of cost over size, SVG.")
def bench_history(dialogues: tuple[Path, ...], **options: Any) -> None:
    """Measure the cost of a window as the history grows.

    The channel repeats DIALOGUES, files or folders of chat, each time with other words. Its vectors
    are random.
    """
    from backscroll.benchmarks.cost.history_command import bench_history as measure
    from backscroll.flows.terminal.errors import report_user_errors

    with report_user_errors():
        measure(dialogues, **options)
