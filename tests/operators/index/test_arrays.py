from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.index.arrays import GrowingArray

numbers = st.lists(st.integers(-9, 9), max_size=6)


def array_of(rows: list[int]) -> GrowingArray:
    array = GrowingArray(np.int32)
    array.extend(rows)
    return array


@given(rows=numbers, new=numbers, more=numbers, data=st.data())
@settings(database=None, deadline=None)
def test_replacing_rows_works_like_a_list(
    rows: list[int], new: list[int], more: list[int], data: st.DataObject
) -> None:
    array = array_of(rows)
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    array.replace(start, stop, new)
    rows[start:stop] = new
    assert array.view.tolist() == rows
    array.extend(more)
    array.append(7)
    assert array.view.tolist() == [*rows, *more, 7]
    assert array.view.dtype == np.int32
    assert len(array) == len(rows) + len(more) + 1


def test_a_view_does_not_change_when_rows_are_replaced_or_appended() -> None:
    array = array_of([1, 2, 3])
    view = array.view
    array.replace(0, 2, [8])
    array.extend([9] * 20)
    assert view.tolist() == [1, 2, 3]
    assert array.view[:3].tolist() == [8, 3, 9]


def test_rows_of_vectors_can_be_replaced() -> None:
    array = GrowingArray(np.float32, (2,))
    array.extend([[1, 2], [3, 4], [5, 6]])
    array.replace(1, 2, [[7, 8], [9, 10]])
    assert array.view.tolist() == [[1, 2], [7, 8], [9, 10], [5, 6]]
    array.replace(0, 4, [])
    assert array.view.shape == (0, 2)
    array.append([1, 1])
    assert array.view.tolist() == [[1, 1]]


def test_a_row_is_set_through_the_view() -> None:
    array = GrowingArray(np.float32, (2,))
    array.extend([[1, 2], [3, 4]])
    array.view[1] = [0, 5]
    assert array.view.tolist() == [[1, 2], [0, 5]]


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (2, 1), (0, 4), (4, 4)])
def test_rows_out_of_range_cannot_be_replaced(start: int, stop: int) -> None:
    array = array_of([1, 2, 3])
    with pytest.raises(IndexError, match=rf"rows \[{start}, {stop}\) are out of range: the array has 3 rows"):
        array.replace(start, stop, [5])
    assert array.view.tolist() == [1, 2, 3]
