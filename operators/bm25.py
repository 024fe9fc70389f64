"""BM25 over any prefix of a growing chunk index, equal to a fresh index of that prefix.

The oracle is `rank_bm25.BM25Okapi` (k1 1.5, b 0.75, negative idf floored at a quarter of the
average idf): scores agree within 1e-9. A prefix is a cut of the postings, not a rebuild. Replacing
a window's chunks touches the postings of its terms, old and new, and those of later windows only
where it gets another number of chunks.

>>> index = AsOfBM25()
>>> index.append_window(["the pump leaks", "we ordered a new pump"])
>>> index.append_window(["lunch at noon", "see you there", "the valve is fine"])
>>> index.scores("pump leaks", windows=2).round(3).tolist()
[1.551, 0.286, 0.0, 0.0, 0.0]
>>> len(index.scores("pump leaks", windows=1))
2
>>> index.replace_window(0, ["we ordered a new pump"])
>>> index.scores("pump leaks", windows=2).round(3).tolist()
[0.737, 0.0, 0.0, 0.0]
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
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

    def before(self, chunk: int) -> int:
        """How many of the postings lie in chunks before `chunk`."""
        return int(self.positions.view.searchsorted(np.int32(chunk)))  # a wider integer would copy the view

    def replace(self, start: int, stop: int, postings: Sequence[tuple[int, int]], shift: int) -> None:
        """Put (position, count) pairs in place of those of chunks `[start, stop)`; move the later ones."""
        low, high = self.before(start), self.before(stop)
        if low < high or postings:
            self.counts.replace(low, high, [count for _, count in postings])
            self.positions.replace(low, high, [position for position, _ in postings])
        if shift:
            later = self.positions.view[low + len(postings) :]
            later += shift


class AsOfBM25:
    """A growing BM25 index whose state after every window can still be queried.

    Another thread may ask for scores during `append_window`, but not during `replace_window`.
    """

    def __init__(self) -> None:
        self._terms: dict[str, _Postings] = {}
        self._vocabulary: list[str] = []  # by ordinal; empty where no chunk has the term any more
        self._document_frequency = GrowingArray(np.int64)  # by ordinal
        self._window_terms: list[NDArray[np.int32]] = []  # ordinals of the terms of each chunk of a window
        self._lengths = GrowingArray(np.float64)
        self._cuts: list[tuple[int, int]] = [(0, 0)]  # chunks, words
        self._mean_idfs: list[float | None] = [0.0]  # by cut; None where a change has made it unknown

    def append_window(self, chunks: Sequence[str]) -> None:
        """Index the chunk texts of the next closed window."""
        ordinals: list[int] = []
        words = self._cuts[-1][1]
        for text in chunks:
            position, terms = len(self._lengths), tokenize(text)
            self._lengths.append(len(terms))
            words += len(terms)
            for term, count in Counter(terms).items():
                postings = self._postings_of(term)
                postings.counts.append(count)
                postings.positions.append(position)
                ordinals.append(postings.ordinal)
        self._window_terms.append(np.array(ordinals, np.int32))
        np.add.at(self._document_frequency.view, self._window_terms[-1], 1)
        self._mean_idfs.append(_mean_idf(self._document_frequency.view, len(self._lengths)))
        self._cuts.append((len(self._lengths), words))

    def replace_window(self, window: int, chunks: Sequence[str]) -> None:
        """Give window `window`, counted from 0, other chunk texts; the chunks after it move along.

        Raises:
            IndexError: the index has no such window.
        """
        if not 0 <= window < len(self._window_terms):
            raise IndexError(f"window {window} is not in an index of {len(self._window_terms)} windows")
        (start, words_before), (stop, words_until) = self._cuts[window : window + 2]
        counters = [Counter(tokenize(text)) for text in chunks]
        lengths = [counter.total() for counter in counters]
        shift = start + len(chunks) - stop
        growth = words_before + sum(lengths) - words_until

        fresh: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for position, counter in enumerate(counters, start):
            for term, count in counter.items():
                fresh[self._postings_of(term).ordinal].append((position, count))
        old = self._window_terms[window]
        new = np.array([ordinal for ordinal, pairs in fresh.items() for _ in pairs], np.int32)
        moved = self._window_terms[window + 1 :] if shift else []
        for ordinal in np.unique(np.concatenate([old, new, *moved])).tolist():
            self._repost(ordinal, start, stop, fresh.get(ordinal, ()), shift)

        self._window_terms[window] = new
        self._lengths.replace(start, stop, lengths)
        later = self._cuts[window + 1 :]
        self._cuts[window + 1 :] = [(chunks + shift, words + growth) for chunks, words in later]
        self._mean_idfs[window + 1 :] = [None] * len(later)
        self._mean_idfs[-1] = _mean_idf(self._document_frequency.view, len(self._lengths))

    def size(self, windows: int) -> int:
        """Number of chunks in the first `windows` windows."""
        return self._cuts[windows][0]

    def scores(self, query: str, *, windows: int) -> NDArray[np.float64]:
        """The BM25 score of every chunk of the first `windows` windows, float64 `[chunks]`."""
        chunks, words = self._cuts[windows]
        scores = np.zeros(chunks)
        if not words:
            return scores
        penalty = K1 * (1 - B + B * self._lengths.view[:chunks] / (words / chunks))
        for term, repeats in Counter(tokenize(query)).items():
            postings = self._terms.get(term)
            if postings is None:
                continue
            frequency = postings.before(chunks)
            if not frequency:
                continue
            idf = float(np.log(chunks - frequency + 0.5) - np.log(frequency + 0.5))
            if idf < 0:
                idf = self._floor(windows)
            positions = postings.positions.view[:frequency]
            counts = postings.counts.view[:frequency].astype(np.float64)
            scores[positions] += repeats * idf * (counts * (K1 + 1) / (counts + penalty[positions]))
        return scores

    def _postings_of(self, term: str) -> _Postings:
        postings = self._terms.get(term)
        if postings is None:
            postings = self._terms[term] = _Postings(len(self._vocabulary))
            self._vocabulary.append(term)
            self._document_frequency.append(0)
        return postings

    def _repost(
        self, ordinal: int, start: int, stop: int, pairs: Sequence[tuple[int, int]], shift: int
    ) -> None:
        """Replace a term's postings, and forget the term with its last one."""
        term = self._vocabulary[ordinal]
        postings = self._terms[term]
        postings.replace(start, stop, pairs, shift)
        self._document_frequency.view[ordinal] = len(postings.positions)
        if not len(postings.positions):
            del self._terms[term]
            self._vocabulary[ordinal] = ""

    def _floor(self, windows: int) -> float:
        """What a negative idf is raised to at a cut."""
        mean = self._mean_idfs[windows]
        if mean is None:
            document_frequency = np.bincount(np.concatenate(self._window_terms[:windows]))
            mean = _mean_idf(document_frequency, self._cuts[windows][0])
            self._mean_idfs[windows] = mean
        return EPSILON * mean


def _mean_idf(document_frequency: NDArray[np.int64], chunks: int) -> float:
    """The mean, before any floor, over the terms that some chunk has; 0 if there is none."""
    terms = np.bincount(document_frequency)
    frequencies = np.flatnonzero(terms[1:]) + 1
    if not len(frequencies):
        return 0.0
    idf = np.log(chunks - frequencies + 0.5) - np.log(frequencies + 0.5)
    return float(terms[frequencies] @ idf / terms[frequencies].sum())


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
