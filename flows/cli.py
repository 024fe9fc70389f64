"""The command line. Heavy modules are imported by the command that needs them, not by `--help`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from flows.bench_cli import bench
from flows.options import (
    FILE,
    config_option,
    format_option,
    option_group,
    popped,
    read_settings,
    setting,
    shown_as,
)
from operators.memory_names import memory_names

__all__ = ["main"]

_brokers = setting(
    "--brokers", "kafka_brokers", help="host:port of Kafka brokers.  [default: 127.0.0.1:9092]"
)
_summary_topic = setting("--summaries", "kafka_summaries", help="Topic of summaries.  [default: summaries]")
_topics = option_group(
    setting("--topics", "kafka_topics", help="Topics to read.  [default: messages]"),
    _summary_topic,
    setting("--dead-letters", "kafka_dead_letters", help="Topic of rejected input.  [default: dead-letters]"),
)
_workers = click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Local processes."
)
_engine = option_group(
    setting("--namespace", "namespace", help="Namespace of messages that name none.  [default: default]"),
    setting("--window", "window_tokens", type=int, help="Most tokens of a window.  [default: 1024]"),
    setting(
        "--idle", "idle_minutes", type=float, help="Minutes of pause that close a window.  [default: off]"
    ),
    setting("--embedding-url", "embedding_url", help="OpenAI-compatible server of the embedding model."),
    setting(
        "--embedding-model", "embedding_model", help="Hub id, folder or none.  [default: all-MiniLM-L6-v2]"
    ),
    config_option,
)
_common = option_group(
    click.argument("files", nargs=-1, required=True, type=FILE),
    format_option,
    setting("--tz", "tz", help="Time zone of files whose times name none, as Europe/Berlin."),
    setting("--store", "store", help="LanceDB history.  [default: a temporary one; ingest needs it]"),
    _engine,
    _workers,
    click.option(
        "--speed",
        type=click.FloatRange(0, min_open=True),
        help="Times real time.  [default: as fast as possible]",
    ),
    click.option(
        "--dead-letters", type=FILE, help="Rejected input.  [default: dead-letters.jsonl beside --out]"
    ),
)
_summaries = option_group(
    setting(
        "--strategy",
        "strategy",
        type=click.Choice(memory_names()),
        help="Memory strategy.  [default: backscroll]",
    ),
    setting("--budget", "budget", type=int, help="Most tokens of a memory.  [default: 1024]"),
    setting("--llm", "llm", help="Server URL, vllm:MODEL or cassette:FILE.  [default: no language model]"),
    setting("--gap-model", "gap_model", help="Model for gaps.  [default: the server's only one]"),
    setting("--summary-model", "summary_model", help="Model for summaries.  [default: as for gaps]"),
    setting("--record", "llm_record", type=FILE, help="Append the model's answers to a cassette file."),
    setting(
        "--max-tokens-per-day", "max_tokens_per_day", type=int, help="Of the model.  [default: no limit]"
    ),
    setting(
        "--max-tokens-per-channel-day", "max_tokens_per_channel_day", type=int, help="[default: no limit]"
    ),
    setting(
        "--on-llm-failure",
        "on_llm_failure",
        type=click.Choice(("extractive", "dead-letter")),
        help="What a window gets instead.  [default: extractive]",
    ),
    setting("--summary-tokens", "summary_tokens", type=int, help="Most tokens of a summary.  [default: 200]"),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="backscroll")
def main() -> None:
    """Summaries of chat that can be read without scrolling back."""


@main.command()
@_common
@click.option("--out", type=FILE, help="Summaries as JSON Lines.  [default: standard output]")
@shown_as("On standard output: cards on a terminal, JSON Lines elsewhere.")
@_summaries
@click.option("--detected", type=FILE, help="Recorded gaps to use instead of the rules.")
@click.option("--into", help="Send the messages to kafka://host:port/topic instead of summarising them.")
def replay(**options: Any) -> None:
    """Summarise chat FILES, window by window.

    Files are read in the order given. With --store, a run that was stopped goes on where it was:
    what is finished is printed again as it was, and nothing is computed twice.
    """
    into = options.pop("into")
    if into is None:
        _run("replay", options)
    if options["out"] or options["detected"] or options["workers"] > 1:
        raise click.UsageError("--into sends messages on: leave out --out, --detected and --workers")
    from flows.into import run_into

    given = {name: options[name] for name in ("format", "dead_letters", "speed")}
    settings = read_settings({name: options[name] for name in ("namespace", "tz")}, options["config"])
    sys.exit(run_into(options["files"], settings, into, **given))


@main.command()
@_brokers
@_topics
@click.option(
    "--from", "platform", type=click.Choice(("slack", "matrix")), help="Live chat instead of topics."
)
@click.option(
    "--out",
    type=FILE,
    help="With --from: append summaries.  [default: topics with --brokers, else stdout]",
)
@shown_as("With --from, on standard output: cards on a terminal, JSON Lines elsewhere.")
@setting("--backfill", "backfill_days", type=float, help="With --from: days of a new channel's past.  [30]")
@setting("--start", "kafka_start", help="earliest, latest or a time, where never read.  [default: earliest]")
@setting("--store", "store", help="LanceDB history: a directory or s3://bucket/prefix.")
@setting("--recovery", "recovery", type=FILE, help="State of the dataflow.  [default: in a local --store]")
@setting("--lateness", "lateness_seconds", type=float, help="Seconds to wait for earlier messages.  [0]")
@_engine
@_summaries
@_workers
@click.option(
    "--process-id", type=int, envvar="BACKSCROLL_PROCESS_ID", show_envvar=True, help="Place in --addresses."
)
@click.option(
    "--addresses", envvar="BACKSCROLL_ADDRESSES", show_envvar=True, help="host:port of all processes."
)
def run(platform: Any, config: Path | None, **options: Any) -> None:
    """Summarise live topics, Kafka in, Kafka out, or live chat, until stopped.

    Started again, it goes on where it was. Each message ends in exactly one window, and a summary that
    is sent twice is sent with the same id and the same bytes. Every setting of Kafka, such as a login,
    is a variable BACKSCROLL_KAFKA_* or stands in --config. The tokens of Slack and Matrix are variables.
    """
    settings = read_settings(popped(options), config)
    chat = {name: options.pop(name) for name in ("out", "form")}
    if platform is None:
        if chat["out"] is not None:
            raise click.UsageError("--out goes with --from: without it summaries go to a topic")
        from flows.run import run_service

        sys.exit(run_service(settings, **options))
    if options != {"workers": 1, "process_id": None, "addresses": None}:
        raise click.UsageError("--from has one process: leave out --workers, --process-id and --addresses")
    from flows.chat import run_chat

    sys.exit(run_chat(settings, platform, **chat))


@main.group()
def recovery() -> None:
    """The state of the dataflow. No engine may run meanwhile."""


_recovery_processes = click.option(
    "--processes", type=click.IntRange(1), default=1, show_default=True, help="With a disk each."
)


@recovery.command()
@click.argument("directory", type=FILE)
@click.option("--parts", type=click.IntRange(1), default=8, show_default=True, help="In all, for good.")
@click.option(
    "--process-id", type=click.IntRange(0), help="Whose disk DIRECTORY is on.  [default: all see it]"
)
@_recovery_processes
def init(directory: Path, parts: int, process_id: int | None, processes: int) -> None:
    """Make the partitions of DIRECTORY, unless they are there.

    With a disk for each process, those that belong to this one: partition i to process i mod --processes.
    """
    from flows.mistakes import in_one_line
    from flows.recovery import Disk, init_recovery

    if (process_id or 0) >= processes or (process_id is None and processes > 1):
        raise click.UsageError(f"--process-id has to be below --processes, which is {processes}")
    with in_one_line():
        click.echo(init_recovery(directory, parts, Disk(process_id or 0, processes)))


@recovery.command()
@click.argument("directories", nargs=-1, required=True, type=FILE)
@_recovery_processes
def spread(directories: tuple[Path, ...], processes: int) -> None:
    """Move partitions between DIRECTORIES for another number of processes.

    The first --processes of them are the disks of processes 0, 1 ...; more are emptied.
    """
    from flows.mistakes import in_one_line
    from flows.recovery import spread_recovery

    with in_one_line():
        click.echo(spread_recovery(directories, processes))


@main.command()
@_common
def ingest(**options: Any) -> None:
    """Record the windows and history of chat FILES in --store, without summaries."""
    if options["store"] is None:
        raise click.UsageError("ingest needs a --store to write to")
    _run("ingest", {**options, "out": None, "form": "jsonl", "detected": None, "strategy": "none"})


@main.command()
@click.argument("channel", required=False)
@click.option("--file", "files", multiple=True, type=FILE, help="Chat file; may be repeated.")
@format_option
@setting("--store", "store", help="LanceDB history; it is only read.")
@click.option("--since", required=True, help="2d, yesterday, a time, or the id of the last message read.")
@click.option("--until", help="As --since, or latest for the newest message.  [default: now]")
@click.option("--me", help="Name or id of the reader: what concerns them comes first.")
@click.option(
    "--max-tokens", type=click.IntRange(32), default=400, show_default=True, help="Of all lines together."
)
@click.option(
    "--as", "form", type=click.Choice(("text", "markdown", "json")), default="text", show_default=True
)
@setting("--tz", "tz", help="Time zone to show, and of files whose times name none.  [default: UTC]")
@_engine
@setting("--llm", "llm", help="Server URL, vllm:MODEL or cassette:FILE.  [default: no language model]")
@setting("--summary-model", "summary_model", help="Model that writes.  [default: the server's only one]")
@setting("--record", "llm_record", type=FILE, help="Append the model's answers to a cassette file.")
def catchup(channel: str | None, config: Path | None, **options: Any) -> None:
    """Tell what happened in CHANNEL, or in all channels, since somebody was there.

    Reads a --store, chat files, or both: then the files are what came after the store's last window.
    """
    from flows.catchup import run_catchup

    settings = read_settings(popped(options), config)
    sys.exit(run_catchup(settings, channel, **options))


@main.command()
@setting("--store", "store", required=True, help="The LanceDB history.")
@setting("--embedding-model", "embedding_model", help="Hub id, folder, or a model of --embedding-url.")
@setting("--embedding-url", "embedding_url", help="OpenAI-compatible server of the embedding model.")
@setting("--window", "window_tokens", type=int, help="As the store was made.  [default: 1024]")
@click.option("--drop-old", is_flag=True, help="Delete the vectors of the former model afterwards.")
@config_option
def reindex(drop_old: bool, config: Path | None, **flags: Any) -> None:
    """Embed the history of --store with another model, and switch to it."""
    from flows.reindex import run_reindex

    sys.exit(run_reindex(read_settings({**flags, "strategy": "none"}, config), drop_old))


@main.group()
def topics() -> None:
    """The topics of Kafka."""


@topics.command()
@_brokers
@_topics
@setting("--debug", "kafka_debug", help="Topic of gaps and memory.  [default: none]")
@click.option("--partitions", type=click.IntRange(1), default=8, show_default=True, help="Of each.")
@click.option("--replication", type=click.IntRange(1), default=1, show_default=True, help="Copies of each.")
@click.option(
    "--retention-days",
    type=click.FloatRange(0, min_open=True),
    default=7,
    show_default=True,
    help="Of messages and rejected input; summaries are compacted.",
)
@config_option
def create(
    partitions: int, replication: int, retention_days: float, config: Path | None, **flags: Any
) -> None:
    """Make the topics that are missing, and compare those that are not."""
    from flows.topics import run_create_topics

    settings = read_settings(flags, config)
    sys.exit(
        run_create_topics(
            settings, partitions=partitions, replication=replication, retention_days=retention_days
        )
    )


@main.command()
@_brokers
@_summary_topic
@setting("--namespace", "namespace", help="Namespace of a --channel that names none.  [default: default]")
@click.option(
    "--from",
    "start",
    type=click.Choice(("earliest", "latest")),
    default="latest",
    show_default=True,
    help="What is there as well, or only what arrives.",
)
@click.option("--channel", help="Only this one: channel or namespace/channel.")
@shown_as("Cards on a terminal, JSON Lines elsewhere.")
@click.option("--limit", type=click.IntRange(1), help="End after so many.  [default: when interrupted]")
@config_option
def tail(
    start: Any, channel: str | None, form: Any, limit: int | None, config: Path | None, **flags: Any
) -> None:
    """Show summaries as they arrive."""
    from flows.tail import run_tail

    settings = read_settings(flags, config)
    sys.exit(run_tail(settings, start=start, channel=channel, form=form, limit=limit))


@main.command()
@setting("--store", "store", required=True, help="The LanceDB history.")
@setting("--host", "web_host", help="Address to listen on.  [default: 127.0.0.1]")
@setting("--port", "web_port", type=click.IntRange(0, 65535), help="[default: 8484; 0: any free one]")
@setting("--access", "web_access", type=FILE, help="Who may read what, TOML; needed beyond this machine.")
@setting("--embedding-model", "embedding_model", help="As the store was made; none: search by words alone.")
@setting("--embedding-url", "embedding_url", help="OpenAI-compatible server of the embedding model.")
@setting("--llm", "llm", help="Server URL or cassette:FILE that writes catch-ups.  [default: rules]")
@setting("--summary-model", "summary_model", help="Model that writes.  [default: the server's only one]")
@setting("--tz", "tz", help="Time zone of catch-ups, as Europe/Berlin.  [default: UTC]")
@config_option
def serve(config: Path | None, **flags: Any) -> None:
    """Show the summaries of --store as a web page, live, and as a JSON API."""
    from flows.serve import run_serve

    sys.exit(run_serve(read_settings(flags, config)))


@main.command()
@setting("--store", "store", required=True, help="The LanceDB history.")
def costs(store: str) -> None:
    """Show the language model's tokens by day and channel."""
    from flows.costs import print_costs

    sys.exit(print_costs(Path(store)))


@main.command()
@click.option("--markdown", is_flag=True, help="As the table of the documentation.")
def settings(markdown: bool) -> None:
    """Show every setting, its default and its meaning."""
    from flows import describe

    if markdown:
        click.echo(describe.markdown(), nl=False)
    else:
        describe.show_settings()


main.add_command(bench)


def _run(kind: Any, options: dict[str, Any]) -> None:
    from flows.replay import run_files

    config, flags = options.pop("config"), popped(options)
    sys.exit(run_files(kind, options.pop("files"), read_settings(flags, config), **options))


if __name__ == "__main__":
    main()
