"""Finds the messages that support each part of a summary.

An extractive line quotes one message, with an earlier one in brackets; both are found verbatim. A
sentence written by a model is attributed to the messages that share its rare words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from math import log

from backscroll.operators.language.lexicon import words
from backscroll.operators.language.sentences import sentences
from backscroll.operators.messages import Turn
from backscroll.operators.summary.record import MemoryEntry, Summary

__all__ = ["Passage", "passages", "quoted_in_brackets"]

_MOST = 3  # messages of one sentence
_LEAST_SHARE = 0.25  # of a sentence's weight, for one more message
_NAME = 40  # characters that an extractive line shows of a name
_LINES = re.compile(r"[^\n]+")
_HEAD = re.compile(r"(?:(?:\d{4}-)?\d\d-\d\d )?(\d\d:\d\d) ")


@dataclass(frozen=True, slots=True)
class Passage:
    """Characters `start` to `end` of a summary, and the turns (by `seq`) that support them.

    `earlier` is true if they quote the memory, not the window. Empty `seqs` mean that the passage
    shares no word with any message, so that only the window as a whole can be cited.
    """

    start: int
    end: int
    seqs: tuple[int, ...]
    earlier: bool = False


def passages(summary: Summary, turns: Sequence[Turn], zone: tzinfo = UTC) -> tuple[Passage, ...]:
    """The passages of a summary, in order, not overlapping.

    Args:
        summary: the record.
        turns: the current turns of its window.
        zone: the time zone that its times were probably written in. It decides between messages with the
            same words.
    """
    found = list[Passage]()
    overlap = _Overlap(turns, summary.memory)
    for line in _LINES.finditer(summary.summary):
        said = _said(line.group(), turns, zone) if summary.kind == "extractive" else None
        if said is not None:
            found += _quoted(line, *said, summary.memory, zone)
            continue
        for start, end in sentences(line.group()):
            seqs = overlap.cited(line.group()[start:end])
            found.append(Passage(line.start() + start, line.start() + end, seqs))
    return tuple(found)


def quoted_in_brackets(summary: Summary) -> frozenset[int]:
    """The turns (by `seq`) in memory that an extractive summary quotes in brackets."""
    if summary.kind != "extractive":
        return frozenset()
    return frozenset(entry.seq for entry in summary.memory if any(_notes(summary.summary, 0, entry, UTC)))


def _said(line: str, turns: Sequence[Turn], zone: tzinfo) -> tuple[int, Turn] | None:
    """Where the quoted words of an extractive line begin, and the turn they come from."""
    time = _HEAD.match(line)
    fitting = list[tuple[tuple[int, bool], int, Turn]]()
    for turn in turns:
        if time is None or not _may_be(time[1], turn.ts):
            continue
        head = time.group() + _spaced(f"{turn.author.name[:_NAME]}:") + " "
        if line.startswith(head):
            shared = _shared(line[len(head) :], _spaced(turn.text))
            fitting.append(((shared, _clock(turn.ts, zone) == time[1]), len(head), turn))
    best = max(fitting, key=lambda item: item[0], default=None)
    return None if best is None else best[1:]


def _may_be(shown: str, ts: datetime) -> bool:
    """Whether a time can look like this in some time zone: offsets are multiples of 15 minutes."""
    return (int(shown[3:]) - ts.minute) % 15 == 0


def _clock(ts: datetime, zone: tzinfo) -> str:
    return f"{ts.astimezone(zone):%H:%M}"


def _quoted(
    line: re.Match[str], start: int, turn: Turn, memory: Sequence[MemoryEntry], zone: tzinfo
) -> Iterator[Passage]:
    """The parts of an extractive line: the turn's words, and the earlier words in brackets."""
    text, at = line.group(), line.start()
    notes = sorted({note for entry in memory for note in _notes(text, start, entry, zone)})
    for first, last, _, seq in notes:
        if first < start:
            continue
        if text[start:first].strip():
            yield Passage(at + start, at + first, (turn.seq,))
        yield Passage(at + first, at + last, (seq,), earlier=True)
        start = last
    if text[start:].strip():
        yield Passage(at + start, at + len(text), (turn.seq,))


def _notes(text: str, start: int, entry: MemoryEntry, zone: tzinfo) -> Iterator[tuple[int, int, bool, int]]:
    """The bracketed quotes of a memory entry in a line: start, end, a flag and the entry's `seq`.

    The flag is true if the time shown is not the entry's time in `zone`. Sorting by it puts the entry with
    the right time before others with the same words.
    """
    name, words_ = re.escape(_spaced(entry.author[:_NAME])), _spaced(entry.text)
    head = re.compile(rf"\[{name}, (?:\d{{4}}-\d\d-\d\d )?(\d\d:\d\d): ")
    for match in head.finditer(text, start):
        if not _may_be(match[1], entry.ts):
            continue
        ends = [
            at for at in _all(text, "]", match.end()) if text[match.end() : at].removesuffix(" …") in words_
        ]
        if ends:
            yield match.start(), ends[-1] + 1, match[1] != _clock(entry.ts, zone), entry.seq


def _all(text: str, mark: str, start: int) -> Iterator[int]:
    while (start := text.find(mark, start)) >= 0:
        yield start
        start += 1


def _shared(line: str, text: str) -> int:
    """How many leading words of a line occur consecutively in a text."""
    parts = line.split(" ")
    low, high = 0, len(parts)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if " ".join(parts[:middle]) in text else (low, middle - 1)
    return low


def _spaced(text: str) -> str:
    return " ".join(text.split())


class _Overlap:
    """Finds the messages that share a sentence's rare words: as few as possible that cover most of it."""

    def __init__(self, turns: Sequence[Turn], memory: Sequence[MemoryEntry]) -> None:
        texts = [(turn.seq, turn.rendered) for turn in turns if not turn.deleted]
        texts += [(entry.seq, f"{entry.author}: {entry.text}") for entry in memory]
        self._stems = [(seq, {word.stem for word in words(text)}) for seq, text in texts]
        counts = Counter(stem for _, stems in self._stems for stem in stems)
        self._rarity: Mapping[str, float] = {
            stem: log((len(self._stems) + 1) / count) for stem, count in counts.items()
        }

    def cited(self, sentence: str) -> tuple[int, ...]:
        """The turns, in channel order; at most three."""
        left = {word.stem for word in words(sentence)} & self._rarity.keys()
        least = _LEAST_SHARE * self._weight(left)
        chosen = list[int]()
        while left and len(chosen) < _MOST:
            seq, stems = max(self._stems, key=lambda item: (self._weight(item[1] & left), item[0]))
            if not stems & left or (chosen and self._weight(stems & left) < least):
                break
            chosen.append(seq)
            left -= stems
        return tuple(sorted(set(chosen)))

    def _weight(self, stems: set[str]) -> float:
        return sum(self._rarity[stem] for stem in sorted(stems))
