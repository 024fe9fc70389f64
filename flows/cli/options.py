"""Command-line options: settings as flags, and settings read from flags.

    @main.command()
    @setting("strategy")
    def replay(strategy: str | None) -> None: ...

An option gets its type, default, help and environment variable from the field of `Settings`. Importing
`Settings` is slow, so options are only created when their command is used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

if TYPE_CHECKING:
    from click.types import OptionHelpExtra
    from pydantic.fields import FieldInfo

    from backscroll.flows.settings.settings import Settings

__all__ = [
    "FILE",
    "FLAGS",
    "Command",
    "Group",
    "SettingOption",
    "as_option",
    "config_option",
    "deferred",
    "format_option",
    "option_group",
    "popped",
    "read_settings",
    "setting",
]

F = TypeVar("F", bound=Callable[..., Any])
FILE = click.Path(path_type=Path)
FLAGS = {
    "backfill_days": "--backfill",
    "idle_minutes": "--idle",
    "kafka_brokers": "--brokers",
    "kafka_dead_letters": "--dead-letters",
    "kafka_debug": "--debug",
    "kafka_start": "--start",
    "kafka_summaries": "--summaries",
    "kafka_topics": "--topics",
    "lateness_seconds": "--lateness",
    "llm_concurrency": "--concurrency",
    "llm_record": "--record",
    "web_access": "--access",
    "web_host": "--host",
    "web_port": "--port",
    "window_tokens": "--window",
}
"""Flags with a different name from their setting."""


class Deferred(click.Option):
    """A placeholder for an option until its command is used."""

    def __init__(self, flags: list[str], make: Callable[[], click.Option]) -> None:
        super().__init__(flags)
        self.make = make


class Command(click.Command):
    """A command that creates its deferred options for its own help or run."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """All parameters, with deferred options created."""
        self.params = [param.make() if isinstance(param, Deferred) else param for param in self.params]
        return super().get_params(ctx)


class Group(click.Group):
    """A group that lists its commands without creating their options."""

    command_class = Command
    group_class = type


class SettingOption(click.Option):
    """A setting as an option; if it is None, the value comes from the settings file or the default."""

    def __init__(self, name: str, *, required: bool) -> None:
        from backscroll.flows.settings.describe import default_text
        from backscroll.flows.settings.settings import ENV_PREFIX, Settings

        field, flag = Settings.model_fields[name], _flag(name)
        self._default_text = default_text(field)
        super().__init__(
            [f"{flag}/--no-{flag[2:]}" if field.annotation is bool else flag, name],
            type=_type(field),
            default=None,
            required=required,
            envvar=f"{ENV_PREFIX}{name.upper()}",
            show_envvar=True,
            help=field.description,
        )

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """The text in brackets after the help, with the setting's default."""
        extra = super().get_help_extra(ctx)
        if self._default_text:
            extra["default"] = self._default_text
        return extra


def setting(name: str, *, required: bool = False) -> Callable[[F], F]:
    """Add the option for a setting to a command."""
    return deferred(_flag(name), name, make=lambda: SettingOption(name, required=required))


def deferred(*flags: str, make: Callable[[], click.Option]) -> Callable[[F], F]:
    """Add an option that is created only when its command is used, because it needs slow imports."""
    return click.option(*flags, cls=Deferred, make=make)


def option_group(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Combine options that several commands share into one decorator."""

    def apply(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


def _format() -> click.Option:
    from backscroll.connectors.files.formats import FORMATS

    formats = click.Choice(("auto", *FORMATS))
    return click.Option(
        ["--format"], type=formats, default="auto", show_default=True, help="Format of the files."
    )


format_option = deferred("--format", make=_format)
as_option = click.option(
    "--as",
    "form",
    type=click.Choice(("auto", "cards", "jsonl")),
    default="auto",
    show_default=True,
    help="Format of summaries on standard output; auto means cards on a terminal, JSON Lines elsewhere.",
)
config_option = click.option(
    "--config", type=FILE, envvar="BACKSCROLL_CONFIG", show_envvar=True, help="Settings file, TOML."
)


def popped(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options that are settings from `options`, and return them."""
    from backscroll.flows.settings.settings import Settings

    return {name: options.pop(name) for name in Settings.model_fields if name in options}


def read_settings(flags: dict[str, Any], config: Path | None) -> Settings:
    """Read the settings from flags, environment and settings file.

    Raises:
        click.UsageError: a setting is invalid; the message is one line.
    """
    from backscroll.flows.settings.settings import SettingsError, load_settings

    try:
        return load_settings(flags, config)
    except SettingsError as err:
        raise click.UsageError(str(err)) from err


def _flag(name: str) -> str:
    return FLAGS.get(name, f"--{name.replace('_', '-')}")


def _type(field: FieldInfo) -> click.ParamType[Any]:
    from backscroll.flows.settings.describe import choices
    from backscroll.operators.errors import BackscrollError

    try:
        names = choices(field)
    except BackscrollError as err:
        raise click.UsageError(str(err)) from err
    if names:
        return click.Choice(names)
    (kind,) = set(get_args(field.annotation) or (field.annotation,)) - {NoneType}
    if limits := _limits(field):
        return click.IntRange(**limits) if kind is int else click.FloatRange(**limits)
    return FILE if kind is Path else click.types.convert_type(kind)


def _limits(field: FieldInfo) -> dict[str, Any]:
    from annotated_types import Ge, Gt, Le, Lt

    limits = dict[str, Any]()
    for mark in field.metadata:
        match mark:
            case Ge(low):
                limits["min"] = low
            case Gt(low):
                limits |= {"min": low, "min_open": True}
            case Le(high):
                limits["max"] = high
            case Lt(high):
                limits |= {"max": high, "max_open": True}
    return limits
