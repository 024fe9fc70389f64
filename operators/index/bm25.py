"""BM25 over any prefix of a growing chunk index, with the same scores as a fresh index of that prefix.

The reference is `rank_bm25.BM25Okapi` (k1 1.5, b 0.75, negative idf raised to a quarter of the average
idf): scores agree within 1e-9. A prefix is a cut of the postings, not a rebuild. Replacing a window's
chunks rewrites the postings of its old and new terms; if the number of chunks changes, one pass over
all postings moves the later ones.

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
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.index.arrays import GrowingArray
from backscroll.operators.index.postings import Postings

__all__ = ["ANALYSER", "AsOfBM25", "tokenize"]

ANALYSER = r"lower-case \w+"
K1, B, EPSILON = 1.5, 0.75, 0.25
_WORD = re.compile(r"\w+")


def tokenize(text: str) -> list[str]:
    """Split text into lower-case runs of word characters, as the reference analyser does."""
    return _WORD.findall(text.lower())


class _Vocabulary(dict[str, int]):
    """Numbers terms in the order they are first looked up; a number is never reused."""

    def __init__(self) -> None:
        super().__init__()
        self._names: list[str] = []  # empty once no chunk has the term

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self._names)
        self._names.append(term)
        return number

    def forget(self, number: int) -> None:
        """Drop a term."""
        del self[self._names[number]]
        self._names[number] = ""


class _Forms:
    """Numbers the distinct pairs of count and length in order of appearance."""

    def __init__(self) -> None:
        self.rows = GrowingArray(np.float64, (2,))
        self._known = np.array([-1])  # ascending
        self._numbers = np.array([-1])

    def number(self, counts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of pairs; new pairs get new numbers."""
        pairs = (counts << 32) + lengths
        at = np.searchsorted(self._known, pairs)
        new = np.unique(pairs[self._known.take(at, mode="clip") != pairs])
        if len(new):
            numbers = np.arange(len(self.rows), len(self.rows) + len(new))
            self.rows.extend(np.column_stack([new >> 32, new & 0xFFFFFFFF]))
            place = np.searchsorted(self._known, new)
            self._known = np.insert(self._known, place, new)
            self._numbers = np.insert(self._numbers, place, numbers)
            at = np.searchsorted(self._known, pairs)
        return self._numbers[at]


