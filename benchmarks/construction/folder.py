"""The files of a benchmark under construction.

    dialogues/NAME.jsonl   the messages of a channel, as windows are cut from them
    answers/MODEL.jsonl    what each annotator answered: a cassette, and all that an interrupted build needs
    gaps.jsonl             a window a line, written when all are annotated
    rejected.jsonl         a rejected candidate a line, with its stage and reason

They hold chat, and what models wrote about it: the folder is readable by its owner alone.
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
    """A window of a dialogue that is to be annotated, with the windows before it."""

    dialogue: str
    window: Window
    history: tuple[Window, ...]

    @property
    def history_tokens(self) -> int:
        """Of all turns before the window."""
        return sum(window.tokens for window in self.history)


def read_dialogues(
    files: Iterable[tuple[Path, str]], *, namespace: str = DEFAULT_NAMESPACE
) -> tuple[dict[str, list[Turn]], int]:
    """The live turns of every channel of files with their formats, by the dialogue's name.

    Edits and deletions are applied. Also returns how many entries of the files are no messages.

    Raises:
        BenchmarkError: there is no message.
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
        raise BenchmarkError("the files hold no message")
    return {name: turns for name, turns in dialogues.items() if turns}, refused


@dataclass(frozen=True, slots=True)
class BenchmarkFolder:
    """A folder that a benchmark is built in."""

    path: Path

    def prepare(self, dialogues: dict[str, list[Turn]]) -> dict[str, Dialogue]:
        """Write the dialogues, and read them as measuring will: cut into windows.

        Raises:
            BenchmarkError: the folder cannot be written, or holds a benchmark from elsewhere.
        """
        if (self.path / "gaps.jsonl").exists() and not self.answers.is_dir():
            raise BenchmarkError(f"{self.path} holds a benchmark that was not built here: name another --out")
        try:
            for folder in (self.path, self.path / "dialogues", self.answers):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, turns in dialogues.items():
                _write(self._dialogue(name), (_message(name, turn) for turn in turns))
        except OSError as err:
            raise BenchmarkError(f"{self.path} cannot be written: {err.strerror}") from err
        return {name: record_dialogue(self._dialogue(name), None) for name in dialogues}

    @property
    def answers(self) -> Path:
        """Where the answers of annotators are kept."""
        return self.path / "answers"

    def kept_answers(self) -> int:
        """How many answers an earlier run has left."""
        return sum(path.read_bytes().count(b"\n") for path in self.answers.glob("*.jsonl"))

    def answers_of(self, annotator: str) -> Path:
        """The cassette of an annotator."""
        return self.answers / f"{quote(annotator, safe='')}.jsonl"

    def write(self, rows: Sequence[tuple[ToAnnotate, AnnotatedWindow]]) -> None:
        """Write `gaps.jsonl` and `rejected.jsonl`, each as a whole.

        Raises:
            BenchmarkError: they cannot be written.
        """
        rejected = (_rejected_row(place, one) for place, found in rows for one in found.rejected)
        try:
            _write(self.path / "rejected.jsonl", rejected)
            _write(self.path / "gaps.jsonl", (window_row(place, found) for place, found in rows))
        except OSError as err:
            raise BenchmarkError(f"{self.path} cannot be written: {err.strerror}") from err

    def _dialogue(self, name: str) -> Path:
        return self.path / "dialogues" / f"{name}.jsonl"


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        file.writelines(orjson.dumps(row) + b"\n" for row in rows)
    partial.replace(path)


def _name(key: ChannelKey) -> str:
    """The channel as a file name; with its namespace where it has one of its own."""
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
    """A line of `gaps.jsonl`; a gap's distance is that of its nearest alternative, as a whole."""
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
    """For every turn of the history the tokens from its beginning to the window."""
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
