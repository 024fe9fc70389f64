"""`backscroll bench absences`, apart from its options."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import orjson

from backscroll.benchmarks.absences.annotations import Absence, read_absences
from backscroll.benchmarks.absences.report import absence_table
from backscroll.benchmarks.absences.scoring import Score, score, total
from backscroll.benchmarks.data.dialogues import read_messages
from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.benchmarks.memory.report import wide_console
from backscroll.benchmarks.progress import progress
from backscroll.operators.catchup.digest import ChannelDigest
from backscroll.operators.messages import NOBODY, Message

__all__ = ["MOST_IDS", "CatchUp", "bench_absences"]

MOST_IDS = 3  # a line cites the messages whose words it shows: a question and its answer are two


class CatchUp(Protocol):
    """Makes a catch-up from the messages up to the end of an absence."""

    def __call__(
        self, messages: Sequence[Message], *, since: str, until: str, me: str, dialogue: str
    ) -> Sequence[ChannelDigest]:
        """What happened in a dialogue from the message or time `since` up to the message `until`."""


def bench_absences(
    paths: Sequence[Path],
    folders: Sequence[Path],
    catch_up: CatchUp,
    *,
    max_tokens: int,
    json: Path | None = None,
) -> list[str]:
    """Score the catch-ups of annotated absences, print a table for each file, and write the figures.

    Args:
        paths: annotated files, or folders of them.
        folders: where the dialogues are, besides `dialogues` next to each file.
        catch_up: makes a catch-up of at most `max_tokens`.
        max_tokens: the size of a catch-up, for the report.
        json: the file for the figures.

    Returns:
        The absences with a line that cites more than three messages, each with the reason.

    Raises:
        BenchmarkError: a file cannot be used, or a dialogue lacks an annotated message.
        FormatError: a dialogue cannot be read.
    """
    absences = {file: read_absences(file) for file in _files(paths)}
    dialogues = {
        (file, one.dialogue): _dialogue(one.dialogue, [file.parent / "dialogues", *folders], file)
        for file, of_file in absences.items()
        for one in of_file
    }
    read = cache(read_messages)
    scores = dict[Path, list[Score]]()
    wrong = list[str]()
    with progress("absences", sum(map(len, absences.values()))) as step:
        for file, of_file in absences.items():
            for absence in of_file:
                path = dialogues[file, absence.dialogue]
                one = _score(absence, read(path)[0], path, catch_up)
                scores.setdefault(file, []).append(one)
                if one.most_ids > MOST_IDS:
                    wrong.append(f"{absence.name} has a line with {one.most_ids} message ids")
                step()
    totals = {file: total(of_file) for file, of_file in scores.items()}
    everything = total(list(totals.values()))
    for file, one in totals.items():
        _show(file.name, one, max_tokens)
    if len(totals) > 1:
        _show("all files", everything, max_tokens)
    if json is not None:
        fields = {
            "max_tokens": max_tokens,
            "files": {str(file): one.to_json() for file, one in totals.items()},
            "all": everything.to_json(),
        }
        json.write_bytes(orjson.dumps(fields, option=orjson.OPT_INDENT_2) + b"\n")
    return wrong


def _files(paths: Sequence[Path]) -> list[Path]:
    """The files, with each folder replaced by the JSON Lines files directly in it."""
    found = list[Path]()
    for path in paths:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not files:
            raise BenchmarkError(f"{path} contains no annotated absences: expected .jsonl files")
        found += files
    return list(dict.fromkeys(found))


def _dialogue(name: str, folders: Sequence[Path], file: Path) -> Path:
    found = next((path for folder in folders if (path := folder / f"{name}.jsonl").is_file()), None)
    if found is None:
        where = ", ".join(map(str, folders))
        raise BenchmarkError(f"{file}: no dialogue {name}.jsonl in {where}: name its folder with --dialogues")
    return found


def _score(absence: Absence, messages: Sequence[Message], path: Path, catch_up: CatchUp) -> Score:
    places = dict[str, int]()
    for place, message in enumerate(messages):
        places.setdefault(message.id, place)  # an edit has the id of what it edits
    missing = sorted({absence.first, absence.last, *absence.ids} - set(places))
    if missing:
        raise BenchmarkError(f"{path} has no message {missing[0]!r}, which {absence.name} names")
    first, last = places[absence.first], places[absence.last]
    if last < first:
        raise BenchmarkError(f"{path}: {absence.name} ends before it starts")
    digests = catch_up(
        messages[: last + 1],
        since=messages[first - 1].id if first else messages[0].ts.isoformat(),
        until=absence.last,
        me=absence.reader,
        dialogue=absence.dialogue,
    )
    authors = {message.author.id for message in messages if message.author != NOBODY}
    return score(absence, digests, pair=len(authors) == 2)


def _show(name: str, figures: Score, max_tokens: int) -> None:
    console = wide_console()
    count = f"{figures.absences} absence{'' if figures.absences == 1 else 's'}"
    console.print(absence_table(figures, f"{name}: {count}, {max_tokens} tokens each"))
    if figures.degraded:
        console.print(f"by rules because the model failed: {figures.degraded} of {figures.absences}")
