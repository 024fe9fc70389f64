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
_FORMATS = (
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
_STRATEGIES = ("backscroll", "remember", "recent", "hybrid", "sparse", "dense", "none")
_COMPARED = (
    *_STRATEGIES,
    "full",
    "ideal",
    "remember-without-gaps",
    "remember-without-refinement",
)
_WRITTEN = ("incremental", "hierarchical")
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
_brokers = _setting(
    "--brokers", "kafka_brokers", help="host:port of Kafka brokers.  [default: 127.0.0.1:9092]"
)
_summary_topic = _setting("--summaries", "kafka_summaries", help="Topic of summaries.  [default: summaries]")
_topics = _options(
    _setting("--topics", "kafka_topics", help="Topics to read.  [default: messages]"),
    _summary_topic,
    _setting(
        "--dead-letters", "kafka_dead_letters", help="Topic of rejected input.  [default: dead-letters]"
    ),
)
_workers = click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Local processes."
)
_engine = _options(
    _setting("--namespace", "namespace", help="Namespace of messages that name none.  [default: default]"),
    _setting("--window", "window_tokens", type=int, help="Most tokens of a window.  [default: 1024]"),
    _setting(
        "--idle", "idle_minutes", type=float, help="Minutes of pause that close a window.  [default: off]"
    ),
    _setting("--embedding-url", "embedding_url", help="OpenAI-compatible server of the embedding model."),
    _setting(
        "--embedding-model", "embedding_model", help="Hub id, folder or none.  [default: all-MiniLM-L6-v2]"
    ),
    _config,
)
_common = _options(
    click.argument("files", nargs=-1, required=True, type=_FILE),
    click.option("--format", type=click.Choice(_FORMATS), default="auto", show_default=True),
    _setting("--tz", "tz", help="Time zone of files whose times name none, as Europe/Berlin."),
    _setting("--store", "store", help="LanceDB history.  [default: a temporary one; ingest needs it]"),
    _engine,
    _workers,
    click.option(
        "--speed",
        type=click.FloatRange(0, min_open=True),
        help="Times real time.  [default: as fast as possible]",
    ),
    click.option(
        "--dead-letters", type=_FILE, help="Rejected input.  [default: dead-letters.jsonl beside --out]"
    ),
)
_summaries = _options(
    _setting(
        "--strategy",
        "strategy",
        type=click.Choice(_STRATEGIES),
        help="Memory strategy.  [default: backscroll]",
    ),
    _setting("--budget", "budget", type=int, help="Most tokens of a memory.  [default: 1024]"),
    _setting("--llm", "llm", help="Server URL, vllm:MODEL or cassette:FILE.  [default: no language model]"),
    _setting("--gap-model", "gap_model", help="Model for gaps.  [default: the server's only one]"),
    _setting("--summary-model", "summary_model", help="Model for summaries.  [default: as for gaps]"),
    _setting("--record", "llm_record", type=_FILE, help="Append the model's answers to a cassette file."),
    _setting(
        "--max-tokens-per-day", "max_tokens_per_day", type=int, help="Of the model.  [default: no limit]"
    ),
    _setting(
        "--max-tokens-per-channel-day", "max_tokens_per_channel_day", type=int, help="[default: no limit]"
    ),
    _setting(
        "--on-llm-failure",
        "on_llm_failure",
        type=click.Choice(("extractive", "dead-letter")),
        help="What a window gets instead.  [default: extractive]",
    ),
    _setting(
        "--summary-tokens", "summary_tokens", type=int, help="Most tokens of a summary.  [default: 200]"
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
@_summaries
@click.option("--detected", type=_FILE, help="Recorded gaps to use instead of the rules.")
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
    settings = _settings({name: options[name] for name in ("namespace", "tz")}, options["config"])
    sys.exit(run_into(options["files"], settings, into, **given))


@main.command()
@_brokers
@_topics
@_setting("--start", "kafka_start", help="earliest, latest or a time, where never read.  [default: earliest]")
@_setting("--store", "store", help="LanceDB history: a directory or s3://bucket/prefix.")
@_setting("--recovery", "recovery", type=_FILE, help="State of the dataflow.  [default: in a local --store]")
@_setting("--lateness", "lateness_seconds", type=float, help="Seconds to wait for earlier messages.  [0]")
@_engine
@_summaries
@_workers
@click.option(
    "--process-id", type=int, envvar="BACKSCROLL_PROCESS_ID", show_envvar=True, help="Place in --addresses."
)
@click.option(
    "--addresses", envvar="BACKSCROLL_ADDRESSES", show_envvar=True, help="host:port of all processes."
)
def run(
    workers: int, process_id: int | None, addresses: str | None, config: Path | None, **flags: Any
) -> None:
    """Summarise live topics: Kafka in, Kafka out, until stopped.

    Started again, it goes on where it was. Each message ends in exactly one window, and a summary that
    is sent twice is sent with the same id and the same bytes. Every setting of Kafka, such as a login,
    is a variable BACKSCROLL_KAFKA_* or stands in --config.
    """
    from flows.run import run_service

    settings = _settings(flags, config)
    sys.exit(run_service(settings, workers=workers, process_id=process_id, addresses=addresses))


@main.group()
def recovery() -> None:
    """The state of the dataflow. No engine may run meanwhile."""


_recovery_processes = click.option(
    "--processes", type=click.IntRange(1), default=1, show_default=True, help="With a disk each."
)


@recovery.command()
@click.argument("directory", type=_FILE)
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
@click.argument("directories", nargs=-1, required=True, type=_FILE)
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
@click.option("--file", "files", multiple=True, type=_FILE, help="Chat file; may be repeated.")
@click.option("--format", type=click.Choice(_FORMATS), default="auto", show_default=True)
@_setting("--store", "store", help="LanceDB history; it is only read.")
@click.option("--since", required=True, help="2d, yesterday, a time, or the id of the last message read.")
@click.option("--until", help="As --since, or latest for the newest message.  [default: now]")
@click.option("--me", help="Name or id of the reader: what concerns them comes first.")
@click.option(
    "--max-tokens", type=click.IntRange(32), default=400, show_default=True, help="Of all lines together."
)
@click.option(
    "--as", "form", type=click.Choice(("text", "markdown", "json")), default="text", show_default=True
)
@_setting("--tz", "tz", help="Time zone to show, and of files whose times name none.  [default: UTC]")
@_engine
@_setting("--llm", "llm", help="Server URL, vllm:MODEL or cassette:FILE.  [default: no language model]")
@_setting("--summary-model", "summary_model", help="Model that writes.  [default: the server's only one]")
@_setting("--record", "llm_record", type=_FILE, help="Append the model's answers to a cassette file.")
def catchup(channel: str | None, config: Path | None, **options: Any) -> None:
    """Tell what happened in CHANNEL, or in all channels, since somebody was there.

    Reads a --store, chat files, or both: then the files are what came after the store's last window.
    """
    from flows.catchup import run_catchup

    settings = _settings(_popped(options), config)
    sys.exit(run_catchup(settings, channel, **options))


@main.command()
@_setting("--store", "store", required=True, help="The LanceDB history.")
@_setting("--embedding-model", "embedding_model", help="Hub id, folder, or a model of --embedding-url.")
@_setting("--embedding-url", "embedding_url", help="OpenAI-compatible server of the embedding model.")
@_setting("--window", "window_tokens", type=int, help="As the store was made.  [default: 1024]")
@click.option("--drop-old", is_flag=True, help="Delete the vectors of the former model afterwards.")
@_config
def reindex(drop_old: bool, config: Path | None, **flags: Any) -> None:
    """Embed the history of --store with another model, and switch to it."""
    from flows.reindex import run_reindex

    sys.exit(run_reindex(_settings({**flags, "strategy": "none"}, config), drop_old))


@main.group()
def topics() -> None:
    """The topics of Kafka."""


@topics.command()
@_brokers
@_topics
@_setting("--debug", "kafka_debug", help="Topic of gaps and memory.  [default: none]")
@click.option("--partitions", type=click.IntRange(1), default=8, show_default=True, help="Of each.")
@click.option("--replication", type=click.IntRange(1), default=1, show_default=True, help="Copies of each.")
@click.option(
    "--retention-days",
    type=click.FloatRange(0, min_open=True),
    default=7,
    show_default=True,
    help="Of messages and rejected input; summaries are compacted.",
)
@_config
def create(
    partitions: int, replication: int, retention_days: float, config: Path | None, **flags: Any
) -> None:
    """Make the topics that are missing, and compare those that are not."""
    from flows.topics import run_create_topics

    settings = _settings(flags, config)
    sys.exit(
        run_create_topics(
            settings, partitions=partitions, replication=replication, retention_days=retention_days
        )
    )


@main.command()
@_brokers
@_summary_topic
@_setting("--namespace", "namespace", help="Namespace of a --channel that names none.  [default: default]")
@click.option(
    "--from",
    "start",
    type=click.Choice(("earliest", "latest")),
    default="latest",
    show_default=True,
    help="What is there as well, or only what arrives.",
)
@click.option("--channel", help="Only this one: channel or namespace/channel.")
@click.option(
    "--as",
    "form",
    type=click.Choice(("auto", "cards", "jsonl")),
    default="auto",
    show_default=True,
    help="Cards on a terminal, JSON Lines elsewhere.",
)
@click.option("--limit", type=click.IntRange(1), help="End after so many.  [default: when interrupted]")
@_config
def tail(
    start: Any, channel: str | None, form: Any, limit: int | None, config: Path | None, **flags: Any
) -> None:
    """Show summaries as they arrive."""
    from flows.tail import run_tail

    settings = _settings(flags, config)
    sys.exit(run_tail(settings, start=start, channel=channel, form=form, limit=limit))


@main.command()
@_setting("--store", "store", required=True, help="The LanceDB history.")
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


@main.group()
def bench() -> None:
    """Measure Backscroll on dialogues."""


_asked_models = _options(
    _setting("--llm", "llm", help="Server URL, vllm:MODEL or cassette:FILE.  [default: no language model]"),
    _setting("--record", "llm_record", type=_FILE, help="Cassette: keeps answers, gives those it has."),
    click.option("--judge-model", help="Model that judges.  [default: as for gaps, or the only one]"),
    click.option("--json", type=_FILE, help="Write the figures."),
    _config,
)


@bench.command("memory")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--strategy",
    "strategies",
    type=click.Choice((*_COMPARED, *_WRITTEN)),
    multiple=True,
    help="Memory to measure; may be repeated.  [default: all, the last two only with --llm]",
)
@click.option(
    "--detector",
    type=click.Choice(("recorded", "rules", "llm")),
    default="recorded",
    show_default=True,
    help="Gaps of detected.jsonl, or found by rules, or by the language model.",
)
@_setting("--budget", "budget", type=click.IntRange(1), help="Most tokens of a memory.  [default: 1024]")
@_setting("--embedding-model", "embedding_model", help="Hub id, folder or none.  [default: all-MiniLM-L6-v2]")
@_setting("--gap-model", "gap_model", help="Model of --detector llm.  [default: the server's only one]")
@_setting("--summary-model", "summary_model", help="Model that writes memories.  [default: as for gaps]")
@click.option(
    "--judge", is_flag=True, help="Judge the verbatim memories as well, and compare with their ids."
)
@click.option("--judge-llm", help="Where the judge is.  [default: as --llm]")
@click.option("--context", type=click.IntRange(16384), help="Tokens that the judge can read, for full.")
@click.option("--plot", type=_FILE, help="Write recall against build time, SVG.")
@_asked_models
def bench_memory(folder: Path, strategies: tuple[str, ...], config: Path | None, **options: Any) -> None:
    """Measure the memory recall of strategies on the benchmark FOLDER.

    FOLDER holds dialogues/, gaps.jsonl and, for recorded gaps, detected.jsonl. Memories that a model
    writes, incremental and hierarchical, are judged by one; of the others the ids of their turns tell.
    """
    from flows.bench import run_memory

    settings = _settings({"strategy": "none", **_popped(options)}, config)
    every = _COMPARED if settings.llm is None else (*_COMPARED, *_WRITTEN)
    run_memory(folder, settings, strategies=strategies or every, **options)


@bench.command("summaries")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("files", nargs=-1, required=True, type=_FILE)
@click.option("--judge-memory", is_flag=True, help="Judge what a memory holds, instead of by its turns' ids.")
@_asked_models
def bench_summaries(folder: Path, files: tuple[Path, ...], config: Path | None, **options: Any) -> None:
    """Judge the summaries in FILES, records of replay --out, on the benchmark FOLDER."""
    from flows.bench import run_summaries

    settings = _settings({"strategy": "none", **_popped(options)}, config)
    run_summaries(folder, files, settings, **options)


def _popped(options: dict[str, Any]) -> dict[str, Any]:
    """The options that are settings, taken out of the others."""
    from flows.settings import Settings

    return {name: options.pop(name) for name in Settings.model_fields if name in options}


@bench.command("build")
@click.argument("files", nargs=-1, required=True, type=_FILE)
@click.option("--out", type=_FILE, required=True, help="Folder of the benchmark; made, or gone on with.")
@click.option(
    "--llm",
    "annotators",
    multiple=True,
    required=True,
    help="An annotator: URL, URL#MODEL or cassette:FILE; up to three, of different families.",
)
@click.option("--format", type=click.Choice(_FORMATS), default="auto", show_default=True)
@click.option(
    "--min-history",
    type=click.IntRange(1),
    default=7000,
    show_default=True,
    help="Tokens before a window for it to be annotated.",
)
@click.option("--windows", type=click.IntRange(1), help="Most of a dialogue, evenly spread.  [default: all]")
@click.option("--dry-run", is_flag=True, help="Only tell what would be asked.")
@_setting("--namespace", "namespace", help="Namespace of messages that name none.  [default: default]")
@_setting("--concurrency", "llm_concurrency", type=int, help="Calls at once to each.  [default: 32]")
@_config
def bench_build(
    files: tuple[Path, ...],
    annotators: tuple[str, ...],
    config: Path | None,
    namespace: str | None,
    llm_concurrency: int | None,
    **options: Any,
) -> None:
    """Annotate chat FILES as a benchmark: gaps and evidence that most of the language models agree on.

    Interrupted, it goes on where it was: run it again.
    """
    from flows.build import run_build

    settings = _settings({"namespace": namespace, "llm_concurrency": llm_concurrency}, config)
    sys.exit(run_build(files, settings, annotators, **options))


@bench.command("embedding")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--windows", type=click.IntRange(1), default=12, show_default=True, help="Texts to embed.")
@click.option(
    "--backend",
    "backends",
    type=click.Choice(("torch", "onnx", "int8")),
    multiple=True,
    help="To measure; the first is what the others are compared with.  [default: all]",
)
@_setting("--embedding-model", "embedding_model", help="Hub id or folder.  [default: all-MiniLM-L6-v2]")
@click.option("--json", type=_FILE, help="Write the figures.")
@_config
def bench_embedding(
    folder: Path,
    windows: int,
    backends: tuple[str, ...],
    json: Path | None,
    config: Path | None,
    **flags: Any,
) -> None:
    """Measure what embedding costs by torch, ONNX and int8, on windows of FOLDER/dialogues."""
    from benchmarks.embedding import bench_embedding as measure
    from flows.mistakes import in_one_line

    settings = _settings(flags, config)
    with in_one_line():
        measure(
            folder,
            backends,
            model=settings.embedding_model,
            threads=settings.embedding_threads,
            windows=windows,
            json=json,
        )


@bench.command("throughput")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@click.option("--messages", type=click.IntRange(1), default=4000, show_default=True, help="In each run.")
@click.option("--channels", type=click.IntRange(1), default=40, show_default=True, help="They are in.")
@click.option("--processes", type=click.IntRange(1), multiple=True, default=(1, 2), show_default=True)
@click.option("--way", "ways", multiple=True, help="By its name in the table.  [default: all]")
@click.option("--json", type=_FILE, help="Write the figures.")
def bench_throughput(files: tuple[Path, ...], **options: Any) -> None:
    """Measure messages a second through the whole flow, with the texts of chat FILES and no model."""
    from flows.throughput import run_throughput

    run_throughput(files, **options)


def _sizes(_context: click.Context, _option: click.Parameter, given: str) -> list[int]:
    try:
        sizes = [round(float(size)) for size in given.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 10_000:
        raise click.BadParameter(f"{given} should be numbers of at least 10000, like 1e5,1e6")
    return sizes


@bench.command("history")
@click.argument("dialogues", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--tokens", default="1e5,1e6", show_default=True, callback=_sizes, help="Sizes of the channel, by commas."
)
@click.option(
    "--windows", type=click.IntRange(1), default=30, show_default=True, help="Windows that are measured."
)
@click.option("--plain/--no-plain", default=True, help="Measure the plain way too.  [default: plain]")
@click.option(
    "--channels", type=click.IntRange(0), default=0, help="Also measure as many channels, Zipf-like traffic."
)
@click.option(
    "--ceiling-mb", type=click.IntRange(1), default=64, show_default=True, help="Memory of those channels."
)
@click.option("--json", type=_FILE, help="Write the figures.")
@click.option("--plot", type=_FILE, help="Write cost over size, SVG.")
def bench_history(dialogues: tuple[Path, ...], **options: Any) -> None:
    """Measure the cost of a window over the size of the history behind it.

    The channel is told from DIALOGUES, files or folders of chat, again and again with other words.
    Its vectors are random.
    """
    from benchmarks.history_command import bench_history as measure
    from flows.mistakes import in_one_line

    with in_one_line():
        measure(dialogues, **options)


def _run(kind: Any, options: dict[str, Any]) -> None:
    from flows.replay import run_files

    config, flags = options.pop("config"), _popped(options)
    sys.exit(run_files(kind, options.pop("files"), _settings(flags, config), **options))


def _settings(flags: dict[str, Any], config: Path | None) -> Settings:
    from flows.settings import SettingsError, load_settings

    try:
        return load_settings(flags, config)
    except SettingsError as err:
        raise click.UsageError(str(err)) from err


if __name__ == "__main__":
    main()
