"""`backscroll costs`: language model tokens by day and channel, from the answers in a store."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from backscroll.connectors.lancedb.answers import paid_tokens
from backscroll.connectors.lancedb.schema import StoreError

__all__ = ["print_costs"]


def print_costs(store: Path) -> int:
    """Print the tokens as a table; returns the exit code."""
    try:
        rows = paid_tokens(store)
    except StoreError as err:
        raise click.UsageError(str(err)) from err
    if not rows:
        Console().print("this store has no answers from a language model")
        return 0
    table = Table("day", "channel", "model", "stage")
    for column in ("calls", "read", "written"):
        table.add_column(column, justify="right")
    for row in rows:
        numbers = (f"{number:,}" for number in (row.calls, row.usage.prompt, row.usage.completion))
        table.add_row(row.day.isoformat(), str(row.key), row.model, row.stage, *numbers)
    Console().print(table)
    return 0
