"""The table of a run of the absence benchmark."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from backscroll.benchmarks.absences.scoring import Score, Share

__all__ = ["absence_table"]

_TITLES = {
    "for_me": "for me",
    "decisions": "decisions",
    "actions": "action items",
    "questions": "open questions",
    "highlights": "highlights",
}


def absence_table(score: Score, title: str) -> Table:
    """One row a section, and below them the figures of the catch-ups as a whole."""
    table = Table(title=Text(title), title_justify="left")
    table.add_column("", no_wrap=True)
    table.add_column("right lines", justify="right")
    table.add_column("items found", justify="right")
    for name, label in _TITLES.items():
        table.add_row(label, _shown(score.right[name]), _shown(score.found[name]))
    table.add_section()
    table.add_row("decisions, actions, questions", *map(_shown, score.acts()))
    table.add_row("owners of actions", _shown(score.owners), "")
    table.add_row("answered, but shown as open", _shown(score.answered), "")
    table.add_row("weighted points", "", _shown(score.points))
    mean = "-" if score.mean_ids is None else f"{score.mean_ids:.2f}, max {score.most_ids}"
    table.add_row("message ids a line, mean", mean, "")
    return table


def _shown(share: Share) -> str:
    return "-" if share.value is None else f"{share.value:.2f} ({share.part}/{share.whole})"
