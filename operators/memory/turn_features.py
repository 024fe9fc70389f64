"""What the turns of a channel look like to the evidence ranker, read window by window and kept.

The rows of a window depend on nothing but its own turns. So those of any windows, put together, are
what a fresh index of these windows would be, a window that is not asked for costs nothing, and an
edit forgets one window. Of a long history the windows that were asked for lately are kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.gaps.rules import context_dependence
from backscroll.operators.index.arrays import GrowingArray
from backscroll.operators.language.lexicon import WORD, spaced_lexicons, stem
from backscroll.operators.messages import Turn

__all__ = ["TurnIndex", "TurnRows", "stems"]

_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|my|me|we|our)\b", re.IGNORECASE)


_DIGIT = re.compile(r"\d")


_QUESTION = re.compile(r"[?？]")


COLUMNS = (
    *("tokens", "time", "author", "terms", "question", "first_person", "digit", "code"),
    *("salience", "leaning"),
)


_TERM_BYTES = 160  # of a term and its number


def stems(text: str) -> list[str]:
    """The stems of the words that say something, in order."""
    stop = _stop_words()
    return [stem(word) for word in WORD.findall(text.lower()) if len(word) > 1 and word not in stop]


@cache
def _stop_words() -> frozenset[str]:
    """The words of any language that say nothing."""
    return frozenset().union(*(lexicon.function | lexicon.empty for lexicon in spaced_lexicons()))


@dataclass(frozen=True, slots=True)
class TurnRows:
    """Turns of a channel as arrays: the first ones, or those of some windows.

    Attributes:
        turns: how many turns there are.
        columns: `COLUMNS` of every turn, float64 `[turns, columns]`.
        term, row, count: one entry for each distinct term of each turn, by row.
        terms: how many numbers there are.
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
        """The number of a term that some turn says, in sight or later."""
        number = self.vocabulary.get(term, self.terms)
        return number if number < self.terms else None

    def frequency(self) -> NDArray[np.int64]:
        """How many turns in sight say each term, int64 `[terms]`."""
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


class TurnIndex:
    """Rows of a channel's turns by windows; used by one thread, the executor.

    Args:
        most: how many windows are kept.
    """

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []  # by number; empty where it is free
        self._windows = GrowingArray(np.int32)  # by number: how many of the windows kept say the term
        self._free: list[int] = []
        self._authors: dict[str, int] = {}
        self._blocks: dict[int, _Block] = {}  # by first turn; lately asked for last
        self._last: tuple[Sequence[int], TurnRows] | None = None

    @property
    def nbytes(self) -> int:
        """About how many bytes the rows take."""
        return sum(block.nbytes for block in self._blocks.values()) + _TERM_BYTES * len(self._numbers)

    def rows(self, before_seq: int, window_at: Callable[[int], Sequence[Turn]]) -> TurnRows:
        """The rows of the turns before `before_seq`, a window's first turn.

        `window_at(seq)` gives the turns of the recorded window that starts at `seq`; it is asked for
        the windows not read yet.
        """
        firsts, seq = list[int](), 0
        while seq < before_seq:
            firsts.append(seq)
            seq += len(self._block(seq, window_at).columns)
        return self.among(firsts, window_at)

    def among(self, firsts: Sequence[int], window_at: Callable[[int], Sequence[Turn]]) -> TurnRows:
        """The rows of the windows that start at these turns, one after the other, in that order."""
        if self._last is not None and self._last[0] == firsts:
            return self._last[1]
        blocks = [self._block(seq, window_at) for seq in firsts]
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
        self._last = firsts, rows
        while len(self._blocks) > max(self._most, len(firsts)):
            self._drop(next(iter(self._blocks)))
        return rows

    def window(self, first_seq: int, turns: Sequence[Turn]) -> NDArray[np.float64]:
        """`COLUMNS` of the turns of one recorded window, which starts at `first_seq`."""
        return self._block(first_seq, lambda _: turns).columns

    def forget(self, first_seq: int) -> None:
        """Drop the rows of the window that starts at turn `first_seq`, and the words said there alone.

        Views stay as they are.
        """
        self._last = None
        if first_seq in self._blocks:
            self._drop(first_seq)

    def _drop(self, first_seq: int) -> None:
        said = np.unique(self._blocks.pop(first_seq).term)
        self._windows.view[said] -= 1
        for number in said[self._windows.view[said] == 0].tolist():
            del self._numbers[self._names[number]]
            self._names[number] = ""
            self._free.append(number)

    def _block(self, first_seq: int, window_at: Callable[[int], Sequence[Turn]]) -> _Block:
        block = self._blocks.pop(first_seq, None)
        if block is None:
            block = self._read(window_at(first_seq))
            self._windows.view[np.unique(block.term)] += 1
        self._blocks[first_seq] = block
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
