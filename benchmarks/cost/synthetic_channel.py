"""Generate a channel of any size by repeating real dialogues, each time about other things.

In each repetition the most common words stay, and every other word of a dialogue is replaced consistently,
so that related messages stay related. Replacements come from a Pitman-Yor process over all words so far:
frequent words are reused, and with a falling probability a new word is invented. So the vocabulary grows as
in real text, as a power of the length (Heaps' law), with the exponent measured in the dialogues.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from backscroll.benchmarks.data.dialogues import dialogue_files
from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.connectors.files.formats import read_file
from backscroll.operators.language.tokens import count
from backscroll.operators.messages import ChannelKey, Message, MessageError, Turn, parse_message
from backscroll.operators.stream.windows import Cutting, Window, WindowCutter, WindowRef

__all__ = ["CHANNEL", "grown_windows", "heaps_exponent", "read_dialogues"]

CHANNEL = ChannelKey("bench", "grown")
_WORD = re.compile(r"[^\W\d_]{3,}")
_COMMON = 400  # words that stay
_STRENGTH = 10.0  # of the process; its discount is the exponent of Heaps' law
_BETWEEN = timedelta(hours=12)


def read_dialogues(paths: Iterable[Path]) -> list[list[Message]]:
    """The posted messages of dialogue files in any known format, or of all dialogue files in a folder.

    Raises:
        BenchmarkError: they contain no messages.
        FormatError: a file cannot be read.
    """
    dialogues = []
    for file in dialogue_files(paths):
        values = [received.value for received in read_file(file)]
        messages = [parse_message(value) for value in values if not isinstance(value, MessageError)]
        dialogues.append([message for message in messages if message.op == "post"])
    dialogues = [dialogue for dialogue in dialogues if dialogue]
    if not dialogues:
        raise BenchmarkError("the dialogues contain no messages")
    return dialogues


def heaps_exponent(dialogues: Sequence[Sequence[Message]]) -> float:
    """The exponent of Heaps' law for the dialogues' vocabulary, by least squares."""
    seen, lengths, sizes = set[str](), list[int](), list[int]()
    length = 0
    for message in (message for dialogue in dialogues for message in dialogue):
        words = _WORD.findall(message.text.lower())
        seen.update(words)
        length += len(words)
        if words:
            lengths.append(length)
            sizes.append(len(seen))
    later = slice(len(lengths) // 10, None)
    slope = np.polyfit(np.log(lengths[later]), np.log(sizes[later]), 1)[0] if len(lengths) > 10 else 0.6
    return float(np.clip(slope, 0.3, 0.9))


@dataclass(slots=True)
class _Words:
    """A Pitman-Yor process over words, with the number of draws of each."""

    discount: float
    source: Sequence[str]
    random: random.Random
    drawn: list[str]
    known: set[str]

    def draw(self) -> str:
        new = (_STRENGTH + self.discount * len(self.known)) / (_STRENGTH + len(self.drawn))
        word = self._coin() if self.random.random() < new else self.random.choice(self.drawn)
        self.drawn.append(word)
        return word

    def see(self, words: Iterable[str]) -> None:
        words = list(words)
        self.drawn.extend(words)
        self.known.update(words)

    def _coin(self) -> str:
        while True:
            one, other = self.random.choice(self.source), self.random.choice(self.source)
            word = one[: self.random.randint(2, len(one))] + other[self.random.randint(0, len(other) - 1) :]
            if word not in self.known:
                self.known.add(word)
                return word


def grown_windows(
    dialogues: Sequence[Sequence[Message]], tokens: int, *, seed: int = 0, key: ChannelKey = CHANNEL
) -> Iterator[Window]:
    """The closed windows of one channel of about `tokens` tokens; deterministic for a seed."""
    cutting = Cutting(WindowCutter(), key)
    nothing = _Nothing()
    total = 0
    for turn in _turns(dialogues, seed):
        cutting, closed = cutting.push(turn, nothing)
        yield from closed
        total += turn.tokens
        if total >= tokens:
            break
    yield from cutting.flush(nothing)[1]


def _turns(dialogues: Sequence[Sequence[Message]], seed: int) -> Iterator[Turn]:
    frequency = Counter(
        word for dialogue in dialogues for message in dialogue for word in _WORD.findall(message.text.lower())
    )
    common = {word for word, _ in frequency.most_common(_COMMON)}
    source = sorted(set(frequency) - common) or sorted(common)
    process = _Words(heaps_exponent(dialogues), source, random.Random(seed), [], set())
    seq, repetition, clock = 0, 0, dialogues[0][0].ts
    while True:
        for dialogue in dialogues:
            words = dict[str, str]()
            start, last = clock, clock
            for message in dialogue:
                text = _varied(message.text, repetition, words, common, process)
                last = clock = max(last, start + (message.ts - dialogue[0].ts))
                author = message.author
                rendered = count(f"{author.name}: {text}\n")
                yield Turn(seq, f"m{seq}", clock, author, text, rendered, replace(message, text=text).digest)
                seq += 1
            clock += _BETWEEN
        repetition += 1


def _varied(text: str, repetition: int, words: dict[str, str], common: set[str], process: _Words) -> str:
    """The text of this repetition; `words` maps the words of the source to those of the repetition."""

    def replaced(match: re.Match[str]) -> str:
        word = match.group()
        lower = word.lower()
        if lower in common:
            return word
        if lower not in words:
            if repetition:
                words[lower] = process.draw()
            else:
                words[lower] = lower
                process.see([lower])
        now = words[lower]
        if now == lower:
            return word
        return now if word == lower else now.capitalize()

    return _WORD.sub(replaced, text)


class _Nothing:
    """No boundary is recorded."""

    recorded_until = 0
    windows: Sequence[WindowRef] = ()

    def window_of(self, seq: int) -> WindowRef:
        raise IndexError(seq)
