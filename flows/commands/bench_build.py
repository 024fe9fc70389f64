"""`backscroll bench build`: make a benchmark from chat files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from backscroll.benchmarks.construction.folder import BenchmarkFolder, ToAnnotate, read_dialogues
from backscroll.benchmarks.construction.panel import Annotator, Calls, Panel
from backscroll.benchmarks.construction.report import closing_table, estimate_table
from backscroll.benchmarks.construction.run import BuildReport, annotate_all, choose_windows, estimate
from backscroll.connectors.files.formats import check_file
from backscroll.connectors.lancedb.schema import occupy
from backscroll.flows.assembly.language_model import model_name, open_llm
from backscroll.flows.running.signals import StopSignal, handle_signals
from backscroll.flows.settings.settings import Settings
from backscroll.flows.terminal.errors import UserError, report_user_errors
from backscroll.flows.terminal.progress import follow
from backscroll.operators.llm.protocol import LLM

__all__ = ["run_build"]


def run_build(
    files: Sequence[Path],
    settings: Settings,
    annotators: Sequence[str],
    *,
    format: str,
    out: Path,
    min_history: int,
    windows: int | None,
    dry_run: bool,
) -> int:
    """Annotate the windows of files and write a benchmark; returns the exit code.

    Args:
        files: chat files in any supported format.
        settings: the settings for calling models.
        annotators: one to three models, as `SOURCE` or `SOURCE#MODEL`.
        format: the format of the files.
        out: the benchmark's folder.
        min_history: the tokens of history that a window needs to be annotated.
        windows: the most windows per dialogue; None for all.
        dry_run: only print the estimate.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    console = Console(stderr=True, highlight=False)
    with report_user_errors(), handle_signals() as stop, ExitStack() as opened:
        if not 1 <= len(annotators) <= 3:
            raise UserError(f"{len(annotators)} annotators: use --llm one to three times")
        dialogues, refused = read_dialogues(
            [(path, check_file(path, format)) for path in files], namespace=settings.namespace
        )
        if refused:
            console.print(f"entries skipped because they are not valid messages: {refused:,}")
        models = {} if dry_run else _open_all(settings, annotators)
        folder = BenchmarkFolder(out)
        kept = folder.kept_answers()
        if dry_run:
            folder = BenchmarkFolder(Path(opened.enter_context(TemporaryDirectory(prefix="backscroll-"))))
        places = choose_windows(folder.prepare(dialogues), min_history=min_history, most=windows)
        calls = estimate(places, len(annotators))
        console.print(estimate_table(calls, windows=len(places), annotators=len(annotators), kept=kept))
        if dry_run:
            return 0
        opened.enter_context(occupy(folder.answers))
        found = _annotate(folder, models, places, settings=settings, console=console, stop=stop)
        if found is None:
            console.print("stopped before the end: run it again to continue")
            return 128 + stop.signal
    return 0


def _annotate(
    folder: BenchmarkFolder,
    models: Mapping[str, LLM],
    places: Sequence[ToAnnotate],
    *,
    settings: Settings,
    console: Console,
    stop: StopSignal,
) -> BuildReport | None:
    """Annotate, write and report; None if the user stopped it."""
    kept = folder.kept_answers()
    counters, calls, limit = Counter[str](), Calls(stop.is_set), settings.llm_concurrency
    panel = Panel(
        [
            Annotator.over(llm, name, folder.answers_of(name), calls, limit=limit)
            for name, llm in models.items()
        ],
        calls,
    )

    def text() -> str:
        return f"{counters['windows']:,} of {len(places):,} windows, {calls.counts['asked']:,} calls"

    with follow(console, text, lambda: counters["windows"], len(places)):
        found = annotate_all(panel, places, counters, at_once=limit)
    if found is None:
        return None
    folder.write(list(zip(places, found, strict=True)))
    report = BuildReport.of(found)
    console.print(closing_table(report, calls, kept=kept))
    return report


def _open_all(settings: Settings, annotators: Sequence[str]) -> dict[str, LLM]:
    """The models by name, in the order given."""
    models = dict[str, LLM]()
    for source in annotators:
        name, llm = _open(settings, source)
        if name in models:
            raise UserError(
                f"two annotators are {name!r}: a model cannot agree with itself; "
                "if they are different models, serve them under different names"
            )
        models[name] = llm
    return models


def _open(settings: Settings, source: str) -> tuple[str, LLM]:
    """The name and the model of a source."""
    url, _, asked = source.partition("#")
    meanwhile = "nothing is annotated" if asked else None
    llm, offered = open_llm(settings, url, flags="the model, --llm URL#MODEL", meanwhile=meanwhile)
    return model_name(url, offered, asked or None, flag="the model, --llm URL#MODEL"), llm
