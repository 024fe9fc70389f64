"""The interface of an index that a memory strategy keeps over a channel's windows.

A history does not know these indexes. A strategy asks for its own by class,
`history.index(TurnFeatures)`: the history makes it the first time, passes changes on to it, counts
its bytes, and drops it together with the channel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import Window

__all__ = ["ReadTurns", "WindowIndex"]

ReadTurns = Callable[[int], Sequence[Turn]]
"""Gives the turns of a recorded window, by its index; also of windows recorded later."""


class WindowIndex(Protocol):
    """What a strategy keeps of recorded windows, so that it need not read them for every request.

    It reads a window when it is asked about it. So a strategy that never asks costs nothing, and an
    index that is made late misses nothing. Whoever asks says which windows, as `AsOf` does: nothing
    that was recorded later may change the answer.
    """

    def __init__(self, read: ReadTurns) -> None:
        """Start without having read any window."""
        ...

    def replace(self, window: Window) -> None:
        """Take note that a window's turns were changed; they are as in `window` now."""
        ...

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory the index takes."""
        ...
