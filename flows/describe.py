"""Every setting with its meaning and default, as a table for people or for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from rich.console import Console
from rich.table import Table

from flows.settings import ENV_PREFIX, Settings

__all__ = ["markdown", "show_settings"]


def show_settings() -> None:
    """Print all settings."""
    table = Table("setting", "default", "meaning", title=f"as {ENV_PREFIX}NAME, or as a key of --config")
    for row in _rows():
        table.add_row(*row)
    Console(highlight=False).print(table)


def markdown() -> str:
    """All settings as a Markdown table."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {f'`{default}`' if default else ''} | {text} |" for name, default, text in _rows()
    ]
    return "\n".join(lines) + "\n"


def _rows() -> Iterator[tuple[str, str, str]]:
    for name, field in sorted(Settings.model_fields.items()):
        yield name, _default(field), _meaning(field)


def _default(field: FieldInfo) -> str:
    value: Any = field.default
    if value is None or value is PydanticUndefined:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _meaning(field: FieldInfo) -> str:
    choices = [
        str(choice)
        for part in (field.annotation, *get_args(field.annotation))
        if get_origin(part) is Literal
        for choice in get_args(part)
    ]
    text = field.description or ""
    return "; ".join(part for part in (text, ", ".join(choices)) if part)
