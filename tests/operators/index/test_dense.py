from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.index.dense import AsOfDense
from backscroll.operators.index.embedder import Vectors

Rows = list[tuple[int, int]]
rows = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=4)
changes = st.lists(st.tuples(st.none() | st.integers(0, 20), rows), max_size=12)


def vectors(rows: Rows) -> Vectors:
    """Vectors of small integers, so that their products are exact."""
    return np.asarray(rows, dtype=np.float32).reshape(-1, 2)


@given(changes=changes, queries=rows)
@settings(database=None, deadline=None, max_examples=200)
def test_scores_over_every_prefix_match_after_any_changes(
    changes: list[tuple[int | None, Rows]], queries: Rows
) -> None:
    index, windows = AsOfDense(2), list[Rows]()
    for place, rows in changes:
        if place is None or not windows:
            index.append_window(vectors(rows))
            windows.append(rows)
        else:
            index.replace_window(place % len(windows), vectors(rows))
            windows[place % len(windows)] = rows
        for cut in range(len(windows) + 1):
            seen = [row for window in windows[:cut] for row in window]
            scores = index.scores(vectors(queries), windows=cut)
            assert scores.dtype == np.float32
            assert scores.shape == (len(queries), len(seen))
            assert scores.tolist() == [[a * x + b * y for x, y in seen] for a, b in queries]


def test_scores_do_not_change_when_a_window_is_replaced_later() -> None:
    index = AsOfDense(2)
    index.append_window(vectors([(1, 0), (0, 1)]))
    before = index.scores(vectors([(2, 3)]), windows=1)
    index.replace_window(0, vectors([(0, 0)]))
    assert before.tolist() == [[2, 3]]
    assert index.scores(vectors([(2, 3)]), windows=1).tolist() == [[0]]


@pytest.mark.parametrize("window", [-1, 1])
def test_a_window_out_of_range_cannot_be_replaced(window: int) -> None:
    index = AsOfDense(2)
    index.append_window(vectors([(1, 0)]))
    with pytest.raises(IndexError, match=f"window {window} is out of range: the index has 1 windows"):
        index.replace_window(window, vectors([]))
    assert index.scores(vectors([(1, 1)]), windows=1).tolist() == [[1]]
