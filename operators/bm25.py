"""BM25 over any prefix of an append-only chunk index, equal to a fresh index of that prefix.

The oracle is `rank_bm25.BM25Okapi` (k1 1.5, b 0.75, negative idf floored at a quarter of the
average idf): scores agree within 1e-9. A prefix is a cut of the postings, not a rebuild.

>>> index = AsOfBM25()
>>> index.append_window(["the pump leaks", "we ordered a new pump"])
>>> index.append_window(["lunch at noon", "see you there", "the valve is fine"])
>>> index.scores("pump leaks", windows=2).round(3).tolist()
[1.551, 0.286, 0.0, 0.0, 0.0]
>>> len(index.scores("pump leaks", windows=1))
2
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from operators.arrays import GrowingArray

__all__ = ["ANALYSER", "AsOfBM25", "tokenize", "top_k"]

ANALYSER = r"lower-case \w+"
K1, B, EPSILON = 1.5, 0.75, 0.25
_WORD = re.compile(r"\w+")


def tokenize(text: str) -> list[str]:
    """Lower-case runs of word characters, the reference analyser of the sparse retriever."""
    return _WORD.findall(text.lower())


class _Postings:
    """Where one term occurs: chunk positions, ascending, and its count in each."""

    __slots__ = ("counts", "ordinal", "positions")

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.positions = GrowingArray(np.int32)
        self.counts = GrowingArray(np.float32)


class AsOfBM25:
    """A growing BM25 index whose state after every window can still be queried."""

    def __init__(self) -> None:
        self._terms: dict[str, _Postings] = {}
        self._lengths = GrowingArray(np.float64)
        self._document_frequency = GrowingArray(np.int64)
        self._cuts: list[tuple[int, float, float]] = [(0, 0.0, 0.0)]  # chunks, mean length, mean idf

    def append_window(self, chunks: Sequence[str]) -> None:
        """Index the chunk texts of the next closed window."""
        for text in chunks:
            position, terms = len(self._lengths), tokenize(text)
            self._lengths.append(len(terms))
            for term, count in Counter(terms).items():
                self._post(term, position, count)
        self._cuts.append(self._measure())

    def size(self, windows: int) -> int:
        """Number of chunks in the first `windows` windows."""
        return self._cuts[windows][0]

    def scores(self, query: str, *, windows: int) -> NDArray[np.float64]:
        """The BM25 score of every chunk of the first `windows` windows, float64 `[chunks]`."""
        chunks, mean_length, mean_idf = self._cuts[windows]
        scores = np.zeros(chunks)
        if not mean_length:
            return scores
        penalty = K1 * (1 - B + B * self._lengths.view[:chunks] / mean_length)
        for term, repeats in Counter(tokenize(query)).items():
            postings = self._terms.get(term)
            if postings is None:
                continue
            frequency = int(np.searchsorted(postings.positions.view, chunks))
            if not frequency:
                continue
            idf = float(np.log(chunks - frequency + 0.5) - np.log(frequency + 0.5))
            if idf < 0:
                idf = EPSILON * mean_idf
            positions = postings.positions.view[:frequency]
            counts = postings.counts.view[:frequency].astype(np.float64)
            scores[positions] += repeats * idf * (counts * (K1 + 1) / (counts + penalty[positions]))
        return scores

    def _post(self, term: str, position: int, count: int) -> None:
        postings = self._terms.get(term)
        if postings is None:
            postings = self._terms[term] = _Postings(len(self._terms))
            self._document_frequency.append(0)
        postings.counts.append(count)
        postings.positions.append(position)
        self._document_frequency.view[postings.ordinal] += 1

    def _measure(self) -> tuple[int, float, float]:
        """Size, mean length and mean idf of the index as it stands."""
        chunks = len(self._lengths)
        if not chunks or not self._terms:
            return chunks, 0.0, 0.0
        terms = np.bincount(self._document_frequency.view)
        frequencies = np.flatnonzero(terms)
        idf = np.log(chunks - frequencies + 0.5) - np.log(frequencies + 0.5)
        return chunks, float(self._lengths.view.mean()), float(terms[frequencies] @ idf / len(self._terms))


def top_k(scores: NDArray[np.floating], k: int) -> NDArray[np.intp]:
    """Positions of the `k` best scores by (-score, position); zero scores are ranked too."""
    if k <= 0:
        return np.arange(0)
    if k < len(scores):
        kth = np.partition(scores, len(scores) - k)[len(scores) - k]
        positions = np.flatnonzero(scores >= kth)
    else:
        positions = np.arange(len(scores))
    return positions[np.argsort(-scores[positions], kind="stable")][:k]
