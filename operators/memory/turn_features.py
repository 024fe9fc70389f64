"""The turns of a channel as features for the evidence ranker, computed and cached by window.

A window's rows depend only on its own turns. So the rows of any windows together equal a fresh index
of those windows, a window that is never used costs nothing, and an edit invalidates just one window.
In a long history only the most recently used windows stay cached.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.gaps.rules import context_dependence
from backscroll.operators.history.channel import AsOf
from backscroll.operators.history.window_index import ReadTurns
from backscroll.operators.index.arrays import GrowingArray
from backscroll.operators.language.lexicon import WORD, spaced_lexicons, stem
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import Window

__all__ = ["COLUMNS", "TurnFeatures", "TurnRows", "stems", "window_columns"]

_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|my|me|we|our)\b", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_QUESTION = re.compile(r"[?？]")
COLUMNS = (
    *("tokens", "time", "author", "terms", "question", "first_person", "digit", "code"),
    *("salience", "leaning"),
)
_TERM_BYTES = 160  # of a term and its number


def stems(text: str) -> list[str]:
    """The stems of the content words, in order."""
    stop = _stop_words()
    return [stem(word) for word in WORD.findall(text.lower()) if len(word) > 1 and word not in stop]


@cache
def _stop_words() -> frozenset[str]:
    """The stop words of all languages."""
    return frozenset().union(*(lexicon.function | lexicon.empty for lexicon in spaced_lexicons()))


@dataclass(frozen=True, slots=True)
class TurnRows:
    """Turns of a channel as arrays: those of the selected windows.

    Attributes:
        turns: the number of turns.
        columns: `COLUMNS` of every turn, float64 `[turns, columns]`.
        term, row, count: one entry for each distinct term of each turn, sorted by row.
        terms: how many term numbers exist.
        vocabulary: the number of every term.
        authors: the number of every author's name.
    """

    turns: int
    columns: NDArray[np.float64]
    term: NDArray[np.int32]
    row: NDArray[np.int32]
    count: NDArray[np.float64]
    terms: int
    vocabulary: dict[str, int]
    authors: dict[str, int]

    def __getitem__(self, column: str) -> NDArray[np.float64]:
        """One of `COLUMNS`, float64 `[turns]`."""
        values: NDArray[np.float64] = self.columns[:, COLUMNS.index(column)]
        return values

    def number(self, term: str) -> int | None:
        """The number of a term that occurs in any turn, in view or later."""
        number = self.vocabulary.get(term, self.terms)
        return number if number < self.terms else None

    def frequency(self) -> NDArray[np.int64]:
        """The number of turns in view that contain each term, int64 `[terms]`."""
        return np.bincount(self.term, minlength=self.terms)


@dataclass(frozen=True, slots=True)
class _Block:
    """The rows of one window; `row` counts from its first turn."""

    columns: NDArray[np.float64]
    term: NDArray[np.int32]
    row: NDArray[np.int32]
    count: NDArray[np.float64]

    @property
    def nbytes(self) -> int:
        return self.columns.nbytes + self.term.nbytes + self.row.nbytes + self.count.nbytes


class TurnFeatures:
    """The rows of a channel's turns by window; a `WindowIndex` for use on the executor thread only.

    Args:
        read: returns the turns of a window; called for windows that are not cached.
        most: how many windows are cached.
    """

    def __init__(self, read: ReadTurns, most: int = 4096) -> None:
        self._turns_of = read
        self._most = most
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []  # by number; empty where it is free
        self._windows = GrowingArray(np.int32)  # by number: how many of the windows kept say the term
        self._free: list[int] = []
        self._authors: dict[str, int] = {}
        self._blocks: dict[int, _Block] = {}  # by window; lately asked for last
        self._last: tuple[tuple[int, ...], TurnRows] | None = None

    @property
    def nbytes(self) -> int:
        """Approximate size of the rows, in bytes."""
        return sum(block.nbytes for block in self._blocks.values()) + _TERM_BYTES * len(self._numbers)

    def rows(self, windows: Iterable[int]) -> TurnRows:
        """The rows of the turns of the given windows, concatenated in that order."""
        windows = tuple(windows)
        if self._last is not None and self._last[0] == windows:
            return self._last[1]
        blocks = [self._block(window) for window in windows]
        ends = np.cumsum([0, *(len(block.columns) for block in blocks)])
        rows = TurnRows(
            int(ends[-1]),
            np.concatenate([_NOTHING.columns, *(block.columns for block in blocks)]),
            np.concatenate([_NOTHING.term, *(block.term for block in blocks)]),
            np.concatenate(
                [_NOTHING.row, *(block.row + end for block, end in zip(blocks, ends.tolist(), strict=False))]
            ),
            np.concatenate([_NOTHING.count, *(block.count for block in blocks)]),
            len(self._names),
            self._numbers,
            self._authors,
        )
        self._last = windows, rows
        while len(self._blocks) > max(self._most, len(windows)):
            self._drop(next(iter(self._blocks)))
        return rows

    def columns(self, window: int) -> NDArray[np.float64]:
        """`COLUMNS` of the turns of one window, `[turns, columns]`."""
        return self._block(window).columns

    def replace(self, window: Window) -> None:
        """Drop the rows of a changed window, and the terms that occur only there.

        Rows returned earlier stay unchanged.
        """
        self._last = None
        if window.ref.index in self._blocks:
            self._drop(window.ref.index)

    def _drop(self, window: int) -> None:
        said = np.unique(self._blocks.pop(window).term)
        self._windows.view[said] -= 1
        for number in said[self._windows.view[said] == 0].tolist():
            del self._numbers[self._names[number]]
            self._names[number] = ""
            self._free.append(number)

    def _block(self, window: int) -> _Block:
        block = self._blocks.pop(window, None)
        if block is None:
            block = self._read(self._turns_of(window))
            self._windows.view[np.unique(block.term)] += 1
        self._blocks[window] = block
        return block

    def _read(self, turns: Sequence[Turn]) -> _Block:
        columns, entries = list[tuple[Any, ...]](), list[tuple[int, int, int]]()
        for place, (reading, leaning) in enumerate(context_dependence(turns)):
            turn = reading.turn
            said = stems(turn.text)
            columns.append(
                (
                    turn.tokens,
                    turn.ts.timestamp(),
                    self._authors.setdefault(turn.author.name, len(self._authors)),
                    len(said),
                    bool(_QUESTION.search(turn.text)),
                    np.log1p(len(_FIRST_PERSON.findall(turn.text))),
                    bool(_DIGIT.search(turn.text)),
                    "http" in turn.text or "`" in turn.text,
                    reading.salience,
                    leaning,
                )
            )
            entries += [(self._number(term), place, count) for term, count in Counter(said).items()]
        table = np.array(entries, dtype=np.int64).reshape(-1, 3)
        return _Block(
            np.array(columns, np.float64).reshape(-1, len(COLUMNS)),
            table[:, 0].astype(np.int32),
            table[:, 1].astype(np.int32),
            table[:, 2].astype(np.float64),
        )

    def _number(self, term: str) -> int:
        number = self._numbers.get(term)
        if number is not None:
            return number
        if self._free:
            number = self._free.pop()
            self._names[number] = term
        else:
            number = len(self._names)
            self._names.append(term)
            self._windows.append(0)
        self._numbers[term] = number
        return number


_NOTHING = _Block(np.zeros((0, len(COLUMNS))), *(np.zeros(0, kind) for kind in (np.int32, np.int32, float)))


def window_columns(past: AsOf, turns: Sequence[Turn]) -> NDArray[np.float64]:
    """`COLUMNS` of the turns of the window to summarise, `[turns, columns]`; cached ones if recorded."""
    recorded = past.history.recorded_window(turns)
    if recorded is None:
        return TurnFeatures(lambda _: turns).columns(0)
    return past.index(TurnFeatures).columns(recorded.index)
