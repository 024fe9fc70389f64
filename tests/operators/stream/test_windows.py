from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.history.chunks import Chunk
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.messages import Turn
from backscroll.operators.state_types import CODEC
from backscroll.operators.stream.windows import Cutting, Window, WindowCutter, WindowRef
from support.building import KEY, START, turn, window

NOTHING = ChannelHistory(KEY, None)


def cut(
    turns: Iterable[Turn], cutter: WindowCutter, recorded: ChannelHistory = NOTHING
) -> tuple[list[Window], Cutting]:
    """The windows that a series of turns closes, and the final state."""
    state, windows = Cutting(cutter, KEY), list[Window]()
    for item in turns:
        state, closed = state.push(item, recorded)
        windows += closed
    return windows, state


def seqs(windows: Iterable[Window]) -> list[list[int]]:
    return [[turn.seq for turn in window.turns] for window in windows]


def of_sizes(sizes: Iterable[int], minutes: Sequence[int] | None = None) -> list[Turn]:
    """Turns with these token counts; cutting ignores their text."""
    return [
        replace(turn(seq, "x"), tokens=size, ts=START + timedelta(minutes=minutes[seq] if minutes else seq))
        for seq, size in enumerate(sizes)
    ]


def test_a_window_closes_when_the_next_turn_does_not_fit() -> None:
    windows, state = cut(of_sizes([4, 4, 4]), WindowCutter(tokens=10))
    assert windows == [window(of_sizes([4, 4]))]
    assert seqs([state.provisional(NOTHING) or window([])]) == [[2]]


def test_a_full_window_closes_at_once() -> None:
    by_tokens, state = cut(of_sizes([4, 6]), WindowCutter(tokens=10))
    assert (seqs(by_tokens), state.open) == ([[0, 1]], ())
    by_turns, state = cut(of_sizes([1, 1, 1]), WindowCutter(tokens=10, turns=3))
    assert (seqs(by_turns), state.open) == ([[0, 1, 2]], ())


def test_a_turn_over_the_limit_is_a_window_of_its_own() -> None:
    windows, state = cut(of_sizes([3, 11, 3]), WindowCutter(tokens=10))
    assert seqs(windows) == [[0], [1]]
    assert [turn.seq for turn in state.open] == [2]


def test_the_default_limits_are_1024_tokens_and_256_turns() -> None:
    assert seqs(cut(of_sizes([1024, 1, 1023, 1]), WindowCutter())[0]) == [[0], [1, 2]]
    assert [len(w.turns) for w in cut(of_sizes([4] * 300), WindowCutter())[0]] == [256]
    assert [len(w.turns) for w in cut(of_sizes([1] * 600), WindowCutter())[0]] == [256, 256]


def test_windows_are_numbered_from_the_first_turn() -> None:
    windows, _ = cut(of_sizes([5, 5, 5, 5, 5, 5]), WindowCutter(tokens=10))
    assert [w.ref for w in windows] == [
        WindowRef(KEY, 0, 0, 1),
        WindowRef(KEY, 1, 2, 3),
        WindowRef(KEY, 2, 4, 5),
    ]


def test_a_pause_longer_than_idle_closes_the_window() -> None:
    turns = of_sizes([1, 1, 1, 1], minutes=[0, 30, 61, 91])
    assert seqs(cut(turns, WindowCutter(idle=timedelta(minutes=30)))[0]) == [[0, 1]]
    assert seqs(cut(turns, WindowCutter(idle=timedelta(minutes=31)))[0]) == []
    assert seqs(cut(turns, WindowCutter())[0]) == []


def test_a_late_turn_is_not_a_pause() -> None:
    turns = of_sizes([1, 1, 1], minutes=[120, 0, 121])
    assert seqs(cut(turns, WindowCutter(idle=timedelta(minutes=30)))[0]) == []


