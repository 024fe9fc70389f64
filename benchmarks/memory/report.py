"""What benchmarks say: tables for people, a plot of recall against build time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["explained_table", "memory_plot", "memory_table", "show", "wide_console"]

_RECALLS = ("all", "macro", "near", "mid", "far", "referential", "attribute", "relational")
_PLAIN_WIDTH = 140  # where the output is no terminal
_WIDTH, _HEIGHT, _MARGIN = 640, 420, 56


def memory_table(strategies: Mapping[str, Mapping[str, Any]], title: str) -> Table:
    """One row a strategy, best recall first."""
    judged = any(row["judged_by"] == "model" for row in strategies.values())
    table = Table(title=title)
    table.add_column("memory", no_wrap=True, min_width=max(map(len, strategies), default=0))
    for name in (
        *_RECALLS[:5],
        "refer.",
        "attr.",
        "relat.",
        "tokens",
        "ms p50",
        "ms p95",
        *(["judged by", "not judged"] if judged else []),
    ):
        table.add_column(name, justify="right")
    for name, row in sorted(strategies.items(), key=lambda item: -(item[1]["all"] or 0.0)):
        recalls = ["-" if row[column] is None else f"{row[column]:.2f}" for column in _RECALLS]
        cost = f"{row['tokens_mean']:.0f}", f"{row['build_ms_p50']:.1f}", f"{row['build_ms_p95']:.1f}"
        unsure = f"{row['not_judged']} of {row['gaps']}" if row["not_judged"] else ""
        table.add_row(name, *recalls, *cost, *([row["judged_by"], unsure] if judged else []))
    return table


def explained_table(strategies: Mapping[str, Mapping[str, Any]]) -> Table:
    """One row a strategy that a record can be made with: what the record explains of the annotated gaps."""
    table = Table(title="gaps explained in the record")
    table.add_column("memory", no_wrap=True)
    for name in ("gaps", "right", "wrong", "shown in all", "right of all", "wrong of all", "precision"):
        table.add_column(name, justify="right")
    rows = {name: row["explained"] for name, row in strategies.items() if row["explained"]}
    for name, row in sorted(rows.items(), key=lambda item: -item[1]["right"]):
        counts = row["gaps"], row["right"], row["wrong"], row["shown"]
        shares = row["right_share"], row["wrong_share"], row["precision"]
        table.add_row(
            name, *map(str, counts), *("-" if share is None else f"{share:.2f}" for share in shares)
        )
    return table


def wide_console() -> Console:
    """The terminal, or, where the output is none, one that is wide enough for our tables."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)


def show(tables: Sequence[Table], asked: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Print tables and, below them, what every model that was asked cost and did not answer."""
    console = wide_console()
    for table in tables:
        console.print(table)
    for name, numbers in (asked.get("detector") or {}).items():
        if isinstance(numbers, Mapping) and numbers.get("precision") and numbers["recall"]:
            console.print(
                f"{name} gap utterances: precision {numbers['precision']:.2f}, recall {numbers['recall']:.2f}"
            )
    for name, model in asked.items():
        if model is None or not (model["prompt_tokens"] or model["failures"]):
            continue
        failed = ", ".join(f"{count} {kind}" for kind, count in model["failures"].items())
        console.print(
            f"{name}: {model['prompt_tokens']:,} tokens read, {model['completion_tokens']:,} written"
            + (f"; no answer: {failed}" if failed else "")
        )


def memory_plot(strategies: Mapping[str, Mapping[str, Any]], title: str) -> str:
    """An SVG of recall over all gaps against the median build time, on a logarithmic axis."""
    points = {
        name: (max(row["build_ms_p50"], 0.01), row["all"])
        for name, row in strategies.items()
        if row["all"] is not None
    }
    times = [time for time, _ in points.values()] or [1.0]
    low, high = floor(log10(min(times))), floor(log10(max(times))) + 1

    def x(time: float) -> float:
        return _MARGIN + (log10(time) - low) / (high - low) * (_WIDTH - 2 * _MARGIN)

    def y(recall: float) -> float:
        return _HEIGHT - _MARGIN - recall * (_HEIGHT - 2 * _MARGIN)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_MARGIN}" y="24" font-size="14">{escape(title)}</text>',
    ]
    for power in range(low, high + 1):
        at = x(10.0**power)
        lines.append(f'<path d="M{at:.1f} {y(0)} V{y(1)}" stroke="#ddd"/>')
        lines.append(f'<text x="{at:.1f}" y="{y(0) + 18}" text-anchor="middle">{10.0**power:g}</text>')
    for tenths in range(0, 11, 2):
        at = y(tenths / 10)
        lines.append(f'<path d="M{_MARGIN} {at:.1f} H{_WIDTH - _MARGIN}" stroke="#ddd"/>')
        lines.append(f'<text x="{_MARGIN - 8}" y="{at + 4:.1f}" text-anchor="end">{tenths / 10:.1f}</text>')
    middle = _WIDTH / 2
    lines.append(f'<text x="{middle}" y="{_HEIGHT - 14}" text-anchor="middle">ms to build, median</text>')
    lines.append(
        f'<text x="16" y="{_HEIGHT / 2}" transform="rotate(-90 16 {_HEIGHT / 2})">memory recall</text>'
    )
    for name, (time, recall) in sorted(points.items()):
        across, up = x(time), y(recall)
        lines.append(f'<circle cx="{across:.1f}" cy="{up:.1f}" r="5" fill="#2266aa"/>')
        lines.append(f'<text x="{across + 8:.1f}" y="{up - 6:.1f}">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>", ""])
