"""How far a benchmark is, on standard error: a bar on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["progress"]

_PLAIN_SECONDS = 10.0


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show the progress of a phase; what is given has to be called after each of `total` steps."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)
        return
    done, told = 0, time.monotonic()

    def step() -> None:
        nonlocal done, told
        done += 1
        if time.monotonic() - told >= _PLAIN_SECONDS:
            told = time.monotonic()
            console.print(f"{what}: {done} of {total}")

    yield step
