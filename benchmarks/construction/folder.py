"""The files of a benchmark under construction.

    dialogues/NAME.jsonl   the messages of a channel, from which windows are cut
    answers/MODEL.jsonl    the answers of each annotator: a cassette, from which an interrupted build resumes
    gaps.jsonl             one window per line, written when all windows are annotated
    rejected.jsonl         one rejected candidate per line, with its stage and reason

The files contain chat and what models wrote about it, so only the owner can read the folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from backscroll.benchmarks.construction.stages import AnnotatedGap, AnnotatedWindow, Rejected
from backscroll.benchmarks.data.dialogues import Dialogue, read_channels, record_channel, record_dialogue
from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.operators.messages import DEFAULT_NAMESPACE, ChannelKey, Message, Turn, format_time
from backscroll.operators.stream.windows import Window

__all__ = ["BenchmarkFolder", "ToAnnotate", "read_dialogues", "window_row"]


@dataclass(frozen=True, slots=True)
class ToAnnotate:
    """A window to annotate, with the windows before it."""

    dialogue: str
    window: Window
    history: tuple[Window, ...]

    @property
    def history_tokens(self) -> int:
        """Tokens of all turns before the window."""
        return sum(window.tokens for window in self.history)


def read_dialogues(
    files: Iterable[tuple[Path, str]], *, namespace: str = DEFAULT_NAMESPACE
) -> tuple[dict[str, list[Turn]], int]:
    """Read files, given with their formats, into the live turns of every channel by dialogue name.

    Edits and deletions are applied. Also returns how many entries of the files are not valid messages.

    Raises:
        BenchmarkError: the files contain no messages.
        FormatError: a file cannot be read.
    """
    channels, refused = dict[ChannelKey, list[Message]](), 0
    for path, format_ in files:
        found, wrong = read_channels(path, format_, namespace=namespace)
        refused += wrong
        for key, messages in found.items():
            channels.setdefault(key, []).extend(messages)
    dialogues = {_name(key): list(record_channel(messages, None).turns) for key, messages in channels.items()}
    if not any(dialogues.values()):
        raise BenchmarkError("the files contain no messages: expected at least one chat message")
    return {name: turns for name, turns in dialogues.items() if turns}, refused


@dataclass(frozen=True, slots=True)
class BenchmarkFolder:
    """A folder that a benchmark is built in."""

    path: Path

    def prepare(self, dialogues: dict[str, list[Turn]]) -> dict[str, Dialogue]:
        """Write the dialogues, and read them back cut into windows, as a measurement will.

        Raises:
            BenchmarkError: the folder cannot be written, or contains a benchmark that was not built here.
        """
        if (self.path / "gaps.jsonl").exists() and not self.answers.is_dir():
            raise BenchmarkError(f"{self.path} contains a benchmark not built here: choose another --out")
        try:
            for folder in (self.path, self.path / "dialogues", self.answers):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, turns in dialogues.items():
                _write(self._dialogue(name), (_message(name, turn) for turn in turns))
        except OSError as err:
            raise BenchmarkError(f"cannot write to {self.path}: {err.strerror}") from err
        return {name: record_dialogue(self._dialogue(name), None) for name in dialogues}

    @property
    def answers(self) -> Path:
        """The folder of the annotators' answers."""
        return self.path / "answers"

    def kept_answers(self) -> int:
        """How many answers an earlier run left."""
        return sum(path.read_bytes().count(b"\n") for path in self.answers.glob("*.jsonl"))

    def answers_of(self, annotator: str) -> Path:
        """The cassette of an annotator."""
        return self.answers / f"{quote(annotator, safe='')}.jsonl"

    def write(self, rows: Sequence[tuple[ToAnnotate, AnnotatedWindow]]) -> None:
        """Write `gaps.jsonl` and `rejected.jsonl`, each completely or not at all.

        Raises:
            BenchmarkError: a file cannot be written.
        """
        rejected = (_rejected_row(place, one) for place, found in rows for one in found.rejected)
        try:
            _write(self.path / "rejected.jsonl", rejected)
            _write(self.path / "gaps.jsonl", (window_row(place, found) for place, found in rows))
        except OSError as err:
            raise BenchmarkError(f"cannot write to {self.path}: {err.strerror}") from err

    def _dialogue(self, name: str) -> Path:
        return self.path / "dialogues" / f"{name}.jsonl"


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        file.writelines(orjson.dumps(row) + b"\n" for row in rows)
    partial.replace(path)


def _name(key: ChannelKey) -> str:
    """The channel as a file name, including its namespace unless that is the default."""
    parts = (key.channel,) if key.namespace == DEFAULT_NAMESPACE else (key.channel, key.namespace)
    return "@".join(quote(part, safe=" #+,()") for part in parts)


def _message(dialogue: str, turn: Turn) -> dict[str, Any]:
    author = turn.author
    plain = author.id == author.name and not author.bot
    more = {name: getattr(turn, name) for name in ("thread", "reply_to", "permalink") if getattr(turn, name)}
    return {
        "channel": dialogue,
        "id": turn.id,
        "ts": format_time(turn.ts),
        "author": author.name if plain else {"id": author.id, "name": author.name, "bot": author.bot},
        "text": turn.text,
        **more,
    }


def window_row(place: ToAnnotate, found: AnnotatedWindow) -> dict[str, Any]:
    """A line of `gaps.jsonl`. A gap's distance reaches back to the first turn of its nearest alternative."""
    return {
        "dialogue": place.dialogue,
        "window": place.window.ref.index,
        "ids": [turn.id for turn in place.window.turns],
        "history_tokens": place.history_tokens,
        "window_tokens": place.window.tokens,
        "salient": [turn.id for turn in found.salient],
        "gaps": [_gap_row(gap, _positions(place.history)) for gap in found.gaps],
    }


def _gap_row(gap: AnnotatedGap, before_window: dict[int, int]) -> dict[str, Any]:
    return {
        "utterance": gap.target.turn.id,
        "quote": gap.target.quote,
        "type": gap.target.type,
        "reason": gap.target.reason,
        "evidence": [[turn.id for turn in turns] for turns in gap.evidence],
        "resolution": gap.resolution,
        "distance_tokens": min(before_window[turns[0].seq] for turns in gap.evidence),
        "pass": 1,
    }


def _positions(history: Sequence[Window]) -> dict[int, int]:
    """For every turn of the history, the tokens from its start to the window."""
    positions, tokens = dict[int, int](), 0
    for turn in _backwards(history):
        tokens += turn.tokens
        positions[turn.seq] = tokens
    return positions


def _backwards(history: Sequence[Window]) -> Iterator[Turn]:
    for window in reversed(history):
        yield from reversed(window.turns)


def _rejected_row(place: ToAnnotate, one: Rejected) -> dict[str, Any]:
    return {
        "dialogue": place.dialogue,
        "window": place.window.ref.index,
        "stage": one.stage,
        "reason": one.reason,
        "utterance": one.turn and one.turn.id,
        "quote": one.quote,
        "type": one.type,
        "evidence": None if one.evidence is None else [turn.id for turn in one.evidence],
        "votes": dict(one.votes),
    }
