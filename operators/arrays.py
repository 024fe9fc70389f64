"""Append-only typed arrays: a prefix, once written, is never moved under a reader.

Growing copies into a larger buffer and leaves the old one to whoever still reads it, so a view of
the first `n` rows stays valid while another thread appends.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["GrowingArray"]


class GrowingArray:
    """Rows of one type and shape, appended in place; capacity doubles when it runs out."""

    __slots__ = ("_buffer", "_length")

    def __init__(self, dtype: DTypeLike, shape: tuple[int, ...] = (), capacity: int = 4) -> None:
        self._buffer: NDArray[Any] = np.empty((capacity, *shape), dtype=dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def view(self) -> NDArray[Any]:
        """The rows so far, without a copy."""
        return self._buffer[: self._length]

    def append(self, row: Any) -> None:
        """Add one row."""
        self._reserve(1)
        self._buffer[self._length] = row
        self._length += 1

    def extend(self, rows: Any) -> None:
        """Add several rows."""
        rows = np.asarray(rows, dtype=self._buffer.dtype).reshape(-1, *self._buffer.shape[1:])
        self._reserve(len(rows))
        self._buffer[self._length : self._length + len(rows)] = rows
        self._length += len(rows)

    def _reserve(self, rows: int) -> None:
        needed = self._length + rows
        if needed > len(self._buffer):
            capacity = max(needed, 2 * len(self._buffer))
            grown = np.empty((capacity, *self._buffer.shape[1:]), self._buffer.dtype)
            grown[: self._length] = self._buffer[: self._length]
            self._buffer = grown
