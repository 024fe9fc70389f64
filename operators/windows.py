"""Windows: consecutive turns of one channel that get one summary, cut greedily at turn boundaries.

A window holds at most `tokens` tokens and `turns` turns; a single longer turn is a window alone.
A boundary that the history has recorded is a fact: replayed turns obey it instead of being cut
anew, because idle closing depends on clocks and settings may have changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from operators.messages import ChannelKey, Turn

__all__ = ["Cutting", "RecordedBoundaries", "Window", "WindowCutter", "WindowRef"]


@dataclass(frozen=True, slots=True)
class WindowRef:
    """A window by its place: channel, ordinal `index` in the channel and inclusive turn range.

    `revision` is the channel's revision when the window closed. `final` is false for the open
    window at the end of the input, which is summarised provisionally and not recorded.
    """

    key: ChannelKey
    index: int
    first_seq: int
    last_seq: int
    revision: int = 0
    final: bool = True


@dataclass(frozen=True, slots=True)
class Window:
    """A window with its turns, in order; `turns` is empty where the history already holds them."""

    ref: WindowRef
    turns: tuple[Turn, ...]

    @property
    def tokens(self) -> int:
        """Sum of the token counts of the turns."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def start(self) -> datetime:
        """Earliest time of a turn."""
        return min(turn.ts for turn in self.turns)

    @property
    def end(self) -> datetime:
        """Latest time of a turn."""
        return max(turn.ts for turn in self.turns)


class RecordedBoundaries(Protocol):
    """What a cutter asks of a channel's history."""

    @property
    def recorded_until(self) -> int:
        """The first `seq` that no recorded window holds."""
        ...

    def window_of(self, seq: int) -> WindowRef:
        """The recorded window that holds turn `seq`."""
        ...


@dataclass(frozen=True, slots=True)
class WindowCutter:
    """How windows are cut.

    Args:
        tokens: most tokens of a window.
        turns: most turns of a window.
        idle: a pause in event time that closes the open window; never when None.
    """

    tokens: int = 1024
    turns: int = 256
    idle: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Cutting:
    """The state of one channel's cut: its open turns and the ordinal of their window."""

    cutter: WindowCutter
    key: ChannelKey
    index: int = 0
    open: tuple[Turn, ...] = ()

    def push(self, turn: Turn, recorded: RecordedBoundaries) -> tuple[Cutting, list[Window]]:
        """Add one admitted turn; returns the new state and the windows this closed, in order."""
        state, closed = self, list[Window]()
        if state.open and state.open[0].seq < recorded.recorded_until:
            pending, state = state.open, replace(state, open=())
            for earlier in pending:
                state, more = state.push(earlier, recorded)
                closed += more
        if turn.seq < recorded.recorded_until:
            ref = recorded.window_of(turn.seq)
            if turn.seq == ref.last_seq:
                closed.append(Window(ref, ()))
            return replace(state, index=max(state.index, ref.index + 1)), closed
        if state.open and not state._fits(turn):
            state, window = state._close()
            closed.append(window)
        state = replace(state, open=(*state.open, turn))
        if state._full():
            state, window = state._close()
            closed.append(window)
        return state, closed

    def flush(self) -> tuple[Cutting, list[Window]]:
        """Close the open window now, if there is one."""
        if not self.open:
            return self, []
        state, window = self._close()
        return state, [window]

    def provisional(self) -> Window | None:
        """The open window as it stands, marked not final."""
        return self._window(final=False) if self.open else None

    def _fits(self, turn: Turn) -> bool:
        idle = self.cutter.idle
        return (
            sum(t.tokens for t in self.open) + turn.tokens <= self.cutter.tokens
            and len(self.open) < self.cutter.turns
            and (idle is None or turn.ts - max(earlier.ts for earlier in self.open) <= idle)
        )

    def _full(self) -> bool:
        """Whether no turn can be added, so that waiting for the next one would be idle."""
        return len(self.open) >= self.cutter.turns or sum(t.tokens for t in self.open) >= self.cutter.tokens

    def _window(self, *, final: bool) -> Window:
        ref = WindowRef(self.key, self.index, self.open[0].seq, self.open[-1].seq, final=final)
        return Window(ref, self.open)

    def _close(self) -> tuple[Cutting, Window]:
        return replace(self, index=self.index + 1, open=()), self._window(final=True)
