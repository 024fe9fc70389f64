"""The commands that show what happened: catch-ups, the web page, and summaries as they arrive."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from backscroll.flows.cli.option_groups import (
    engine_options,
)
from backscroll.flows.cli.options import (
    FILE,
    Command,
    as_option,
    config_option,
    format_option,
    popped,
    read_settings,
    setting,
)

__all__ = ["catchup", "serve", "tail"]


@click.command(cls=Command)
@click.argument("channel", required=False)
@click.option("--file", "files", multiple=True, type=FILE, help="Chat file; repeatable.")
@format_option
@setting("store")
@click.option(
    "--since",
    required=True,
    help="Where to start: 2d, yesterday, a time, or the id of the last message you read.",
)
@click.option(
    "--until", show_default="now", help="Where to stop: as for --since, or latest for the newest message."
)
@click.option("--me", help="Your name or id; what concerns you comes first.")
@click.option(
    "--max-tokens",
    type=click.IntRange(32),
    default=400,
    show_default=True,
    help="Maximum tokens of the whole text.",
)
@click.option(
    "--as",
    "form",
    type=click.Choice(("text", "markdown", "json")),
    default="text",
    show_default=True,
    help="Output format.",
)
@setting("tz")
@engine_options
@setting("llm")
@setting("summary_model")
@setting("llm_record")
def catchup(channel: str | None, config: Path | None, **options: Any) -> None:
    """Tell you what you missed in CHANNEL, or in all channels.

    Reads a --store, chat files, or both; with both, the files hold what came after the last window in
    the store. The store is not changed.
    """
    from backscroll.flows.commands.catchup import run_catchup

    settings = read_settings(popped(options), config)
    sys.exit(run_catchup(settings, channel, **options))


@click.command(cls=Command)
@setting("store", required=True)
@setting("web_host")
@setting("web_port")
@setting("web_access")
@setting("embedding_model")
@setting("embedding_url")
@setting("llm")
@setting("summary_model")
@setting("tz")
@config_option
def serve(config: Path | None, **flags: Any) -> None:
    """Serve --store as a live web page and a JSON API.

    Set --embedding-model to the model that the store was built with, or to none to search by words
    alone. With --llm, a language model writes the catch-ups.
    """
    from backscroll.flows.commands.serve import run_serve

    sys.exit(run_serve(read_settings(flags, config)))


@click.command(cls=Command)
@setting("kafka_brokers")
@setting("kafka_summaries")
@setting("namespace")
@click.option(
    "--from",
    "start",
    type=click.Choice(("earliest", "latest")),
    default="latest",
    show_default=True,
    help="Start with the earliest summary, or only show new ones.",
)
@click.option(
    "--channel", help="Only show this channel, written channel or namespace/channel, with or without #."
)
@as_option
@setting("tz")
@click.option(
    "--limit",
    type=click.IntRange(1),
    show_default="no limit",
    help="Number of summaries to show before exiting.",
)
@config_option
def tail(
    start: Any, channel: str | None, form: Any, limit: int | None, config: Path | None, **flags: Any
) -> None:
    """Show summaries as they arrive."""
    from backscroll.flows.commands.tail import run_tail

    settings = read_settings(flags, config)
    sys.exit(run_tail(settings, start=start, channel=channel, form=form, limit=limit))
