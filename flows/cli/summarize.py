"""The commands that summarise: files, topics and live chat."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from backscroll.flows.cli.option_groups import (
    engine_options,
    summaries_options,
    topics_options,
    workers_option,
)
from backscroll.flows.cli.options import (
    FILE,
    Command,
    as_option,
    format_option,
    option_group,
    popped,
    read_settings,
    setting,
)

__all__ = ["ingest", "replay", "run"]

_files = option_group(
    click.argument("files", nargs=-1, required=True, type=FILE),
    format_option,
    setting("tz"),
    setting("store"),
    engine_options,
    workers_option,
    click.option(
        "--speed",
        type=click.FloatRange(0, min_open=True),
        show_default="as fast as possible",
        help="Replay speed as a multiple of real time.",
    ),
    click.option(
        "--dead-letters",
        type=FILE,
        show_default="dead-letters.jsonl next to --out",
        help="File for invalid messages.",
    ),
)


@click.command(cls=Command)
@_files
@click.option("--out", type=FILE, show_default="standard output", help="File for the summaries, JSON Lines.")
@as_option
@summaries_options
@click.option("--detected", type=FILE, help="File of recorded gaps to use instead of detecting them.")
@click.option("--into", help="Send the messages to kafka://host:port/topic instead of summarising them.")
def replay(**options: Any) -> None:
    """Summarise chat FILES, window by window.

    Files are read in the order given. With --store, a stopped run continues when you repeat it:
    finished summaries are printed again unchanged, and nothing is computed twice. Without --store,
    the history is temporary.
    """
    into = options.pop("into")
    if into is None:
        _run("replay", options)
    if options["out"] or options["detected"] or options["workers"] > 1:
        raise click.UsageError("--into only sends the messages: remove --out, --detected and --workers")
    from backscroll.flows.commands.replay_into_kafka import run_into

    given = {name: options[name] for name in ("format", "dead_letters", "speed")}
    settings = read_settings({name: options[name] for name in ("namespace", "tz")}, options["config"])
    sys.exit(run_into(options["files"], settings, into, **given))


@click.command(cls=Command)
@_files
def ingest(**options: Any) -> None:
    """Store chat FILES as history in --store, without summaries."""
    if options["store"] is None:
        raise click.UsageError("ingest needs --store, the history to write to")
    _run("ingest", {**options, "out": None, "form": "jsonl", "detected": None, "strategy": "none"})


@click.command(cls=Command)
@topics_options
@click.option(
    "--from", "platform", type=click.Choice(("slack", "matrix")), help="Read live chat instead of topics."
)
@click.option(
    "--out",
    type=FILE,
    show_default="topics if --brokers is set, else standard output",
    help="With --from: file to append summaries to, JSON Lines.",
)
@as_option
@setting("tz")
@setting("backfill_days")
@setting("kafka_start")
@setting("store")
@setting("recovery")
@setting("lateness_seconds")
@engine_options
@summaries_options
@workers_option
@click.option(
    "--process-id",
    type=int,
    envvar="BACKSCROLL_PROCESS_ID",
    show_envvar=True,
    help="Position of this process in --addresses, counted from 0.",
)
@click.option(
    "--addresses",
    envvar="BACKSCROLL_ADDRESSES",
    show_envvar=True,
    help="host:port of every process, separated by commas.",
)
def run(platform: Any, config: Path | None, **options: Any) -> None:
    """Summarise Kafka topics or live chat until stopped.

    Summaries go to a Kafka topic; with --from, they can go to a file or standard output. After a
    restart, it continues where it stopped. Each message ends up in exactly one window, and a summary
    that is sent twice has the same id and the same bytes. Set other Kafka settings, such as a login,
    and the tokens of Slack and Matrix with BACKSCROLL_* variables or in --config.
    """
    settings = read_settings(popped(options), config)
    chat = {name: options.pop(name) for name in ("out", "form")}
    if platform is None:
        if chat["out"] is not None:
            raise click.UsageError("--out needs --from: without it, summaries go to a topic")
        from backscroll.flows.commands.run import run_service

        sys.exit(run_service(settings, **options))
    if options != {"workers": 1, "process_id": None, "addresses": None}:
        raise click.UsageError(
            "--from runs in a single process: remove --workers, --process-id and --addresses"
        )
    from backscroll.flows.commands.run_chat import run_chat

    sys.exit(run_chat(settings, platform, **chat))


def _run(kind: Any, options: dict[str, Any]) -> None:
    from backscroll.flows.commands.replay import run_files

    config, flags = options.pop("config"), popped(options)
    sys.exit(run_files(kind, options.pop("files"), read_settings(flags, config), **options))
