"""All settings with their meanings and defaults, as a table for the terminal or the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from backscroll.flows.settings.one_of import OneOf
from backscroll.flows.settings.settings import ENV_PREFIX, Settings

__all__ = ["choices", "default_text", "markdown", "show_settings"]


def show_settings() -> None:
    """Print all settings as a table."""
    from rich.console import Console  # not needed for the help of commands, which also use this module
    from rich.table import Table

    title = f"Set as a variable {ENV_PREFIX}NAME, or as a key in the --config file"
    table = Table("setting", "default", "meaning", title=title)
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


def choices(field: FieldInfo) -> tuple[str, ...]:
    """The allowed values of a setting; empty if it is not a choice."""
    for mark in field.metadata:
        if isinstance(mark, OneOf):
            return mark.names()
    return tuple(
        str(choice)
        for part in (field.annotation, *get_args(field.annotation))
        if get_origin(part) is Literal
        for choice in get_args(part)
    )


def default_text(field: FieldInfo) -> str:
    """The default as written in a settings file; empty if there is none."""
    value: Any = field.default
    if value is None or value is PydanticUndefined:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rows() -> Iterator[tuple[str, str, str]]:
    for name, field in sorted(Settings.model_fields.items()):
        yield name, default_text(field), _meaning(field)


def _meaning(field: FieldInfo) -> str:
    one_of = ", ".join(choices(field))
    return f"{field.description or ''}{f' One of: {one_of}.' if one_of else ''}"
