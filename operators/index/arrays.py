"""Growing typed arrays whose views stay valid while another thread changes the array.

Growing and replacing copy the rows into a new buffer; existing views keep the old one. To change a row
in place, also for existing views, assign to the view: `array.view[5] = row`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["GrowingArray"]


class GrowingArray:
    """An array of rows of one type and shape; its capacity doubles when it is full."""

    __slots__ = ("_buffer", "_length")

    def __init__(self, dtype: DTypeLike, shape: tuple[int, ...] = (), capacity: int = 4) -> None:
        self._buffer: NDArray[Any] = np.empty((capacity, *shape), dtype=dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def view(self) -> NDArray[Any]:
        """The current rows, without a copy."""
        return self._buffer[: self._length]

    @property
    def nbytes(self) -> int:
        """The size of the buffer in bytes."""
        return self._buffer.nbytes

    def append(self, row: Any) -> None:
        """Add one row."""
        self._reserve(1)
        self._buffer[self._length] = row
        self._length += 1

    def extend(self, rows: Any) -> None:
        """Add several rows."""
        rows = self._shaped(rows)
        self._reserve(len(rows))
        self._buffer[self._length : self._length + len(rows)] = rows
        self._length += len(rows)

    def replace(self, start: int, stop: int, rows: Any) -> None:
        """Replace rows `[start, stop)` with any number of rows, in a new buffer.

        Raises:
            IndexError: `[start, stop)` is not a valid range of rows.
        """
        if not 0 <= start <= stop <= self._length:
            raise IndexError(f"rows [{start}, {stop}) are out of range: the array has {self._length} rows")
        rows = self._shaped(rows)
        self._buffer = np.concatenate([self._buffer[:start], rows, self._buffer[stop : self._length]])
        self._length = len(self._buffer)

    def _shaped(self, rows: Any) -> NDArray[Any]:
        return np.asarray(rows, dtype=self._buffer.dtype).reshape(-1, *self._buffer.shape[1:])

    def _reserve(self, rows: int) -> None:
        needed = self._length + rows
        if needed > len(self._buffer):
            capacity = max(needed, 2 * len(self._buffer))
            grown = np.empty((capacity, *self._buffer.shape[1:]), self._buffer.dtype)
            grown[: self._length] = self._buffer[: self._length]
            self._buffer = grown
