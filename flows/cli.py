"""The command line. Heavy modules are imported by the command that needs them, not by `--help`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from flows.settings import Settings

__all__ = ["main"]

F = TypeVar("F", bound=Callable[..., Any])
_FORMATS = ("auto", "messages", "locomo", "realtalk", "evermembench")
_STRATEGIES = ("remember", "recent", "hybrid", "sparse", "dense", "none")
_FILE = click.Path(path_type=Path)


def _setting(flag: str, name: str, **options: Any) -> Callable[[F], F]:
    """An option that is also a setting; its environment variable stands in the help."""
    variable = f"BACKSCROLL_{name.upper()}"
    return click.option(flag, name, envvar=variable, show_envvar=True, **options)


def _options(*options: Callable[[F], F]) -> Callable[[F], F]:
    def apply(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


_config = click.option(
    "--config", type=_FILE, envvar="BACKSCROLL_CONFIG", show_envvar=True, help="Settings, TOML."
)
_common = _options(
    click.argument("files", nargs=-1, required=True, type=_FILE),
    click.option("--format", type=click.Choice(_FORMATS), default="auto", show_default=True),
    _setting(
        "--store", "store", type=_FILE, help="LanceDB history.  [default: a temporary one; ingest needs it]"
    ),
    _setting("--namespace", "namespace", help="Namespace of messages that name none.  [default: default]"),
    _setting("--window", "window_tokens", type=int, help="Most tokens of a window.  [default: 1024]"),
    _setting(
        "--idle", "idle_minutes", type=float, help="Minutes of pause that close a window.  [default: off]"
    ),
    _setting("--embedding-url", "embedding_url", help="OpenAI-compatible server of the embedding model."),
    _setting(
        "--embedding-model", "embedding_model", help="Hub id, folder or none.  [default: all-MiniLM-L6-v2]"
    ),
    click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes."),
    click.option(
        "--speed",
        type=click.FloatRange(0, min_open=True),
        help="Times real time.  [default: as fast as possible]",
    ),
    click.option(
        "--dead-letters", type=_FILE, help="Rejected input.  [default: dead-letters.jsonl beside --out]"
    ),
    click.option(
        "--config", type=_FILE, envvar="BACKSCROLL_CONFIG", show_envvar=True, help="Settings, TOML."
    ),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="backscroll")
def main() -> None:
    """Summaries of chat that can be read without scrolling back."""


@main.command()
@_common
@click.option("--out", type=_FILE, help="Summaries as JSON Lines.  [default: standard output]")
@click.option(
    "--as",
    "form",
    type=click.Choice(("auto", "cards", "jsonl")),
    default="auto",
    show_default=True,
    help="On standard output: cards on a terminal, JSON Lines elsewhere.",
)
@_setting(
    "--strategy", "strategy", type=click.Choice(_STRATEGIES), help="Memory strategy.  [default: remember]"
)
@_setting("--budget", "budget", type=int, help="Most tokens of a memory.  [default: 1024]")
@_setting("--llm", "llm", help="Server URL, vllm:MODEL or cassette:FILE.  [default: no language model]")
@_setting("--gap-model", "gap_model", help="Model for gaps.  [default: the server's only one]")
@_setting("--summary-model", "summary_model", help="Model for summaries.  [default: the server's only one]")
@_setting("--record", "llm_record", type=_FILE, help="Append the model's answers to a cassette file.")
@_setting("--max-tokens-per-day", "max_tokens_per_day", type=int, help="Of the model.  [default: no limit]")
@_setting("--max-tokens-per-channel-day", "max_tokens_per_channel_day", type=int, help="[default: no limit]")
@_setting(
    "--on-llm-failure",
    "on_llm_failure",
    type=click.Choice(("extractive", "dead-letter")),
    help="What a window gets instead.  [default: extractive]",
)
@_setting("--summary-tokens", "summary_tokens", type=int, help="Most tokens of a summary.  [default: 200]")
@click.option("--detected", type=_FILE, help="Recorded gaps to use instead of the rules.")
def replay(**options: Any) -> None:
    """Summarise chat FILES, window by window.

    Files are read in the order given. With --store, a run that was stopped goes on where it was:
    what is finished is printed again as it was, and nothing is computed twice.
    """
    _run("replay", options)


@main.command()
@_common
def ingest(**options: Any) -> None:
    """Record the windows and history of chat FILES in --store, without summaries."""
    if options["store"] is None:
        raise click.UsageError("ingest needs a --store to write to")
    _run("ingest", {**options, "out": None, "form": "jsonl", "detected": None, "strategy": "none"})


@main.command()
@_setting("--store", "store", type=_FILE, required=True, help="The LanceDB history.")
@_setting("--embedding-model", "embedding_model", help="Hub id, folder, or a model of --embedding-url.")
@_setting("--embedding-url", "embedding_url", help="OpenAI-compatible server of the embedding model.")
@_setting("--window", "window_tokens", type=int, help="As the store was made.  [default: 1024]")
@click.option("--drop-old", is_flag=True, help="Delete the vectors of the former model afterwards.")
@_config
def reindex(drop_old: bool, config: Path | None, **flags: Any) -> None:
    """Embed the history of --store with another model, and switch to it."""
    from flows.reindex import run_reindex

    sys.exit(run_reindex(_settings({**flags, "strategy": "none"}, config), drop_old))


@main.command()
@_setting("--store", "store", type=_FILE, required=True, help="The LanceDB history.")
def costs(store: Path) -> None:
    """Show the language model's tokens by day and channel."""
    from flows.costs import print_costs

    sys.exit(print_costs(store))


def _run(kind: Any, options: dict[str, Any]) -> None:
    from flows.replay import run_files
    from flows.settings import Settings

    config = options.pop("config")
    flags = {name: options.pop(name) for name in Settings.model_fields if name in options}
    sys.exit(run_files(kind, options.pop("files"), _settings(flags, config), **options))


def _settings(flags: dict[str, Any], config: Path | None) -> Settings:
    from flows.settings import SettingsError, load_settings

    try:
        return load_settings(flags, config)
    except SettingsError as err:
        raise click.UsageError(str(err)) from err


if __name__ == "__main__":
    main()
