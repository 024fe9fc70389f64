"""The commands that look after an engine: topics, recovery state, the store, costs and settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from backscroll.flows.cli.option_groups import (
    topics_options,
)
from backscroll.flows.cli.options import (
    FILE,
    Command,
    Group,
    config_option,
    read_settings,
    setting,
)

__all__ = ["costs", "recovery", "reindex", "settings", "topics"]


@click.group(cls=Group)
def topics() -> None:
    """Manage Kafka topics."""


@topics.command()
@topics_options
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


@click.group(cls=Group)
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


@click.command(cls=Command)
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


@click.command(cls=Command)
@setting("store", required=True)
def costs(store: str) -> None:
    """Show the language model tokens used, by day and channel."""
    from backscroll.flows.commands.costs import print_costs

    sys.exit(print_costs(Path(store)))


@click.command(cls=Command)
@click.option("--markdown", is_flag=True, help="Print the Markdown table of the documentation.")
def settings(markdown: bool) -> None:
    """Show every setting with its default and meaning."""
    from backscroll.flows.settings import describe

    if markdown:
        click.echo(describe.markdown(), nl=False)
    else:
        describe.show_settings()
