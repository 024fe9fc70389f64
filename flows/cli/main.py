"""The command line. Commands import heavy modules only when they run, so that `backscroll --help` is fast."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from backscroll.flows.cli.bench import bench
from backscroll.flows.cli.options import (
    FILE,
    Group,
    as_option,
    config_option,
    format_option,
    option_group,
    popped,
    read_settings,
    setting,
)

__all__ = ["main"]

_topics = option_group(
    setting("kafka_brokers"),
    setting("kafka_topics"),
    setting("kafka_summaries"),
    setting("kafka_dead_letters"),
)
_workers = click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of processes on this machine.",
)
_engine = option_group(
    setting("namespace"),
    setting("window_tokens"),
    setting("idle_minutes"),
    setting("embedding_url"),
    setting("embedding_model"),
    config_option,
)
_common = option_group(
    click.argument("files", nargs=-1, required=True, type=FILE),
    format_option,
    setting("tz"),
    setting("store"),
    _engine,
    _workers,
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
_summaries = option_group(
    setting("strategy"),
    setting("budget"),
    setting("llm"),
    setting("gap_model"),
    setting("summary_model"),
    setting("llm_record"),
    setting("max_tokens_per_day"),
    setting("max_tokens_per_channel_day"),
    setting("on_llm_failure"),
    setting("summary_tokens"),
)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="backscroll")
def main() -> None:
    """Chat summaries that you can read without scrolling back."""


@main.command()
@_common
@click.option("--out", type=FILE, show_default="standard output", help="File for the summaries, JSON Lines.")
@as_option
@_summaries
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


@main.command()
@_topics
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
@setting("backfill_days")
@setting("kafka_start")
@setting("store")
@setting("recovery")
@setting("lateness_seconds")
@_engine
@_summaries
@_workers
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


@main.group()
def recovery() -> None:
    """Manage the recovery state of the dataflow. Stop all engines first."""


_recovery_processes = click.option(
    "--processes",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of processes that each have a disk.",
)


@recovery.command()
@click.argument("directory", type=FILE)
@click.option(
    "--parts",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Number of partitions; cannot be changed later.",
)
@click.option(
    "--process-id",
    type=click.IntRange(0),
    show_default="shared by all processes",
    help="Process whose disk DIRECTORY is on.",
)
@_recovery_processes
def init(directory: Path, parts: int, process_id: int | None, processes: int) -> None:
    """Create the partitions of DIRECTORY if they do not exist.

    If each process has a disk, this creates the partitions of one process: partition i belongs to
    process i mod --processes.
    """
    from backscroll.flows.running.recovery import Disk, init_recovery
    from backscroll.flows.terminal.errors import report_user_errors

    if (process_id or 0) >= processes or (process_id is None and processes > 1):
        raise click.UsageError(f"--process-id must be set and less than --processes, which is {processes}")
    with report_user_errors():
        click.echo(init_recovery(directory, parts, Disk(process_id or 0, processes)))


@recovery.command()
@click.argument("directories", nargs=-1, required=True, type=FILE)
@_recovery_processes
def spread(directories: tuple[Path, ...], processes: int) -> None:
    """Move partitions for another number of processes.

    DIRECTORIES hold the partitions. The first --processes of them are the disks of processes 0, 1 and
    so on; the others are emptied.
    """
    from backscroll.flows.running.recovery import spread_recovery
    from backscroll.flows.terminal.errors import report_user_errors

    with report_user_errors():
        click.echo(spread_recovery(directories, processes))


@main.command()
@_common
def ingest(**options: Any) -> None:
    """Store chat FILES as history in --store, without summaries."""
    if options["store"] is None:
        raise click.UsageError("ingest needs --store, the history to write to")
    _run("ingest", {**options, "out": None, "form": "jsonl", "detected": None, "strategy": "none"})


@main.command()
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
@_engine
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


@main.command()
@setting("store", required=True)
@setting("embedding_model")
@setting("embedding_url")
@setting("window_tokens")
@click.option("--drop-old", is_flag=True, help="Delete the old model's vectors afterwards.")
@config_option
def reindex(drop_old: bool, config: Path | None, **flags: Any) -> None:
    """Switch --store to another embedding model.

    Embeds the whole history again. Set --window to the value that the store was built with.
    """
    from backscroll.flows.commands.reindex import run_reindex

    sys.exit(run_reindex(read_settings({**flags, "strategy": "none"}, config), drop_old))


@main.group()
def topics() -> None:
    """Manage Kafka topics."""


@topics.command()
@_topics
@setting("kafka_debug")
@click.option(
    "--partitions", type=click.IntRange(1), default=8, show_default=True, help="Partitions of each topic."
)
@click.option(
    "--replication", type=click.IntRange(1), default=1, show_default=True, help="Copies of each partition."
)
@click.option(
    "--retention-days",
    type=click.FloatRange(0, min_open=True),
    default=7,
    show_default=True,
    help="Days to keep messages and dead letters; the other topics are compacted.",
)
@config_option
def create(
    partitions: int, replication: int, retention_days: float, config: Path | None, **flags: Any
) -> None:
    """Create the topics that are missing, and check those that exist."""
    from backscroll.flows.commands.topics import run_create_topics

    settings = read_settings(flags, config)
    sys.exit(
        run_create_topics(
            settings, partitions=partitions, replication=replication, retention_days=retention_days
        )
    )


@main.command()
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
@click.option("--channel", help="Only show this channel, written channel or namespace/channel.")
@as_option
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


@main.command()
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


@main.command()
@setting("store", required=True)
def costs(store: str) -> None:
    """Show the language model tokens used, by day and channel."""
    from backscroll.flows.commands.costs import print_costs

    sys.exit(print_costs(Path(store)))


@main.command()
@click.option("--markdown", is_flag=True, help="Print the Markdown table of the documentation.")
def settings(markdown: bool) -> None:
    """Show every setting with its default and meaning."""
    from backscroll.flows.settings import describe

    if markdown:
        click.echo(describe.markdown(), nl=False)
    else:
        describe.show_settings()


main.add_command(bench)


def _run(kind: Any, options: dict[str, Any]) -> None:
    from backscroll.flows.commands.replay import run_files

    config, flags = options.pop("config"), popped(options)
    sys.exit(run_files(kind, options.pop("files"), read_settings(flags, config), **options))


if __name__ == "__main__":
    main()