def test_a_flush_closes_the_open_window_and_nothing_else() -> None:
    _, state = cut(of_sizes([4, 4]), WindowCutter(tokens=10))
    flushed, closed = state.flush(NOTHING)
    assert closed == [window(of_sizes([4, 4]))]
    assert flushed == Cutting(WindowCutter(tokens=10), KEY, index=1)
    assert flushed.flush(NOTHING) == (flushed, [])


def test_the_open_window_at_the_end_is_provisional_and_stays_open() -> None:
    _, state = cut(of_sizes([4, 4]), WindowCutter(tokens=10))
    provisional = state.provisional(NOTHING)
    assert provisional == window(of_sizes([4, 4]), final=False)
    assert state.open == tuple(of_sizes([4, 4]))
    assert Cutting(WindowCutter(), KEY).provisional(NOTHING) is None


def test_a_window_knows_its_tokens_and_its_earliest_and_latest_time() -> None:
    late = window(of_sizes([4, 5, 6], minutes=[10, 3, 8]))
    assert late.tokens == 15
    assert late.start == START + timedelta(minutes=3)
    assert late.end == START + timedelta(minutes=10)


@given(
    sizes=st.lists(st.integers(1, 14), max_size=40),
    limit=st.integers(1, 20),
    most=st.integers(1, 6),
)
@settings(database=None, deadline=None)
def test_every_turn_is_in_exactly_one_window_and_windows_are_greedy(
    sizes: list[int], limit: int, most: int
) -> None:
    turns = of_sizes(sizes)
    windows, state = cut(turns, WindowCutter(limit, most))
    assert [turn for window in windows for turn in window.turns] + list(state.open) == turns
    assert [window.ref.index for window in windows] == list(range(len(windows)))
    for closed in windows:
        assert (closed.ref.first_seq, closed.ref.last_seq) == (closed.turns[0].seq, closed.turns[-1].seq)
        assert closed.tokens <= limit or len(closed.turns) == 1
        assert len(closed.turns) <= most
        following = turns[closed.ref.last_seq + 1 :][:1]
        full = closed.tokens >= limit or len(closed.turns) == most
        assert full or closed.tokens + following[0].tokens > limit
    assert sum(turn.tokens for turn in state.open) < limit
    assert len(state.open) < most


@given(
    sizes=st.lists(st.integers(1, 14), max_size=20),
    at=st.integers(0, 20),
    limit=st.integers(1, 20),
)
@settings(database=None, deadline=None)
def test_resuming_cuts_the_same_windows(sizes: list[int], at: int, limit: int) -> None:
    turns, cutter = of_sizes(sizes), WindowCutter(limit, 5, timedelta(minutes=30))
    before, state = cut(turns[:at], cutter)
    resumed: Cutting = CODEC.decode(CODEC.encode(state))
    assert resumed == state
    for item in turns[at:]:
        resumed, closed = resumed.push(item, NOTHING)
        before += closed
    assert (before, resumed) == cut(turns, cutter)


def history(turns: Sequence[Turn], lengths: Iterable[int]) -> ChannelHistory:
    """A history with the turns recorded in windows of these lengths."""
    windows, first = list[Window](), 0
    for index, length in enumerate(lengths):
        windows.append(window(turns[first : first + length], index))
        first += length
    return recording(windows)


def recording(windows: Iterable[Window]) -> ChannelHistory:
    """A history with these windows recorded; cutting ignores their chunks."""
    recorded = ChannelHistory(KEY, None)
    for closed in windows:
        chunk = Chunk(0, 1, closed.ref.first_seq, closed.ref.last_seq, "")
        recorded.append(RecordedWindow(closed, (chunk,), None, None))
    return recorded


