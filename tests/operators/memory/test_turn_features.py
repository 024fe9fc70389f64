from __future__ import annotations

from dataclasses import replace

import numpy as np

from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.memory.turn_features import TurnFeatures, TurnRows, stems, window_columns
from backscroll.operators.messages import Turn
from support.building import history_of, turn, windows_of

SAID = [["The pumps leak again.", "Which pump?"], ["Pump two leaks, see https://x.io/2", "ok"]]


def test_stems_leave_out_stop_words() -> None:
    assert stems("The pumps leaked again, and Ana's valve is fine!") == [
        "pump",
        "leak",
        "ana",
        "valv",
        "fine",
    ]


def rows_of(history: ChannelHistory, before_seq: int) -> TurnRows:
    past = history.as_of(before_seq)
    return past.index(TurnFeatures).rows(range(past.windows))


def test_a_prefix_equals_a_fresh_index_of_it() -> None:
    windows = windows_of(SAID)
    whole, part = history_of(windows), history_of(windows[:1])
    rows_of(whole, 4)
    early, fresh = rows_of(whole, 2), rows_of(part, 2)
    np.testing.assert_array_equal(early.columns, fresh.columns)
    np.testing.assert_array_equal(early.row, fresh.row)
    assert early["terms"].tolist() == [2, 1]
    assert early.frequency()[early.number("pump")] == 2
    assert fresh.number("two") is None


def test_rows_mark_questions_figures_and_addresses() -> None:
    rows = rows_of(history_of(windows_of(SAID)), 4)
    assert rows["question"].tolist() == [0, 1, 0, 0]
    assert rows["digit"].tolist() == [0, 0, 1, 0]
    assert rows["code"].tolist() == [0, 0, 1, 0]


def test_an_edit_changes_the_rows_of_its_window_but_not_rows_returned_before() -> None:
    windows = windows_of([["a red valve", "a pump"], ["a hose"]])
    index = TurnFeatures(lambda at: windows[at].turns)
    before = index.rows(range(2))
    windows[0] = replace(windows[0], turns=(turn(0, "a green valve"), turn(1, "")))
    index.replace(windows[0])
    after = index.rows(range(2))
    assert (before["terms"].tolist(), after["terms"].tolist()) == ([2, 1, 1], [2, 0, 1])
    assert after.number("red") is None, "a word that nobody says any more is not kept"
    assert after.frequency()[after.number("green")] == 1


def test_windows_that_were_not_used_recently_are_read_again_with_the_same_rows() -> None:
    said = {n: [turn(n, f"berth {n} has a red valve")] for n in range(8)}
    read = list[int]()

    def turns_of(window: int) -> list[Turn]:
        read.append(window)
        return said[window]

    index = TurnFeatures(turns_of, most=3)
    before = index.rows([2, 5])
    for window in range(8):
        index.rows([window])
    assert read == [2, 5, 0, 1, 2, 3, 4, 5, 6, 7]
    after = index.rows([2, 5])
    np.testing.assert_array_equal(before.columns, after.columns)
    np.testing.assert_array_equal(before.row, after.row)
    assert after.frequency()[after.number("valv")] == 2
    assert after.terms < 20, "numbers of words that are in no window kept are given again"


def test_an_open_window_has_the_same_columns_once_it_is_recorded() -> None:
    windows = windows_of(SAID)
    before, after = history_of(windows[:1]), history_of(windows)
    open_columns = window_columns(before.as_of(2), windows[1].turns)
    np.testing.assert_array_equal(open_columns, window_columns(after.as_of(2), windows[1].turns))
    assert before.index(TurnFeatures).nbytes == 0
    assert after.index(TurnFeatures).nbytes > 0
