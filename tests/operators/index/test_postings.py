from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.index.postings import Postings

TERMS = 5
chunks = st.lists(st.dictionaries(st.integers(0, TERMS - 1), st.integers(0, 70_000), max_size=4), max_size=5)
changes = st.lists(st.tuples(st.none() | st.integers(0, 30), chunks), max_size=12)


def lists_of(corpus: list[dict[int, int]]) -> list[list[tuple[int, int]]]:
    """The list of each term: positions and forms."""
    return [
        [(position, chunk[term]) for position, chunk in enumerate(corpus) if term in chunk]
        for term in range(TERMS)
    ]


def held(postings: Postings) -> list[list[tuple[int, int]]]:
    postings.lengths(np.arange(TERMS))
    return [list(zip(*(part.tolist() for part in postings.of(term)), strict=True)) for term in range(TERMS)]


@given(changes=changes)
@settings(database=None, deadline=None, max_examples=200)
def test_lists_match_the_chunks_after_any_additions_and_replacements(
    changes: list[tuple[int | None, list[dict[int, int]]]],
) -> None:
    postings, corpus = Postings(), list[dict[int, int]]()
    for place, fresh in changes:
        if place is None:
            added = sorted(
                (term, position, form)
                for position, chunk in enumerate(fresh, len(corpus))
                for term, form in chunk.items()
            )
            postings.add(*np.array(added, np.int64).reshape(-1, 3).T)
            corpus += fresh
        else:
            start = min(place, len(corpus))
            stop = min(start + 2, len(corpus))
            pairs: dict[int, list[tuple[int, int]]] = {
                term: [] for chunk in corpus[start:stop] for term in chunk
            }
            for position, chunk in enumerate(fresh, start):
                for term, form in chunk.items():
                    pairs.setdefault(term, []).append((position, form))
            postings.replace(start, stop, pairs, shift=len(fresh) - (stop - start))
            corpus[start:stop] = fresh
        assert held(postings) == lists_of(corpus)


def test_a_freed_block_is_reused() -> None:
    postings = Postings()
    for position in range(0, 64, 2):  # two lists in turn, so that both move again and again
        for term in (0, 1):
            postings.add(np.array([term]), np.array([position + term]), np.array([0]))
    size = postings.nbytes
    postings.replace(0, 64, {0: [], 1: []})
    postings.add(np.full(32, 2), np.arange(32), np.zeros(32, np.int64))
    assert postings.of(2)[0].tolist() == list(range(32))
    assert postings.nbytes == size
