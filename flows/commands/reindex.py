"""`backscroll reindex`: switch a store to another embedding model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from backscroll.flows.settings.settings import Settings
from backscroll.flows.terminal.errors import UserError, report_user_errors

__all__ = ["run_reindex"]

_PLAIN_SECONDS = 10.0


def run_reindex(settings: Settings, drop: bool) -> int:
    """Embed the store again with the embedding model of the settings; returns the exit code.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    console = Console(stderr=True, highlight=False)
    if settings.store is None:
        raise UserError("reindex needs --store, the store to work on")
    if settings.embedding_model == "none":
        raise UserError("reindex needs an --embedding-model other than none")
    from backscroll.connectors.lancedb.reindex import check_store, reindex
    from backscroll.flows.assembly.embedder import make_embedder, make_fingerprint

    try:
        with report_user_errors(), _show_windows(console) as progress:
            check_store(settings.store)
            embedder = make_embedder(settings)
            assert embedder is not None
            fingerprint = make_fingerprint(settings, embedder)
            windows = reindex(settings.store, embedder, fingerprint, progress=progress, drop=drop)
    except KeyboardInterrupt:
        console.print("stopped before the end: run it again to continue", soft_wrap=True)
        return 130
    counted = "1 window" if windows == 1 else f"{windows:,} windows"
    dropped = "; the vectors of other models were deleted" if drop else ""
    console.print(
        f"store {settings.store} now uses {embedder.name}: {counted}{dropped}", markup=False, soft_wrap=True
    )
    return 0


@contextmanager
def _show_windows(console: Console) -> Iterator[Callable[[int, int], None]]:
    """Show progress: a bar on a terminal, else a line every ten seconds."""
    if not console.is_terminal:
        shown = time.monotonic()

        def line(done: int, total: int) -> None:
            nonlocal shown
            if time.monotonic() - shown >= _PLAIN_SECONDS:
                shown = time.monotonic()
                console.print(f"{done:,} of {total:,} windows")

        yield line
        return
    columns = (TextColumn("windows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("windows", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
