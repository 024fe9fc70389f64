"""Shows summary records as cards: what happened, and the earlier messages that explain it."""

from __future__ import annotations

import re
from datetime import UTC, tzinfo

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from backscroll.operators.summary.citations import quoted_in_brackets
from backscroll.operators.summary.record import GapEntry, MemoryEntry, Summary

__all__ = ["card", "print_card", "shown"]

# Control characters except tab and line break, and characters that override the text direction.
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def print_card(console: Console, body: bytes, zone: tzinfo = UTC, zone_name: str = "UTC") -> None:
    """Print a summary record, as JSON bytes, as a card with times in `zone`."""
    console.print(card(Summary.from_json(body), zone, zone_name))


def card(summary: Summary, zone: tzinfo = UTC, zone_name: str = "UTC") -> Panel:
    """A card with channel, period, summary, and what explains the gaps that the summary does not explain.

    Its times are in `zone`; those in the text of the summary are in the zone that it was written with.
    """
    window = summary.window
    start, end = window.start.astimezone(zone), window.end.astimezone(zone)
    until = "%H:%M" if start.date() == end.date() else "%Y-%m-%d %H:%M"
    span = f"{start:%Y-%m-%d %H:%M} to {end:{until}} {zone_name}"
    title = Text.assemble((shown(f"{summary.namespace}/{summary.channel}"), "bold"), "  ", span)
    state = "" if summary.final else "  still open"
    messages = "1 message" if len(window.turns) == 1 else f"{len(window.turns)} messages"
    subtitle = Text(
        f"{messages}  {window.tokens} tokens  {summary.kind}, {summary.strategy}{state}",
        style="dim",
    )
    parts: list[RenderableType] = [Text(shown(summary.summary))]
    if explained := _explained(summary, zone):
        parts += [Text(), explained]
    return Panel(
        Group(*parts),
        title=title,
        title_align="left",
        subtitle=subtitle,
        subtitle_align="right",
        padding=(1, 2),
    )


def _explained(summary: Summary, zone: tzinfo) -> Table | None:
    """Gaps with the messages that explain them, each once; those in the summary's brackets are left out."""
    memory = {entry.id: entry for entry in summary.memory}
    printed = set(quoted_in_brackets(summary))
    table = Table.grid(padding=(0, 2))
    table.add_column(ratio=2)
    table.add_column(ratio=3)
    for gap in summary.gaps:
        explaining = (memory[message_id] for message_id in gap.evidence)
        for entry in sorted(explaining, key=lambda entry: entry.seq):
            if entry.seq not in printed:
                table.add_row(_needs(gap), _message(entry, zone))
                printed.add(entry.seq)
    return table if table.row_count else None


def _needs(gap: GapEntry) -> Text:
    return Text.assemble(
        ("“", "dim"), (shown(gap.quote), "yellow"), ("” ", "dim"), (f"({shown(gap.utterance)})", "dim")
    )


def _message(entry: MemoryEntry, zone: tzinfo) -> Text:
    where = f"{entry.author}, {entry.ts.astimezone(zone):%Y-%m-%d %H:%M}, {entry.id}: "
    return Text.assemble("← ", (shown(where), "bold cyan"), shown(entry.text))


def shown(text: str) -> str:
    """Chat text that is safe for a terminal: control characters and direction overrides become `␛`."""
    return _STEERING.sub("␛", text)
