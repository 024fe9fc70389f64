"""`backscroll bench`: what is measured, apart from how."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from flows.options import (
    FILE,
    config_option,
    format_option,
    option_group,
    popped,
    read_settings,
    setting,
)
from operators.memory_names import memory_names

__all__ = ["bench"]

_COMPARED = (
    *memory_names(),
    "full",
    "ideal",
    "backscroll-of-all",
    "remember-without-gaps",
    "remember-without-refinement",
)
_WRITTEN = ("incremental", "hierarchical")


@click.group()
def bench() -> None:
    """Measure Backscroll on dialogues."""


_asked_models = option_group(
    setting("--llm", "llm", help="Server URL, vllm:MODEL or cassette:FILE.  [default: no language model]"),
    setting("--record", "llm_record", type=FILE, help="Cassette: keeps answers, gives those it has."),
    click.option("--judge-model", help="Model that judges.  [default: as for gaps, or the only one]"),
    click.option("--json", type=FILE, help="Write the figures."),
    config_option,
)


@bench.command("memory")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--strategy",
    "strategies",
    type=click.Choice((*_COMPARED, *_WRITTEN)),
    multiple=True,
    help="Memory to measure; may be repeated.  [default: all, the last two only with --llm]",
)
@click.option(
    "--detector",
    type=click.Choice(("recorded", "rules", "llm")),
    default="recorded",
    show_default=True,
    help="Gaps of detected.jsonl, or found by rules, or by the language model.",
)
@setting("--budget", "budget", type=click.IntRange(1), help="Most tokens of a memory.  [default: 1024]")
@setting("--embedding-model", "embedding_model", help="Hub id, folder or none.  [default: all-MiniLM-L6-v2]")
@setting("--gap-model", "gap_model", help="Model of --detector llm.  [default: the server's only one]")
@setting("--summary-model", "summary_model", help="Model that writes memories.  [default: as for gaps]")
@click.option(
    "--judge", is_flag=True, help="Judge the verbatim memories as well, and compare with their ids."
)
@click.option("--judge-llm", help="Where the judge is.  [default: as --llm]")
@click.option("--context", type=click.IntRange(16384), help="Tokens that the judge can read, for full.")
@click.option(
    "--behind",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    help="Put these chats, files or folders of them, before each dialogue: a long history.",
)
@click.option("--plot", type=FILE, help="Write recall against build time, SVG.")
@_asked_models
def bench_memory(folder: Path, strategies: tuple[str, ...], config: Path | None, **options: Any) -> None:
    """Measure the memory recall of strategies on the benchmark FOLDER.

    FOLDER holds dialogues/, gaps.jsonl and, for recorded gaps, detected.jsonl. Memories that a model
    writes, incremental and hierarchical, are judged by one; of the others the ids of their turns tell.
    """
    from flows.bench import run_memory

    settings = read_settings({"strategy": "none", **popped(options)}, config)
    every = _COMPARED if settings.llm is None else (*_COMPARED, *_WRITTEN)
    run_memory(folder, settings, strategies=strategies or every, **options)


@bench.command("summaries")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--judge-memory", is_flag=True, help="Judge what a memory holds, instead of by its turns' ids.")
@_asked_models
def bench_summaries(folder: Path, files: tuple[Path, ...], config: Path | None, **options: Any) -> None:
    """Judge the summaries in FILES, records of replay --out, on the benchmark FOLDER."""
    from flows.bench import run_summaries

    settings = read_settings({"strategy": "none", **popped(options)}, config)
    run_summaries(folder, files, settings, **options)


@bench.command("build")
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--out", type=FILE, required=True, help="Folder of the benchmark; made, or gone on with.")
@click.option(
    "--llm",
    "annotators",
    multiple=True,
    required=True,
    help="An annotator: URL, URL#MODEL or cassette:FILE; up to three, of different families.",
)
@format_option
@click.option(
    "--min-history",
    type=click.IntRange(1),
    default=7000,
    show_default=True,
    help="Tokens before a window for it to be annotated.",
)
@click.option("--windows", type=click.IntRange(1), help="Most of a dialogue, evenly spread.  [default: all]")
@click.option("--dry-run", is_flag=True, help="Only tell what would be asked.")
@setting("--namespace", "namespace", help="Namespace of messages that name none.  [default: default]")
@setting("--concurrency", "llm_concurrency", type=int, help="Calls at once to each.  [default: 32]")
@config_option
def bench_build(
    files: tuple[Path, ...],
    annotators: tuple[str, ...],
    config: Path | None,
    namespace: str | None,
    llm_concurrency: int | None,
    **options: Any,
) -> None:
    """Annotate chat FILES as a benchmark: gaps and evidence that most of the language models agree on.

    Interrupted, it goes on where it was: run it again.
    """
    from flows.build import run_build

    settings = read_settings({"namespace": namespace, "llm_concurrency": llm_concurrency}, config)
    sys.exit(run_build(files, settings, annotators, **options))


@bench.command("embedding")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--windows", type=click.IntRange(1), default=12, show_default=True, help="Texts to embed.")
@click.option(
    "--backend",
    "backends",
    type=click.Choice(("torch", "onnx", "int8")),
    multiple=True,
    help="To measure; the first is what the others are compared with.  [default: all]",
)
@setting("--embedding-model", "embedding_model", help="Hub id or folder.  [default: all-MiniLM-L6-v2]")
@click.option("--json", type=FILE, help="Write the figures.")
@config_option
def bench_embedding(
    folder: Path,
    windows: int,
    backends: tuple[str, ...],
    json: Path | None,
    config: Path | None,
    **flags: Any,
) -> None:
    """Measure what embedding costs by torch, ONNX and int8, on windows of FOLDER/dialogues."""
    from benchmarks.embedding import bench_embedding as measure
    from flows.mistakes import in_one_line

    settings = read_settings(flags, config)
    with in_one_line():
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
@click.option("--messages", type=click.IntRange(1), default=4000, show_default=True, help="In each run.")
@click.option("--channels", type=click.IntRange(1), default=40, show_default=True, help="They are in.")
@click.option("--processes", type=click.IntRange(1), multiple=True, default=(1, 2), show_default=True)
@click.option("--way", "ways", multiple=True, help="By its name in the table.  [default: all]")
@click.option("--json", type=FILE, help="Write the figures.")
def bench_throughput(files: tuple[Path, ...], **options: Any) -> None:
    """Measure messages a second through the whole flow, with the texts of chat FILES and no model."""
    from flows.throughput import run_throughput

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
    "--tokens", default="1e5,1e6", show_default=True, callback=_sizes, help="Sizes of the channel, by commas."
)
@click.option(
    "--windows", type=click.IntRange(1), default=30, show_default=True, help="Windows that are measured."
)
@click.option("--plain/--no-plain", default=True, help="Measure the plain way too.  [default: plain]")
@click.option(
    "--channels", type=click.IntRange(0), default=0, help="Also measure as many channels, Zipf-like traffic."
)
@click.option(
    "--ceiling-mb", type=click.IntRange(1), default=64, show_default=True, help="Memory of those channels."
)
@click.option("--json", type=FILE, help="Write the figures.")
@click.option("--plot", type=FILE, help="Write cost over size, SVG.")
def bench_history(dialogues: tuple[Path, ...], **options: Any) -> None:
    """Measure the cost of a window over the size of the history behind it.

    The channel is told from DIALOGUES, files or folders of chat, again and again with other words.
    Its vectors are random.
    """
    from benchmarks.history_command import bench_history as measure
    from flows.mistakes import in_one_line

    with in_one_line():
        measure(dialogues, **options)
