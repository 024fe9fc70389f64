"""The table of a run of the summary benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from backscroll.benchmarks.summaries.metrics import METRICS

__all__ = ["summary_table"]

_SHORT = dict(zip(METRICS, ("window", "gaps", "concise", "faithful"), strict=True))


def summary_table(systems: Mapping[str, Mapping[str, Any]], title: str) -> Table:
    """One row a system, best composite first."""
    table = Table(title=title)
    table.add_column("summaries")
    for name in ("composite", "window", "gaps", "concise", "faithful", "memory", "windows", "not judged"):
        table.add_column(name, justify="right")
    for name, row in sorted(systems.items(), key=lambda item: -(item[1]["composite"] or 0.0)):
        values = [row["composite"], *(row[metric] for metric in METRICS), row["memory_recall"]]
        shown = ["-" if value is None else f"{value:.2f}" for value in values]
        windows = f"{row['windows']}" + (f" ({row['missing']} missing)" if row["missing"] else "")
        unsure = ", ".join(
            f"{label} {row['not_judged'][metric]}"
            for metric, label in _SHORT.items()
            if row["not_judged"][metric]
        )
        table.add_row(name, *shown, windows, unsure or "0")
    return table
