from __future__ import annotations

import gc
import weakref
from dataclasses import replace

from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.history.window_index import ReadTurns
from backscroll.operators.stream.windows import Window
from support.building import KEY, history_of, recorded, turn, windows_of


class Shouting:
    """A strategy's index: the text of a window in capitals."""

    def __init__(self, read: ReadTurns) -> None:
        self._read = read
        self._said: dict[int, str] = {}

    def said(self, window: int) -> str:
        if window not in self._said:
            self._said[window] = " ".join(turn.text.upper() for turn in self._read(window))
        return self._said[window]

    def replace(self, window: Window) -> None:
        self._said.pop(window.ref.index, None)

    @property
    def nbytes(self) -> int:
        return 1000 * len(self._said)


def test_an_index_is_created_once_and_reads_earlier_and_later_windows() -> None:
    first, second, third = windows_of([["the pump leaks"], ["lunch?"], ["no"]])
    history = history_of([first, second])
    index = history.index(Shouting)
    assert history.as_of(2).index(Shouting) is index
    assert index.said(0) == "THE PUMP LEAKS"
    history.append(recorded(third, None, Chunker()))
    assert index.said(2) == "NO"


def test_an_index_is_notified_of_changes() -> None:
    windows = windows_of([["the pump leaks"], ["lunch?"]])
    history = history_of(windows)
    index = history.index(Shouting)
    assert index.said(0) == "THE PUMP LEAKS"
    changed = replace(windows[0], turns=(turn(0, "the valve leaks"),))
    history.replace(recorded(changed, None, Chunker()))
    assert index.said(0) == "THE VALVE LEAKS"


def test_the_bytes_of_an_index_count_towards_its_history() -> None:
    history = history_of(windows_of([["the pump leaks"], ["lunch?"]]))
    before = history.nbytes
    index = history.index(Shouting)
    assert history.nbytes == before, "an index that was asked nothing holds nothing"
    index.said(0)
    index.said(1)
    assert history.nbytes == before + 2000
    assert history.sizes()["window_indexes"] == 2000


def test_an_index_counts_towards_the_ceiling() -> None:
    histories = Histories(InMemoryStore(), None, Chunker(), ceiling=1 << 20)
    first, second = windows_of([["the pump leaks"], ["lunch?"]])
    histories.record(first)
    held = histories.nbytes
    histories[KEY].index(Shouting).said(0)
    histories.record(second)
    assert histories.nbytes >= held + 1000


def test_an_index_does_not_keep_a_dropped_history_in_memory() -> None:
    history = history_of(windows_of([["the pump leaks"]]))
    history.index(Shouting).said(0)
    alive = weakref.ref(history)
    gc.disable()
    try:
        del history
        assert alive() is None, "nothing that an index holds leads back to its history"
    finally:
        gc.enable()
