"""The progress of a running job and its final report, on standard error."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from backscroll.connectors.files.formats import SKIPPED

__all__ = ["count_entries", "follow", "left_out", "report", "show_progress"]

_PLAIN_SECONDS = 10.0
_MOST_REASONS = 8


def count_entries(files: Sequence[tuple[Path, str]]) -> int | None:
    """The number of messages in the files if all are JSON Lines, counted by lines; else None."""
    total = 0
    for path, format_ in files:
        if format_ != "messages" or not path.is_file():
            return None
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                total += block.count(b"\n")
    return total


@contextmanager
def show_progress(console: Console, counters: Counter[str], total: int | None) -> Iterator[None]:
    """Show the progress of a replay from its counters."""
    started = time.monotonic()

    def text() -> str:
        rate = counters["messages"] / max(time.monotonic() - started, 1e-9)
        return f"{counters['messages']:,} messages, {counters['windows']:,} windows, {rate:,.0f} messages/s"

    with follow(console, text, lambda: counters["messages"], total):
        yield


@contextmanager
def follow(
    console: Console, text: Callable[[], str], completed: Callable[[], int], total: int | None
) -> Iterator[None]:
    """Show progress: a bar on a terminal, else a line every ten seconds."""
    done = threading.Event()

    def plain() -> None:
        while not done.wait(_PLAIN_SECONDS):
            console.print(text())

    def bar() -> None:
        columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(text(), total=total)
            while not done.wait(0.2):
                progress.update(task, completed=completed(), description=text())

    follower = threading.Thread(target=bar if console.is_terminal else plain, daemon=True)
    follower.start()
    try:
        yield
    finally:
        done.set()
        follower.join()


def report(
    console: Console,
    counters: Mapping[str, int],
    *,
    seconds: float,
    dead_letters: Path | str,
    reasons: Mapping[str, int] = MappingProxyType({}),
    left_open: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Print what was read, what was made of it, and what was rejected."""
    count = Counter(counters)
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right")
    table.add_column()
    table.add_row(f"{count['messages']:,}", f"messages in {seconds:.1f} s")
    table.add_row(f"{count['turns']:,}", "turns admitted")
    if count["duplicates"]:
        table.add_row(f"{count['duplicates']:,}", "duplicates skipped")
    if count["changes"]:
        table.add_row(
            f"{count['changes']:,}", f"edits and deletions, {count['reissues']:,} summaries updated"
        )
    if count["lost"]:
        table.add_row(f"{count['lost']:,}", "messages lost: the broker deleted them before they were read")
    for reason, skipped in _skipped(counters):
        table.add_row(f"{skipped:,}", reason)
    table.add_row(f"{count['dead_letters']:,}", _rejected(count["dead_letters"], dead_letters))
    for reason, rejected in _most_common(reasons):
        table.add_row("", Text(f"{rejected:,} {reason}"))
    table.add_row(f"{count['windows']:,}", f"windows closed, {count['recorded']:,} of them new to the store")
    if count["summaries"] or count["reissued"]:
        table.add_row(
            f"{count['summaries'] + count['reissued']:,}",
            f"summaries: {count['summaries']:,} new, {count['provisional']:,} of them provisional, "
            f"{count['reissued']:,} from the store",
        )
    if count["degraded"]:
        table.add_row(
            f"{count['degraded']:,}", "of the new summaries used a fallback: see `degraded` in their records"
        )
    if count["failed"]:
        table.add_row(f"{count['failed']:,}", f"windows without a summary, see {dead_letters}")
    if count["prompt_tokens"]:
        table.add_row(
            f"{count['prompt_tokens'] + count['completion_tokens']:,}",
            f"language model tokens: {count['prompt_tokens']:,} read, "
            f"{count['completion_tokens']:,} written; {count['dropped_gaps']:,} invalid gaps dropped",
        )
    console.print(table)
    for window in left_open:
        console.print(
            f"{window['channel']}: the last {window['turns']} messages, from id {window['first']}, do not "
            "fill a window yet and were not stored: start the live stream at that message or before it",
            highlight=False,
        )


def left_out(counters: Mapping[str, int], reasons: Mapping[str, int]) -> Iterator[str]:
    """Lines that say what was skipped, and why input was rejected."""
    for reason, count in (*_skipped(counters), *_most_common(reasons)):
        yield f"{count:,} {reason}"


def _skipped(counters: Mapping[str, int]) -> list[tuple[str, int]]:
    skipped = {name: count for name, count in counters.items() if name.startswith(SKIPPED)}
    return sorted(skipped.items(), key=lambda pair: -pair[1])


def _most_common(reasons: Mapping[str, int]) -> list[tuple[str, int]]:
    """The most frequent reasons; the others are counted together."""
    counted = Counter(reasons).most_common()
    rest = sum(count for _, count in counted[_MOST_REASONS:])
    return counted[:_MOST_REASONS] + ([("for other reasons", rest)] if rest else [])


def _rejected(count: int, path: Path | str) -> str:
    return f"dead letters, see {path}" if count else "dead letters"