class AsOfBM25:
    """A growing BM25 index that can be queried as of any earlier window. Not thread-safe.

    A posting stores the number of its *form*: the pair of its term's count and its chunk's length. There are
    few forms, so for the mean length at a cut all their weights can be computed at once.
    """

    def __init__(self) -> None:
        self._terms = _Vocabulary()
        self._forms = _Forms()
        self._postings = Postings()
        self._entries = GrowingArray(np.int32)  # the distinct terms of each chunk, chunk by chunk
        self._frequencies = GrowingArray(np.int64)  # how many terms have 0, 1, 2 ... postings
        self._cuts = GrowingArray(np.int64, (3,))  # chunks, words and entries after each window
        self._mean_idfs = GrowingArray(np.float64)  # by cut; NaN if not computed yet
        self._cuts.append(0)
        self._mean_idfs.append(0)

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes, without the vocabulary."""
        arrays = (self._entries, self._frequencies, self._cuts, self._mean_idfs)
        return self._postings.nbytes + sum(array.nbytes for array in arrays)

    @property
    def terms(self) -> int:
        """The number of terms in the vocabulary."""
        return len(self._terms)

    def append_window(self, chunks: Sequence[str]) -> None:
        """Index the chunk texts of the next closed window."""
        self.append_windows([chunks])

    def append_windows(self, windows: Sequence[Sequence[str]]) -> None:
        """Index the chunk texts of the next closed windows; one call is faster than many."""
        numbers, lengths = self._read(text for texts in windows for text in texts)
        chunks, words, entries = self._cuts.view[-1].tolist()
        terms, positions, forms = self._post(numbers, lengths, chunks)
        distinct, added = np.unique(terms, return_counts=True)
        self._postings.add(terms, positions, forms)
        after = self._postings.lengths(distinct)
        self._count(after - added, after)

        ends = np.cumsum([len(texts) for texts in windows])
        of_window = np.searchsorted(ends, positions - chunks, side="right")
        self._entries.extend(
            terms[np.argsort(of_window.astype(np.min_scalar_type(len(ends))), kind="stable")]
        )
        cuts = np.empty((len(windows), 3), np.int64)
        cuts[:, 0] = chunks + ends
        cuts[:, 1] = words + np.concatenate([[0], np.cumsum(lengths)])[ends]
        cuts[:, 2] = entries + np.cumsum(np.bincount(of_window, minlength=len(windows)))
        self._cuts.extend(cuts)
        self._mean_idfs.extend(np.full(len(windows), np.nan))
        self._mean_idfs.view[-1] = _mean_idf(self._frequencies.view, self.size(-1))

    def replace_window(self, window: int, chunks: Sequence[str]) -> None:
        """Replace the chunk texts of window `window`, counted from 0; later chunks move accordingly.

        Raises:
            IndexError: the index has no such window.
        """
        if not 0 <= window < len(self._cuts) - 1:
            raise IndexError(f"window {window} is out of range: the index has {len(self._cuts) - 1} windows")
        (start, words_before, first), (stop, words_until, end) = self._cuts.view[window : window + 2].tolist()
        old = np.unique(self._entries.view[first:end]).tolist()
        numbers, lengths = self._read(chunks)
        terms, positions, forms = self._post(numbers, lengths, start)
        fresh: dict[int, list[tuple[int, int]]] = {term: [] for term in old}
        for term, position, form in zip(terms.tolist(), positions.tolist(), forms.tolist(), strict=True):
            fresh.setdefault(term, []).append((position, form))

        touched, shift = np.array(list(fresh), np.int64), start + len(chunks) - stop
        before = self._postings.lengths(touched)
        self._postings.replace(start, stop, fresh, shift=shift)
        after = self._postings.lengths(touched)
        self._count(before, after)
        for gone in touched[after == 0].tolist():
            self._terms.forget(gone)
        self._entries.replace(first, end, terms)
        growth = shift, words_before + len(numbers) - words_until, len(terms) - (end - first)
        self._cuts.view[window + 1 :] += growth
        self._mean_idfs.view[window + 1 :] = np.nan
        self._mean_idfs.view[-1] = _mean_idf(self._frequencies.view, self.size(-1))

    def size(self, windows: int) -> int:
        """The number of chunks in the first `windows` windows."""
        return int(self._cuts.view[windows, 0])

    def scores(self, query: str, *, windows: int, most: float = 1.0) -> NDArray[np.float64]:
        """The BM25 scores of the chunks of the first `windows` windows, float64 `[chunks]`.

        Query words that occur in more than the share `most` of the chunks are ignored.
        """
        chunks, words, _ = self._cuts.view[windows].tolist()
        scores = np.zeros(chunks)
        if not words:
            return scores
        counts, lengths = self._forms.rows.view.T
        weights = counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / (words / chunks)))
        for term, repeats in Counter(tokenize(query)).items():
            number = self._terms.get(term)
            if number is None:
                continue
            positions, forms = self._postings.of(number)
            if positions[-1] >= chunks:
                frequency = int(positions.searchsorted(np.int32(chunks)))  # a wider integer would copy
                positions, forms = positions[:frequency], forms[:frequency]
            frequency = len(positions)
            if not 0 < frequency <= most * chunks:
                continue
            idf = float(np.log(chunks - frequency + 0.5) - np.log(frequency + 0.5))
            if idf < 0:
                idf = self._floor(windows)
            np.add.at(scores, positions, (repeats * idf * weights).take(forms))
        return scores

    def _read(self, texts: Iterable[str]) -> tuple[NDArray[np.int64], list[int]]:
        """The term number of every word, and the number of words of each chunk."""
        # Most words repeat, and a small dict of these texts is faster than the large one.
        local = defaultdict[str, int](count().__next__)
        said, lengths = array("i"), list[int]()
        for text in texts:
            words = tokenize(text)
            said.extend(map(local.__getitem__, words))
            lengths.append(len(words))
        numbers = np.array([self._terms[term] for term in local], np.int64)
        return numbers[np.frombuffer(said, np.int32)], lengths

    def _post(
        self, numbers: NDArray[np.int64], lengths: Sequence[int], first: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The postings of chunks from position `first`, sorted by term and position: term, position, form."""
        of_chunk = np.array(lengths, np.int64)
        position = np.repeat(np.arange(first, first + len(of_chunk)), of_chunk)
        said = (numbers << 32) + position
        said.sort()
        starts = np.flatnonzero(np.diff(said, prepend=-1))
        terms, positions = said[starts] >> 32, said[starts] & 0xFFFFFFFF
        counts = np.diff(starts, append=len(said))
        return terms, positions, self._forms.number(counts, of_chunk[positions - first])

    def _count(self, before: NDArray[Any], after: NDArray[Any]) -> None:
        """Update how many terms have each number of postings."""
        most = int(after.max(initial=0))
        if most >= len(self._frequencies):
            self._frequencies.extend(np.zeros(most + 1 - len(self._frequencies)))
        np.subtract.at(self._frequencies.view, before[before > 0], 1)
        np.add.at(self._frequencies.view, after[after > 0], 1)

    def _floor(self, windows: int) -> float:
        """The value that replaces a negative idf at a cut."""
        mean = float(self._mean_idfs.view[windows])
        if np.isnan(mean):
            chunks, _, entries = self._cuts.view[windows].tolist()
            document_frequency = np.bincount(self._entries.view[:entries])
            mean = _mean_idf(np.bincount(document_frequency), chunks)
            self._mean_idfs.view[windows] = mean
        return EPSILON * mean


def _mean_idf(terms: NDArray[np.int64], chunks: int) -> float:
    """The mean idf of all terms, before negative ones are replaced; 0 if there are no terms.

    `terms[n]` is the number of terms that occur in `n` chunks.
    """
    frequencies = np.flatnonzero(terms[1:]) + 1
    if not len(frequencies):
        return 0.0
    idf = np.log(chunks - frequencies + 0.5) - np.log(frequencies + 0.5)
    return float(terms[frequencies] @ idf / terms[frequencies].sum())
