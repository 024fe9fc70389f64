"""`backscroll bench absences`: make the catch-ups of annotated absences as `catchup --file` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from backscroll.benchmarks.absences.command import MOST_IDS, CatchUp, bench_absences
from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.flows.assembly.embedder import packaged_vectors
from backscroll.flows.commands.bench import check_folders
from backscroll.flows.commands.catchup import digest_channels, make_recalling
from backscroll.flows.commands.catchup_channels import read_channels
from backscroll.flows.settings.settings import Settings
from backscroll.flows.settings.time_zones import shown_zone
from backscroll.flows.terminal.errors import report_user_errors
from backscroll.operators.acts.classifier import ActModel
from backscroll.operators.catchup.digest import ChannelDigest
from backscroll.operators.catchup.people import Person
from backscroll.operators.catchup.period import parse_period
from backscroll.operators.messages import Message

__all__ = ["make_catch_up", "run_absences"]


def run_absences(
    paths: Sequence[Path],
    settings: Settings,
    *,
    dialogues: Sequence[Path],
    max_tokens: int,
    json: Path | None,
    acts: Path | None = None,
) -> int:
    """Score the catch-ups of annotated absences; returns 1 if a line cites too many messages, else 0.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    check_folders(json)
    with report_user_errors():
        wrong = bench_absences(
            paths, dialogues, make_catch_up(settings, max_tokens, acts), max_tokens=max_tokens, json=json
        )
    if wrong:
        more = f", and so have {len(wrong) - 1} more" if len(wrong) > 1 else ""
        Console(stderr=True, highlight=False).print(
            f"{wrong[0]}{more}: a line may cite {MOST_IDS} at most", markup=False, soft_wrap=True
        )
    return int(bool(wrong))


def make_catch_up(settings: Settings, max_tokens: int, acts: Path | None = None) -> CatchUp:
    """Catch-ups of at most `max_tokens`, as `catchup --file` makes them with these settings.

    `acts` is a folder with a file of act weights for each dialogue, in place of the packaged ones.
    """
    embed = packaged_vectors(settings, None)
    settings = settings.model_copy(update={"store": None, "embedding_model": "none"})
    zone, _ = shown_zone(settings.tz)

    def catch_up(
        messages: Sequence[Message], *, since: str, until: str, me: str, dialogue: str = ""
    ) -> list[ChannelDigest]:
        model = None
        if acts is not None:
            weights = acts / f"{dialogue}.json"
            if not weights.is_file():
                raise BenchmarkError(f"no weights {weights}: train them with --leave-out {dialogue}")
            model = ActModel.read(weights, vectors=embed is not None)
        channels = read_channels(
            settings, (), wanted=lambda _: True, embedder=None, counters=Counter(), beyond=messages
        )
        turns = {one.key: one.turns for one in channels}
        authors = [turn.author for of_one in turns.values() for turn in of_one if not turn.deleted]
        return digest_channels(
            channels,
            parse_period(since, until, turns, now=datetime.now(UTC), zone=zone),
            settings,
            recalling=make_recalling(settings, None),
            me=Person.named(me, authors),
            max_tokens=max_tokens,
            zone=zone,
            embed=embed,
            acts=model,
        )

    return catch_up
