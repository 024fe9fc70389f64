"""Options that several commands share, in groups."""

from __future__ import annotations

import click

from backscroll.flows.cli.options import config_option, option_group, setting

__all__ = ["engine_options", "summaries_options", "topics_options", "workers_option"]

topics_options = option_group(
    setting("kafka_brokers"),
    setting("kafka_topics"),
    setting("kafka_summaries"),
    setting("kafka_dead_letters"),
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of processes on this machine.",
)
engine_options = option_group(
    setting("namespace"),
    setting("window_tokens"),
    setting("idle_minutes"),
    setting("embedding_url"),
    setting("embedding_model"),
    config_option,
)
summaries_options = option_group(
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
