"""Turn-level BM25 of several queries at once, over the turns in view.

Stop words are dropped and words stemmed (`turn_features.stems`); idf is the positive form of Lucene,
`log(1 + (N - n + 0.5) / (n + 0.5))`, k1 1.2 and b 0.5, as turns are short. One product of two small
matrices scores every query against every turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.memory.turn_features import TurnRows, stems

__all__ = ["Lexical", "TurnTerms", "idf", "mentions"]

K1, B = 1.2, 0.5
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Lexical:
    """How well queries match turns, float32 `[queries, turns]` each.

    Attributes:
        score: BM25.
        coverage: BM25 divided by the query's total idf: how much of the query the turn covers, about
            0 to 2.
        first, last: the share of the query's idf in terms that first, or last, occur in the turn.
        rarest: the highest idf of a shared term, divided by the log of the number of turns.
        shared: `log1p` of the number of shared terms.
    """

    score: Floats
    coverage: Floats
    first: Floats
    last: Floats
    rarest: Floats
    shared: Floats


class TurnTerms:
    """The turns in view, indexed by the queries' terms (`turn_features.stems`); built for each request."""

    def __init__(self, rows: TurnRows, queries: Sequence[Iterable[str]]) -> None:
        self.rows = rows
        self._queries = [list(dict.fromkeys(query)) for query in queries]
        numbers = {term: rows.number(term) for query in self._queries for term in query}
        known = [number for number in numbers.values() if number is not None]
        self._column = {
            term: column
            for column, term in enumerate(term for term, number in numbers.items() if number is not None)
        }
        look = np.full(rows.terms, -1, np.int32)
        look[known] = np.arange(len(known), dtype=np.int32)
        column = look[rows.term]
        hit = column >= 0
        self._columns, self._rows, self._counts = column[hit], rows.row[hit], rows.count[hit]
        self._idf = idf(np.bincount(self._columns, minlength=len(known)), rows.turns)

    def match(self) -> Lexical:
        """Match every query with every turn."""
        turns, terms = self.rows.turns, len(self._idf)
        lengths = self.rows["terms"]
        mean = max(float(lengths.mean()), 1.0) if turns else 1.0
        penalty = K1 * (1 - B + B * lengths[self._rows] / mean)
        impact = np.zeros((terms, turns), np.float32)
        impact[self._columns, self._rows] = self._counts * (K1 + 1) / (self._counts + penalty)
        present = np.zeros((terms, turns), np.float32)
        present[self._columns, self._rows] = 1
        weights, total = self._weights()
        total = total[:, None] + 1e-6
        score = weights @ impact
        rarest = np.zeros((len(weights), turns), np.float32)
        for place, row in enumerate(weights):
            used = np.flatnonzero(row)
            if len(used):
                rarest[place] = (present[used] * row[used, None]).max(axis=0)
        first, last = np.full(terms, -1), np.full(terms, -1)
        last[self._columns] = self._rows  # rows ascend
        first[self._columns[::-1]] = self._rows[::-1]
        return Lexical(
            score=score,
            coverage=score / total,
            first=_at(first, weights, turns) / total,
            last=_at(last, weights, turns) / total,
            rarest=rarest / np.float32(np.log(turns + 2)),
            shared=np.log1p((weights > 0).astype(np.float32) @ present),
        )

    def _weights(self) -> tuple[Floats, Floats]:
        """idf of each query's known terms `[queries, terms]`, and the idf sum of all its terms."""
        unseen = float(idf(np.zeros(1, np.int64), self.rows.turns)[0])
        weights = np.zeros((len(self._queries), len(self._idf)), np.float32)
        total = np.zeros(len(self._queries), np.float32)
        for place, query in enumerate(self._queries):
            columns = [self._column[term] for term in query if term in self._column]
            weights[place, columns] = self._idf[columns]
            total[place] = self._idf[columns].sum() + unseen * (len(query) - len(columns))
        return weights, total


def _at(place: NDArray[np.intp], weights: Floats, turns: int) -> Floats:
    """Add each term's weight `[queries, terms]` at its turn, giving `[queries, turns]`; -1 is no turn."""
    moved = np.zeros((len(weights), turns), np.float32)
    order = np.argsort(place, kind="stable")
    order = order[place[order] >= 0]
    if len(order):
        at, starts = np.unique(place[order], return_index=True)
        moved[:, at] = np.add.reduceat(weights[:, order], starts, axis=1)
    return moved


def idf(frequency: NDArray[np.int64], turns: int) -> NDArray[np.float64]:
    """Inverse document frequency, never negative."""
    values: NDArray[np.float64] = np.log(1 + (turns - frequency + 0.5) / (frequency + 0.5))
    return values


def mentions(rows: TurnRows, names: Iterable[str]) -> NDArray[np.float64]:
    """Whether a turn contains the first word of a name, float64 `[names, turns]`."""
    names = list(names)
    said = np.zeros((len(names), rows.turns))
    for place, name in enumerate(names):
        for stem in stems(name)[:1]:
            said[place, rows.row[rows.term == rows.number(stem)]] = 1
    return said
