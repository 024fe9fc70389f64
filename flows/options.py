"""What the commands' options share: settings as flags, and the settings that flags make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from flows.settings import Settings

__all__ = [
    "FILE",
    "FORMATS",
    "config_option",
    "format_option",
    "option_group",
    "popped",
    "read_settings",
    "setting",
    "shown_as",
]

F = TypeVar("F", bound=Callable[..., Any])
FORMATS = (
    "auto",
    "messages",
    "slack",
    "discord",
    "mattermost",
    "zulip",
    "matrix",
    "telegram",
    "whatsapp",
    "teams",
    "mbox",
    "irc",
    "locomo",
    "realtalk",
    "evermembench",
)
FILE = click.Path(path_type=Path)


def setting(flag: str, name: str, **options: Any) -> Callable[[F], F]:
    """An option that is also a setting; its environment variable stands in the help."""
    variable = f"BACKSCROLL_{name.upper()}"
    return click.option(flag, name, envvar=variable, show_envvar=True, **options)


def shown_as(help_: str) -> Callable[[F], F]:
    """The option of how summaries are shown."""
    forms = click.Choice(("auto", "cards", "jsonl"))
    return click.option("--as", "form", type=forms, default="auto", show_default=True, help=help_)


def option_group(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Options that stand together in several commands, as one decorator."""

    def apply(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


config_option = click.option(
    "--config", type=FILE, envvar="BACKSCROLL_CONFIG", show_envvar=True, help="Settings, TOML."
)
format_option = click.option("--format", type=click.Choice(FORMATS), default="auto", show_default=True)


def popped(options: dict[str, Any]) -> dict[str, Any]:
    """The options that are settings, taken out of the others."""
    from flows.settings import Settings

    return {name: options.pop(name) for name in Settings.model_fields if name in options}


def read_settings(flags: dict[str, Any], config: Path | None) -> Settings:
    """The settings by flags, environment and file.

    Raises:
        click.UsageError: one of them is wrong; one line.
    """
    from flows.settings import SettingsError, load_settings

    try:
        return load_settings(flags, config)
    except SettingsError as err:
        raise click.UsageError(str(err)) from err
