"""Tables for the user of a build: the estimated calls before it, the candidates and votes after it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from backscroll.benchmarks.construction.panel import Calls
from backscroll.benchmarks.construction.run import ASSUMED_GAPS, BuildReport, Estimate
from backscroll.benchmarks.construction.stages import STAGES

__all__ = ["closing_table", "estimate_table"]


def estimate_table(rows: Sequence[Estimate], *, windows: int, annotators: int, kept: int) -> Table:
    """The estimated calls of a build; `kept` answers remain from an earlier run."""
    title = f"windows: {windows:,}, annotators: {annotators}"
    caption = f"assuming {ASSUMED_GAPS} gaps per window" + (f"; answers kept: {kept:,}" if kept else "")
    table = Table(title=title, caption=caption)
    table.add_column("question")
    for name in ("calls", "tokens read"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(row.question, f"{row.sure} {row.calls:,}".strip(), f"{row.sure} {row.tokens:,}".strip())
    calls, tokens = sum(row.calls for row in rows), sum(row.tokens for row in rows)
    table.add_section()
    table.add_row("together", f"about {calls:,}", f"about {tokens:,}")
    return table


def closing_table(report: BuildReport, calls: Calls, *, kept: int) -> Table:
    """Candidates, where and why they were rejected, what was accepted, and how far annotators agreed."""
    asked, abstained = calls.counts["asked"], calls.counts["abstained"]
    caption = f"calls: {asked:,} ({calls.usage.total:,} tokens), answers from before: {kept:,}"
    if abstained:
        caption += f"; abstentions: {abstained:,}"
    if dropped := sum(report.dropped.values()):
        caption += f"; alternatives of evidence and quotes dropped: {dropped:,}"
    table = Table(title=f"windows: {report.windows:,}", caption=caption)
    table.add_column("stage")
    table.add_column("reason")
    for name in ("candidates", "agreement", "kappa"):
        table.add_column(name, justify="right")
    table.add_row("", "salient by any annotator", f"{report.candidates:,}")
    for stage in STAGES:
        agreement = report.agreement[stage]
        figures = [_figure(agreement.observed), _figure(agreement.kappa)]
        table.add_row(stage, "", "", *figures)
        for (at, reason), count in sorted(report.rejected.items()):
            if at == stage:
                table.add_row("", reason.replace("_", " "), f"-{count:,}")
    table.add_section()
    table.add_row("accepted", f"alternatives of evidence: {report.evidence:,}", f"{report.accepted:,}")
    return table


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
