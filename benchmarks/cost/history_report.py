"""Show the results of the history benchmark: tables, and a plot of cost over size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10
from typing import Any

from rich.table import Table

__all__ = ["history_plot", "history_tables"]

_WIDTH, _HEIGHT, _MARGIN, _LEGEND = 640, 420, 56, 190
_LINES = {
    "sparse_query": "#1b6ca8",
    "dense_query": "#2a9d5c",
    "dense_query_indexed": "#7cc79b",
    "append": "#8457a3",
    "memory_remember": "#444444",
    "memory_backscroll": "#c0392b",
    "plain_rank_bm25_rebuilt": "#999999",
    "plain_lancedb_fts": "#d68910",
    "plain_lancedb_vectors": "#7f8c4d",
}
_DASHES = 'stroke-dasharray="4 3"'


def history_tables(report: Mapping[str, Any]) -> list[Table]:
    """Tables of cost, ratios and size with a column per channel size, then one for many channels."""
    sizes = report["sizes"]
    tables = []
    for title, part, unit in (
        ("cost of a window, ms on the clock: p50 / p95 (processor p50)", "cost", ""),
        ("times as fast as the plain way, processor time", "times_faster", "x"),
        ("search by the store's index of vectors", "indexed_search", ""),
        ("memory of a hot channel, bytes per million tokens", "bytes_per_million_tokens", ""),
    ):
        if not any(size[part] for size in sizes):
            continue
        table = Table(title=title)
        table.add_column("")
        for size in sizes:
            table.add_column(f"{size['tokens']:,} tokens", justify="right")
        for name in dict.fromkeys(name for size in sizes for name in size[part]):
            table.add_row(name, *(_shown(size[part].get(name), unit) for size in sizes))
        tables.append(table)
    if "channels" in report:
        table = Table(title="many channels under a ceiling")
        table.add_column("")
        table.add_column("", justify="right")
        for name, value in report["channels"].items():
            table.add_row(name, f"{value:,}")
        tables.append(table)
    return tables


def history_plot(sizes: Sequence[Mapping[str, Any]]) -> str:
    """An SVG plot of the median cost over the channel's size, on logarithmic axes."""
    lines = {
        name: [
            (size["tokens"], size["cost"][name]["cpu_p50_ms"])
            for size in sizes
            if size["cost"].get(name, {}).get("cpu_p50_ms")
        ]
        for name in _LINES
    }
    points = [point for line in lines.values() for point in line] or [(1, 1.0)]
    (left, right), (low, high) = (_decades([point[axis] for point in points]) for axis in (0, 1))

    def x(tokens: float) -> float:
        return _MARGIN + (log10(tokens) - left) / (right - left) * (_WIDTH - _MARGIN - _LEGEND)

    def y(cost: float) -> float:
        return _HEIGHT - _MARGIN - (log10(cost) - low) / (high - low) * (_HEIGHT - 2 * _MARGIN)

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_MARGIN}" y="24" font-size="14">processor milliseconds over history tokens</text>',
    ]
    for power in range(left, right + 1):
        drawn.append(f'<text x="{x(10**power):.1f}" y="{_HEIGHT - 36}" text-anchor="middle">1e{power}</text>')
        drawn.append(f'<path d="M{x(10**power):.1f} {y(10.0**low):.1f} V{y(10.0**high):.1f}" stroke="#ddd"/>')
    for power in range(low, high + 1):
        at = y(10.0**power)
        drawn.append(f'<path d="M{_MARGIN} {at:.1f} H{_WIDTH - _LEGEND}" stroke="#ddd"/>')
        drawn.append(f'<text x="{_MARGIN - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for place, (name, line) in enumerate(lines.items()):
        colour, dashes = _LINES[name], _DASHES if name.startswith("plain") else ""
        path = " ".join(f"{x(tokens):.1f},{y(cost):.1f}" for tokens, cost in line)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" {dashes}/>')
        at, label = 60 + 20 * place, escape(name.replace("_", " "))
        across = _WIDTH - _LEGEND + 12
        drawn.append(f'<path d="M{across} {at - 4} h16" stroke="{colour}" stroke-width="2" {dashes}/>')
        drawn.append(f'<text x="{across + 22}" y="{at}" font-size="11">{label}</text>')
    return "\n".join([*drawn, "</svg>", ""])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low = floor(log10(min(values)))
    return low, max(floor(log10(max(values)) + 0.999), low + 1)


def _shown(value: Any, unit: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return f"{value['p50_ms']:g} / {value['p95_ms']:g} ({value['cpu_p50_ms']:g})"
    return f"{value:,}{unit}"
