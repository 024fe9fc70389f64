"""What every turn of a channel looks like to the evidence ranker, read once and kept.

The rows are append-only and hold nothing that depends on later turns, so a prefix of them is what a
fresh index of that prefix would be. An edit forgets the rows from its window on; they are read anew
on the next look.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.arrays import GrowingArray
from operators.cues import LEXICONS, WORD, stem
from operators.messages import Turn
from operators.rules import lean

__all__ = ["TurnIndex", "TurnRows", "stems"]

_STOP = frozenset().union(*(lexicon.function | lexicon.empty for lexicon in LEXICONS))
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|my|me|we|our)\b", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_QUESTION = re.compile(r"[?？]")
COLUMNS = (
    *("tokens", "time", "author", "terms", "question", "first_person", "digit", "code"),
    *("salience", "leaning"),
)


def stems(text: str) -> list[str]:
    """The stems of the words that say something, in order."""
    return [stem(word) for word in WORD.findall(text.lower()) if len(word) > 1 and word not in _STOP]


@dataclass(frozen=True, slots=True)
class TurnRows:
    """The first `turns` turns of a channel as arrays.

    Attributes:
        turns: how many turns there are.
        columns: `COLUMNS` of every turn, float64 `[turns, columns]`.
        term, row, count: one entry for each distinct term of each turn, by row.
        terms: how many terms are numbered; a term read by another thread since is not known here.
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


class TurnIndex:
    """Rows of a channel's turns, one window after the other; used by one thread, the executor."""

    def __init__(self) -> None:
        self._vocabulary: dict[str, int] = {}
        self._terms = 0  # numbers are not used twice
        self._authors: dict[str, int] = {}
        self._clear()

    def _clear(self) -> None:
        self._columns = GrowingArray(np.float64, (len(COLUMNS),))
        self._term = GrowingArray(np.int32)
        self._row = GrowingArray(np.int32)
        self._count = GrowingArray(np.float64)

    def rows(self, before_seq: int, window_at: Callable[[int], Sequence[Turn]]) -> TurnRows:
        """The rows of the turns before `before_seq`, a window's first turn.

        `window_at(seq)` gives the turns of the recorded window that starts at `seq`; it is asked for
        the windows not read yet.
        """
        while len(self._columns) < before_seq:
            self._append(window_at(len(self._columns)))
        entries = int(np.searchsorted(self._row.view, before_seq))
        return TurnRows(
            before_seq,
            self._columns.view[:before_seq],
            self._term.view[:entries],
            self._row.view[:entries],
            self._count.view[:entries],
            self._terms,
            self._vocabulary,
            self._authors,
        )

    def forget(self, first_seq: int) -> None:
        """Drop the rows from turn `first_seq`, the first of a window, on, and the words said there alone.

        Views stay as they are.
        """
        columns, entries = self._columns.view, int(np.searchsorted(self._row.view, first_seq))
        term, row, count = self._term.view, self._row.view, self._count.view
        self._clear()  # new buffers: what was handed out is never written again
        self._columns.extend(columns[:first_seq])
        self._term.extend(term[:entries])
        self._row.extend(row[:entries])
        self._count.extend(count[:entries])
        said = set(np.unique(term[:entries]).tolist())
        self._vocabulary = {word: number for word, number in self._vocabulary.items() if number in said}

    def _append(self, turns: Sequence[Turn]) -> None:
        columns, entries = list[tuple[Any, ...]](), list[tuple[int, int, int]]()
        for reading, leaning in lean(turns):
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
            for term, count in Counter(said).items():
                entries.append((self._number(term), turn.seq, count))
        table = np.array(entries, dtype=np.int64).reshape(-1, 3)
        self._term.extend(table[:, 0])
        self._row.extend(table[:, 1])
        self._count.extend(table[:, 2])
        self._columns.extend(columns)

    def _number(self, term: str) -> int:
        number = self._vocabulary.get(term)
        if number is None:
            number = self._vocabulary[term] = self._terms
            self._terms += 1
        return number