def test_recorded_boundaries_apply_even_if_settings_change() -> None:
    turns = of_sizes([4] * 9)
    recorded = history(turns, [3, 1, 2])
    windows, state = cut(turns, WindowCutter(tokens=8), recorded)
    assert [w.ref for w in windows] == [
        WindowRef(KEY, 0, 0, 2),
        WindowRef(KEY, 1, 3, 3),
        WindowRef(KEY, 2, 4, 5),
        WindowRef(KEY, 3, 6, 7),
    ]
    assert seqs(windows) == [[], [], [], [6, 7]]  # the history holds the turns of recorded windows
    assert (state.index, [turn.seq for turn in state.open]) == (4, [8])


def test_open_turns_recorded_meanwhile_are_no_longer_open() -> None:
    turns = of_sizes([4] * 7)
    state = Cutting(WindowCutter(), KEY, open=tuple(turns[:4]))  # restored from before a crash
    state, windows = state.push(turns[4], history(turns, [2, 1]))
    assert windows == [Window(WindowRef(KEY, 0, 0, 1), ()), Window(WindowRef(KEY, 1, 2, 2), ())]
    assert (state.index, [turn.seq for turn in state.open]) == (2, [3, 4])


def test_open_turns_within_a_recorded_window_wait_for_its_last_turn() -> None:
    turns = of_sizes([4] * 7)
    recorded = history(turns, [6])
    state = Cutting(WindowCutter(tokens=8), KEY, open=tuple(turns[:2]))
    closed = list[list[Window]]()
    for item in turns[2:]:
        state, windows = state.push(item, recorded)
        closed.append(windows)
    assert closed == [[], [], [], [Window(WindowRef(KEY, 0, 0, 5), ())], []]
    assert (state.index, [turn.seq for turn in state.open]) == (1, [6])


@given(
    sizes=st.lists(st.integers(1, 14), min_size=1, max_size=25),
    limits=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    snapshot=st.integers(0, 25),
    crash=st.integers(0, 25),
)
@settings(database=None, deadline=None, max_examples=60)
def test_a_replay_after_a_crash_closes_the_recorded_windows(
    sizes: list[int], limits: tuple[int, int], snapshot: int, crash: int
) -> None:
    turns = of_sizes(sizes)
    first, second = WindowCutter(limits[0], 5), WindowCutter(limits[1], 4)
    crash = min(max(snapshot, crash), len(turns))
    snapshot = min(snapshot, crash)
    known, _ = cut(turns[:crash], first)
    before, state = cut(turns[:snapshot], first)
    recorded = recording(known)

    replayed = replace(state, cutter=second)
    after = list[Window]()
    for item in turns[snapshot:]:
        replayed, closed = replayed.push(item, recorded)
        after += closed

    refs = [w.ref for w in before + after]
    assert refs[: len(known)] == [w.ref for w in known]
    assert [ref.index for ref in refs] == list(range(len(refs)))
    edges = [0] + [ref.last_seq + 1 for ref in refs]
    assert [ref.first_seq for ref in refs] == edges[:-1]
    assert edges[-1] + len(replayed.open) == len(turns)


def test_new_turns_between_replayed_ones_do_not_decrease_the_index() -> None:
    """As in a re-exported file with late replies in the middle: old turns are replayed after new windows."""
    history = ChannelHistory(KEY, None)
    for index, first in enumerate((0, 2)):
        chunks = (Chunk(0, 1, first, first + 1, "x"),)
        closed = window(of_sizes([1] * 4)[first : first + 2], index)
        history.append(RecordedWindow(closed, chunks, None, None))
    old, new = of_sizes([1] * 4), of_sizes([1] * 8)[4:]
    state, windows = Cutting(WindowCutter(turns=2), KEY, 2), list[Window]()
    for item in (*old[:2], *new, *old[2:]):
        state, closed_now = state.push(item, history)
        windows += closed_now
    assert [(w.ref.index, w.ref.first_seq, w.ref.last_seq) for w in windows] == [
        (0, 0, 1),
        (2, 4, 5),
        (3, 6, 7),
        (1, 2, 3),
    ]
    assert state.index == 4
