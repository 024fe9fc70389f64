"""`backscroll catchup`: what happened in channels while the user was away."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Literal

from rich.console import Console

from backscroll.connectors.files.formats import check_file
from backscroll.flows.assembly.embedder import make_embedder, packaged_vectors
from backscroll.flows.commands.catchup_channels import read_channels
from backscroll.flows.settings.settings import Settings
from backscroll.flows.settings.time_zones import shown_zone, time_zone
from backscroll.flows.terminal.digest_text import Form, nothing_new
from backscroll.flows.terminal.errors import UserError, report_user_errors
from backscroll.flows.terminal.progress import left_out
from backscroll.operators.acts.classifier import ActModel
from backscroll.operators.catchup.catch_up import Embed, catch_up, in_span
from backscroll.operators.catchup.context import ContextFinder
from backscroll.operators.catchup.digest import ChannelDigest, ChannelRead, Suggested
from backscroll.operators.catchup.digest_json import to_json
from backscroll.operators.catchup.people import Person
from backscroll.operators.catchup.period import Period, PeriodError, parse_period
from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.language.chat_language import main_book
from backscroll.operators.language.salience import analyse_turns
from backscroll.operators.memory.registry import get as get_strategy
from backscroll.operators.memory.request import MemoryParameters, Retrieval
from backscroll.operators.messages import ChannelKey, channels_called
from backscroll.operators.stream.windows import WindowCutter

__all__ = ["digest_channels", "make_recalling", "run_catchup"]

_LAST = 40  # recent messages that decide the language if none is new
_CLOSED = "a store holds only closed windows: pass later messages with --file"


def run_catchup(
    settings: Settings,
    channel: str | None,
    *,
    files: Sequence[Path],
    format: str,
    since: str,
    until: str | None,
    me: str | None,
    max_tokens: int,
    form: Literal["text", "markdown", "json"],
) -> int:
    """Print what happened in one channel or in all of them; returns the exit code.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    if settings.store is None and not files:
        raise UserError("catchup needs something to read: use --store, --file or both")
    asked = settings
    if settings.store is None and "embedding_model" not in settings.model_fields_set:
        settings = settings.model_copy(update={"embedding_model": "none"})
    console = Console(stderr=True, highlight=False)
    zone, zone_name = shown_zone(settings.tz)
    counters = Counter[str]()
    with report_user_errors():
        named = [(path, check_file(path, format, _file_zone(settings))) for path in files]
        embedder = None if settings.store is None else make_embedder(settings)
        if embedder is None:
            settings = settings.model_copy(update={"embedding_model": "none"})
        channels = read_channels(
            settings,
            named,
            wanted=lambda key: channel is None or bool(channels_called([key], channel)),
            embedder=embedder,
            counters=counters,
        )
        if channel is not None:  # where `dock` and `#dock` were both read, the exact name wins
            called = channels_called((one.key for one in channels), channel)
            channels = [one for one in channels if one.key in called]
        _check(channels, channel, settings, files)
        try:
            found = parse_period(
                since, until, {one.key: one.turns for one in channels}, now=datetime.now(UTC), zone=zone
            )
        except PeriodError as err:
            beyond = "" if files else f" ({_CLOSED})"
            raise UserError(f"{err}{beyond}") from err
        person = None if me is None else _person(me, channels, console)
        recalling = make_recalling(settings, embedder)
        digests = digest_channels(
            channels,
            found,
            settings,
            recalling=recalling,
            me=person,
            max_tokens=max_tokens,
            zone=zone,
            embed=packaged_vectors(asked, embedder),
        )
    quiet = [one.key for one in channels if one.key not in {digest.key for digest in digests}]
    name = None if person is None else person.name
    with suppress(BrokenPipeError):
        if form == "json":
            _print(to_json(digests, found, time_zone=zone_name, me=name, quiet=quiet).decode())
        elif digests:
            _print(Form(zone, zone_name, name, markdown=form == "markdown").digests(digests, quiet))
        else:
            said = [turn for one in channels for turn in one.turns[-_LAST:]]
            newest = max((turn.ts for turn in said), default=None)
            _print(nothing_new(found, main_book(analyse_turns(said)), zone, zone_name, newest))
    for line in left_out(counters, {"invalid lines skipped": counters["dead_letters"]}):
        if not line.startswith("0 "):
            console.print(line, markup=False)
    return 0


def digest_channels(
    channels: Sequence[ChannelRead],
    found: Period,
    settings: Settings,
    *,
    recalling: ContextFinder,
    me: Person | None,
    max_tokens: int,
    zone: tzinfo,
    embed: Embed | None = None,
    acts: ActModel | None = None,
) -> list[ChannelDigest]:
    """The digests of channels, with the language model of the settings if there is one.

    `embed` gives messages the vectors that tell more of what they do, and `acts` replaces the packaged
    models for that.

    Raises:
        LLMSetupError: the language model cannot be used.
    """
    suggested = dict[ChannelKey, Suggested]()
    if settings.llm is not None:
        from backscroll.flows.assembly.language_model import open_model
        from backscroll.operators.catchup.model_items import suggest

        chosen = open_model(settings, ("--summary-model",) * 2)

        async def ask() -> None:
            try:
                for one in channels:
                    missed = [turn for turn in in_span(one, found) if not turn.deleted]
                    if len(missed) > 1:  # a single message is quoted
                        suggested[one.key] = await suggest(
                            chosen.llm,
                            one,
                            missed,
                            model=chosen.summary_model,
                            max_tokens=max_tokens,
                            zone=zone,
                        )
            finally:
                if chosen.aclose is not None:
                    await chosen.aclose()

        asyncio.run(ask())
    return catch_up(
        channels,
        found,
        recalling=recalling,
        me=me,
        max_tokens=max_tokens,
        zone=zone,
        cutter=WindowCutter(settings.window_tokens, settings.window_turns),
        suggested=suggested,
        embed=embed,
        acts=acts,
    )


def _file_zone(settings: Settings) -> tzinfo | None:
    return None if settings.tz is None else time_zone(settings.tz)


def make_recalling(settings: Settings, embedder: Embedder | None) -> ContextFinder:
    """A finder of evidence for messages that have no summary yet."""
    strategy = get_strategy(settings.strategy)
    if embedder is None and strategy.needs.vectors:
        strategy = get_strategy("backscroll")  # files have no vectors
    retrieval = Retrieval(settings.top_k, settings.rrf_constant, settings.chunk_tokens)
    return ContextFinder(RulesDetector(), strategy, MemoryParameters(embedder, settings.budget, retrieval))


def _check(
    channels: Sequence[ChannelRead], name: str | None, settings: Settings, files: Sequence[Path]
) -> None:
    where = " and ".join([*([f"store {settings.store}"] if settings.store else []), *map(str, files)])
    if not channels and name is not None:
        raise UserError(f"no channel {name!r} in {where}: leave it out to see all channels")
    if len(channels) > 1 and name is not None:
        names = ", ".join(str(one.key) for one in channels)
        raise UserError(f"channel {name!r} is in several namespaces: use one of {names}")


def _person(name: str, channels: Sequence[ChannelRead], console: Console) -> Person:
    authors = {turn.author.id: turn.author for one in channels for turn in one.turns if not turn.deleted}
    person = Person.named(name, authors.values())
    if not person.ids:
        console.print(
            f"nobody named {name!r} has written here: only mentions of that name can be found", markup=False
        )
    return person


def _print(text: str) -> None:
    """Write text as UTF-8, whatever the terminal's locale; lone surrogates are escaped."""
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.buffer.flush()
