"""The engine on a live chat platform, as a command: Slack or Matrix in, summaries out, until stopped.

The platform's listener, the engine and the store run in one process. No broker is needed; if you set
one, summaries go to its topics.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import SecretStr
from rich.console import Console

from backscroll.flows.running.monitoring import monitored
from backscroll.flows.running.service import check_store, until_stopped
from backscroll.flows.running.signals import StopSignal
from backscroll.flows.settings.settings import ENV_PREFIX, Settings
from backscroll.flows.settings.time_zones import shown_zone
from backscroll.flows.terminal.errors import UserError, report_user_errors
from backscroll.flows.terminal.log_setup import set_up_logging
from backscroll.flows.terminal.progress import report, show_progress
from backscroll.flows.terminal.results import FileResults

if TYPE_CHECKING:
    from backscroll.connectors.chat.listener import Platform
    from backscroll.operators.index.embedder import Embedder

__all__ = ["PlatformName", "run_chat"]

PlatformName = Literal["slack", "matrix"]


def run_chat(
    settings: Settings,
    platform: PlatformName,
    *,
    out: Path | None,
    form: Literal["auto", "cards", "jsonl"],
) -> int:
    """Run the engine on a live platform; returns the exit code.

    Args:
        settings: the engine's settings; they need a store, and the platform's tokens.
        platform: what to listen to.
        out: JSON Lines file to append summaries to. If None, they go to the topics if the settings name
            brokers, otherwise to standard output.
        form: the form of summaries on standard output.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    console = Console(stderr=True, highlight=False)
    set_up_logging()
    check_store(settings)
    _check(settings, platform)
    counters: Counter[str] = Counter()
    started = time.monotonic()
    letters = (out.parent if out else Path()) / "dead-letters.jsonl"
    refused: Path | str = letters
    reasons: Mapping[str, int] = {}
    with report_user_errors(), ExitStack() as stack:
        results: FileResults | None = None
        if out is None and "kafka_brokers" in settings.model_fields_set:
            refused = f"topic {settings.kafka_dead_letters}"
        else:
            zone, zone_name = shown_zone(settings.tz)
            results = stack.enter_context(
                FileResults(out, letters, _shown(form), append=True, zone=zone, zone_name=zone_name)
            )
            reasons = results.reasons
        with show_progress(console, counters, None):
            _run(settings, platform, results, counters)
    report(console, counters, seconds=time.monotonic() - started, dead_letters=refused, reasons=reasons)
    return 0


def _shown(form: Literal["auto", "cards", "jsonl"]) -> Literal["cards", "jsonl"]:
    if form != "auto":
        return form
    return "cards" if sys.stdout.isatty() else "jsonl"


def _run(
    settings: Settings, platform: PlatformName, results: FileResults | None, counters: Counter[str]
) -> None:
    from backscroll.connectors.chat.listener import Listener
    from backscroll.connectors.chat.source import InboxSource
    from backscroll.flows.assembly.engine import open_engine
    from backscroll.flows.running.dataflow import ResultSinks
    from backscroll.flows.running.live import run_live, to_topics_flow
    from backscroll.flows.running.recovery import prepare_recovery, recovery_directory
    from backscroll.flows.summarize import summarize_flow
    from backscroll.operators.runtime.runtime import Runtime

    path = recovery_directory(settings) / f"{platform}.inbox"
    stop = StopSignal()
    runtime = Runtime(counters=counters, stopping=stop, raises=False)
    with open_engine(settings, runtime=runtime) as engine:
        prepare_recovery(settings, 1)
        listener = Listener(platform, _platform(settings, platform, engine.histories.embedder, path), path)

        with until_stopped(runtime, stop), monitored(settings, upstream=listener) as watch:
            runtime.liveness.begin()
            watch.follow(lambda: {0: runtime.progress.latest}, stop)
            source = InboxSource(
                listener,
                feed=engine.feed,
                lateness=engine.config.lateness,
                keep=timedelta(days=settings.inbox_days),
            )
            if results is None:
                flow = to_topics_flow(engine, settings, source)
            else:
                sinks = ResultSinks(engine, results)
                flow = summarize_flow(engine, source, sinks.summaries, sinks.dead_letters)
            run_live(engine, settings, {"process_id": None, "addresses": None}, flow)
            runtime.raise_failure()


def _check(settings: Settings, platform: PlatformName) -> None:
    """Check that the extra is installed and the tokens are set.

    Raises:
        UserError: something is missing; the text names it.
    """
    try:
        if platform == "slack":
            import backscroll.connectors.chat.slack.live
        else:
            import backscroll.connectors.chat.matrix.live  # noqa: F401
    except ModuleNotFoundError as err:
        if (err.name or "").partition(".")[0] == "backscroll":
            raise
        raise UserError(
            f"--from {platform} needs the package {err.name}: pip install 'backscroll[{platform}]'"
        ) from err
    needed = {
        "slack": ("slack_app_token", "slack_bot_token"),
        "matrix": ("matrix_homeserver", "matrix_access_token"),
    }
    missing = [f"{ENV_PREFIX}{name.upper()}" for name in needed[platform] if not getattr(settings, name)]
    if missing:
        raise UserError(f"--from {platform} needs {' and '.join(missing)}: set it in the environment")


def _platform(settings: Settings, name: PlatformName, embedder: Embedder | None, inbox: Path) -> Platform:
    from backscroll.connectors.chat.listener import OptOut
    from backscroll.flows.commands.chat_catchup import ChatCatchup, SlackForm
    from backscroll.flows.terminal.digest_text import Form

    backfill, opt_out = timedelta(days=settings.backfill_days), OptOut(settings.opt_out_word)
    form = SlackForm if name == "slack" else Form
    answer = ChatCatchup(settings, embedder, inbox, form).answer
    if name == "slack":
        from backscroll.connectors.chat.slack.live import SlackLive

        return SlackLive(
            settings.slack_app_token or SecretStr(""),
            settings.slack_bot_token or SecretStr(""),
            backfill,
            opt_out,
            answer,
            settings.slack_api_url,
        )
    from backscroll.connectors.chat.matrix.live import MatrixLive

    return MatrixLive(
        settings.matrix_homeserver or "",
        settings.matrix_access_token or SecretStr(""),
        backfill,
        opt_out,
        answer,
    )
