"""Inverted lists of numbered terms, stored in two growing typed arrays.

Each list has a block with room for a power of two of postings. A list that outgrows its block moves to a
larger one, and the old block is reused. So each list is one slice, a posting takes six bytes plus some
room to grow, and many lists can be filled at once without a loop.

>>> postings = Postings()
>>> postings.add(np.array([0, 0, 1]), np.array([0, 2, 2]), np.array([7, 8, 9]))
>>> postings.add(np.array([0]), np.array([3]), np.array([7]))
>>> [part.tolist() for part in postings.of(0)]
[[0, 2, 3], [7, 8, 7]]
>>> postings.replace(2, 3, {0: [(2, 5), (3, 5)], 1: []}, shift=1)
>>> [part.tolist() for part in postings.of(0)]
[[0, 2, 3, 4], [7, 5, 5, 7]]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.index.arrays import GrowingArray

__all__ = ["Postings"]

_SPARE = (
    1.25  # growth factor of the arrays; at ten million tokens, doubling would waste more than the lists take
)


class Postings:
    """The ascending positions of each term, with a small number (`form`) per posting.

    Not thread-safe: a block may be reused while an older slice of it is still in use.
    """

    def __init__(self) -> None:
        self._positions: NDArray[np.int32] = np.zeros(64, np.int32)
        self._forms: NDArray[Any] = np.zeros(64, np.uint16)
        self._end = 0  # of the last block
        self._starts = GrowingArray(np.int64)  # by term
        self._lengths = GrowingArray(np.int32)
        self._rooms = GrowingArray(np.int32)
        self._free: defaultdict[int, list[int]] = defaultdict(list)  # starts of free blocks, by size

    def lengths(self, terms: NDArray[Any]) -> NDArray[np.int32]:
        """The number of postings of each of these terms."""
        self._know(int(terms.max(initial=-1)))
        lengths: NDArray[np.int32] = self._lengths.view[terms]
        return lengths

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        arrays = (self._starts, self._lengths, self._rooms)
        return self._positions.nbytes + self._forms.nbytes + sum(array.nbytes for array in arrays)

    def of(self, term: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """The positions of a term and their forms; valid until the next change."""
        start, length = self._starts.view[term], self._lengths.view[term]
        return self._positions[start : start + length], self._forms[start : start + length]

    def add(self, terms: NDArray[Any], positions: NDArray[Any], forms: NDArray[Any]) -> None:
        """Append postings, sorted by term and position; positions must be larger than all existing ones."""
        if not len(terms):
            return
        self._know(int(terms[-1]))
        first = np.flatnonzero(np.diff(terms, prepend=-1))
        grown, added = terms[first], np.diff(first, append=len(terms))
        self._make_room(grown, added)
        at = _ranges(self._starts.view[grown] + self._lengths.view[grown], added)
        self._fit(int(forms.max()))
        self._positions[at] = positions
        self._forms[at] = forms
        self._lengths.view[grown] += added

    def replace(
        self, start: int, stop: int, postings: Mapping[int, Sequence[tuple[int, int]]], *, shift: int = 0
    ) -> None:
        """Replace the postings at positions `[start, stop)`; later positions move by `shift`.

        `postings` must contain every term with a posting there, before or after: pairs of position and form.
        """
        self._know(max(postings, default=-1))
        if shift > 0:  # first, because new positions may overlap with later ones
            self._shift(stop, shift)
        for term, pairs in postings.items():
            held, _ = self.of(term)
            low, high = held.searchsorted(np.array([start, stop], np.int32)).tolist()
            change = len(pairs) - (high - low)
            if change > 0:
                self._make_room(np.array([term]), np.array([change]))
            begin, length = int(self._starts.view[term]), len(held)
            tail = slice(begin + high, begin + length)
            moved = slice(begin + low + len(pairs), begin + length + change)
            fresh = slice(begin + low, begin + low + len(pairs))
            for array in (self._positions, self._forms):
                array[moved] = array[tail].copy()
            if pairs:
                self._fit(max(form for _, form in pairs))
                self._positions[fresh] = [position for position, _ in pairs]
                self._forms[fresh] = [form for _, form in pairs]
            self._lengths.view[term] = length + change
            if not length + change:
                self._release(term)
        if shift < 0:
            self._shift(stop, shift)

    def _shift(self, stop: int, shift: int) -> None:
        held = self._positions[: self._end]
        np.add(held, np.int32(shift), out=held, where=held >= stop)

    def _know(self, term: int) -> None:
        more = term + 1 - len(self._starts)
        if more > 0:
            for array in (self._starts, self._lengths, self._rooms):
                array.extend(np.zeros(more))

    def _make_room(self, terms: NDArray[Any], added: NDArray[Any]) -> None:
        """Move lists that would outgrow their blocks."""
        lengths = self._lengths.view[terms]
        short = lengths + added > self._rooms.view[terms]
        if not short.any():
            return
        terms, lengths, needed = terms[short], lengths[short], (lengths + added)[short]
        rooms = 1 << np.ceil(np.log2(needed)).astype(np.int64)
        starts = self._allocate(rooms)
        old_starts, old_rooms = self._starts.view[terms], self._rooms.view[terms]
        source, target = _ranges(old_starts, lengths), _ranges(starts, lengths)
        for array in (self._positions, self._forms):
            array[target] = array[source]
        for start, room in zip(old_starts.tolist(), old_rooms.tolist(), strict=True):
            if room:
                self._free[room].append(start)
        self._starts.view[terms], self._rooms.view[terms] = starts, rooms

    def _allocate(self, rooms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Allocate blocks of these sizes, from free blocks first, then at the end."""
        starts = np.empty(len(rooms), np.int64)
        for room in np.unique(rooms).tolist():
            wanted = np.flatnonzero(rooms == room)
            free = self._free[room]
            reused = min(len(free), len(wanted))
            starts[wanted[:reused]] = free[len(free) - reused :]
            del free[len(free) - reused :]
            fresh = wanted[reused:]
            starts[fresh] = self._end + room * np.arange(len(fresh))
            self._end += room * len(fresh)
        if self._end > len(self._positions):
            self._positions, self._forms = (
                np.concatenate([array, np.zeros(int(self._end * _SPARE) - len(array), array.dtype)])
                for array in (self._positions, self._forms)
            )
        return starts

    def _release(self, term: int) -> None:
        self._free[int(self._rooms.view[term])].append(int(self._starts.view[term]))
        self._rooms.view[term] = 0

    def _fit(self, form: int) -> None:
        if form > np.iinfo(self._forms.dtype).max:
            self._forms = self._forms.astype(np.uint32)


def _ranges(starts: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.int64]:
    """The integer ranges that begin at each start and have its length, concatenated."""
    ends = np.cumsum(lengths)
    if not len(ends):
        return np.zeros(0, np.int64)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1])
