"""The command line. A command imports heavy modules when it runs, so that `backscroll --help` is fast."""

from __future__ import annotations

import click

from backscroll.flows.cli.bench import bench
from backscroll.flows.cli.maintain import costs, recovery, reindex, settings, topics
from backscroll.flows.cli.options import Group
from backscroll.flows.cli.read import catchup, serve, tail
from backscroll.flows.cli.summarize import ingest, replay, run

__all__ = ["main"]


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="backscroll")
def main() -> None:
    """Chat summaries that you can read without scrolling back."""


for command in (bench, catchup, costs, ingest, recovery, reindex, replay, run, serve, settings, tail, topics):
    main.add_command(command)


if __name__ == "__main__":
    main()
