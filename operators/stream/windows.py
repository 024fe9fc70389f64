"""Windows: consecutive turns of a channel that get one summary, cut greedily at turn boundaries.

A window has at most `tokens` tokens and `turns` turns; a single longer turn is a window of its own.
Recorded boundaries never change: replayed turns follow them instead of being cut again, because idle
closing depends on clocks, and the settings may have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from backscroll.operators.messages import ChannelKey, Turn
from backscroll.operators.stream.changes import Change

__all__ = ["Cutting", "RecordedBoundaries", "Window", "WindowCutter", "WindowRef"]


@dataclass(frozen=True, slots=True)
class WindowRef:
    """Identifies a window: its channel, its `index` in the channel, and its inclusive range of turns.

    `revision` is the channel's revision when the window closed. `final` is false for the open window at the
    end of the input, which gets a provisional summary and is not recorded.
    """

    key: ChannelKey
    index: int
    first_seq: int
    last_seq: int
    revision: int = 0
    final: bool = True


@dataclass(frozen=True, slots=True)
class Window:
    """A window with its turns, in order; `turns` is empty if the history already has them."""

    ref: WindowRef
    turns: tuple[Turn, ...]

    @property
    def tokens(self) -> int:
        """The total number of tokens of the turns."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def live(self) -> Window:
        """The window without deleted turns."""
        return Window(self.ref, tuple(turn for turn in self.turns if not turn.deleted))

    @property
    def start(self) -> datetime:
        """The earliest time of a turn."""
        return min(turn.ts for turn in self.turns)

    @property
    def end(self) -> datetime:
        """The latest time of a turn."""
        return max(turn.ts for turn in self.turns)


class RecordedBoundaries(Protocol):
    """The part of a channel's history that cutting needs."""

    @property
    def recorded_until(self) -> int:
        """The first `seq` that is in no recorded window."""
        ...

    @property
    def windows(self) -> Sequence[WindowRef]:
        """The recorded windows, in order."""
        ...

    def window_of(self, seq: int) -> WindowRef:
        """The recorded window that contains turn `seq`."""
        ...


@dataclass(frozen=True, slots=True)
class WindowCutter:
    """Limits that decide where windows are cut.

    Args:
        tokens: the most tokens in a window.
        turns: the most turns in a window.
        idle: the pause in event time that closes the open window; None for no limit.
    """

    tokens: int = 1024
    turns: int = 256
    idle: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Cutting:
    """The cutting state of a channel: its open turns and the index of the next window to close."""

    cutter: WindowCutter
    key: ChannelKey
    index: int = 0
    open: tuple[Turn, ...] = ()

    @classmethod
    def begin(
        cls, cutter: WindowCutter, key: ChannelKey, recorded: RecordedBoundaries, first: int | None
    ) -> Cutting:
        """Start at the turn `first`, which may be recorded already, or after all recorded windows."""
        if first is None or first >= recorded.recorded_until:
            return cls(cutter, key, len(recorded.windows))
        return cls(cutter, key, recorded.window_of(first).index)

    def push(self, turn: Turn, recorded: RecordedBoundaries) -> tuple[Cutting, list[Window]]:
        """Add an admitted turn; returns the new state and the windows it closed, in order."""
        if turn.seq < recorded.recorded_until:
            state, closed = self._follow(recorded, turn.seq + 1)
            ref = recorded.window_of(turn.seq)
            if ref.index < self.index and turn.seq == ref.last_seq:  # repeated after newer turns
                closed.append(Window(ref, ()))
            return state, closed
        state, closed = self._follow(recorded, recorded.recorded_until)
        state, more = state._add(turn)
        return state, closed + more

    def change(self, change: Change, recorded: RecordedBoundaries) -> tuple[Cutting, list[Window], bool]:
        """Change a turn of the open window; the last returned value is false if it has no such turn.

        If the window outgrows its limits, it is cut as if the turns had arrived that way.
        """
        state, closed = self._follow(recorded, recorded.recorded_until)
        place = next((place for place, turn in enumerate(state.open) if turn.id == change.id), None)
        if place is None:
            return state, closed, False
        changed = change.apply(state.open[place])
        if changed is None:
            return state, closed, True
        turns = (*state.open[:place], changed, *state.open[place + 1 :])
        state = replace(state, open=())
        for turn in turns:
            state, more = state._add(turn)
            closed += more
        return state, closed, True

    def flush(self, recorded: RecordedBoundaries) -> tuple[Cutting, list[Window]]:
        """Close the open window now, if there is one."""
        state, closed = self._follow(recorded, recorded.recorded_until)
        if state.open:
            state, window = state._close()
            closed.append(window)
        return state, closed

    def provisional(self, recorded: RecordedBoundaries) -> Window | None:
        """The open window in its current state, marked as not final."""
        state, _ = self._follow(recorded, recorded.recorded_until)
        return state._window(final=False) if state.open else None

    def _follow(self, recorded: RecordedBoundaries, until: int) -> tuple[Cutting, list[Window]]:
        """Emit the recorded windows that end before turn `until`; their turns are no longer open."""
        index, closed = self.index, list[Window]()
        while index < len(recorded.windows) and recorded.windows[index].last_seq < until:
            closed.append(Window(recorded.windows[index], ()))
            index += 1
        if not closed:
            return self, []
        last_seq = closed[-1].ref.last_seq
        still_open = tuple(turn for turn in self.open if turn.seq > last_seq)
        return replace(self, index=index, open=still_open), closed

    def _add(self, turn: Turn) -> tuple[Cutting, list[Window]]:
        state, closed = self, list[Window]()
        if state.open and not state._fits(turn):
            state, window = state._close()
            closed.append(window)
        state = replace(state, open=(*state.open, turn))
        if state._full():
            state, window = state._close()
            closed.append(window)
        return state, closed

    def _fits(self, turn: Turn) -> bool:
        idle = self.cutter.idle
        return (
            sum(t.tokens for t in self.open) + turn.tokens <= self.cutter.tokens
            and len(self.open) < self.cutter.turns
            and (idle is None or turn.ts - max(earlier.ts for earlier in self.open) <= idle)
        )

    def _full(self) -> bool:
        """Whether no further turn can fit, so that the window can close at once."""
        return len(self.open) >= self.cutter.turns or sum(t.tokens for t in self.open) >= self.cutter.tokens

    def _window(self, *, final: bool) -> Window:
        ref = WindowRef(self.key, self.index, self.open[0].seq, self.open[-1].seq, final=final)
        return Window(ref, self.open)

    def _close(self) -> tuple[Cutting, Window]:
        return replace(self, index=self.index + 1, open=()), self._window(final=True)
