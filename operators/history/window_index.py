"""The interface of an index that a memory strategy keeps over a channel's windows.

A history does not know the indexes in advance. A strategy asks for its own by class,
`history.index(TurnFeatures)`. The history creates it on first use, notifies it of changes, counts
its bytes, and drops it together with the channel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import Window

__all__ = ["ReadTurns", "WindowIndex"]

ReadTurns = Callable[[int], Sequence[Turn]]
"""Returns the turns of a recorded window by its index, including windows recorded later."""


class WindowIndex(Protocol):
    """What a strategy keeps about recorded windows, so that it need not read them for every request.

    It reads a window the first time it is asked about it. So a strategy that never asks costs
    nothing, and an index created late misses nothing. The caller states which windows to use, as
    `AsOf` does: windows recorded later must not change the answer.
    """

    def __init__(self, read: ReadTurns) -> None:
        """Start empty: no window has been read."""
        ...

    def replace(self, window: Window) -> None:
        """Handle a change of a window's turns; `window` has the new ones."""
        ...

    @property
    def nbytes(self) -> int:
        """Approximate size of the index in memory, in bytes."""
        ...
