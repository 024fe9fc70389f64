from __future__ import annotations

import numpy as np

from backscroll.operators.memory.turn_features import TurnIndex, stems
from backscroll.operators.messages import Turn
from support.building import history_of, turn, windows_of

SAID = [["The pumps leak again.", "Which pump?"], ["Pump two leaks, see https://x.io/2", "ok"]]


def test_stems_leave_out_what_says_nothing() -> None:
    assert stems("The pumps leaked again, and Ana's valve is fine!") == [
        "pump",
        "leak",
        "ana",
        "valv",
        "fine",
    ]


def test_a_prefix_reads_as_a_fresh_index_of_it() -> None:
    windows = windows_of(SAID)
    whole, part = history_of(windows), history_of(windows[:1])
    whole.as_of(4).turn_rows()
    early, fresh = whole.as_of(2).turn_rows(), part.as_of(2).turn_rows()
    np.testing.assert_array_equal(early.columns, fresh.columns)
    np.testing.assert_array_equal(early.row, fresh.row)
    assert early["terms"].tolist() == [2, 1]
    assert early.frequency()[early.number("pump")] == 2
    assert fresh.number("two") is None


def test_rows_tell_questions_figures_and_addresses() -> None:
    rows = history_of(windows_of(SAID)).as_of(4).turn_rows()
    assert rows["question"].tolist() == [0, 1, 0, 0]
    assert rows["digit"].tolist() == [0, 0, 1, 0]
    assert rows["code"].tolist() == [0, 0, 1, 0]


def test_an_edit_reads_its_window_anew_and_leaves_older_views_alone() -> None:
    index, windows = TurnIndex(), {0: [turn(0, "a red valve"), turn(1, "a pump")], 2: [turn(2, "a hose")]}
    before = index.rows(3, lambda seq: windows[seq])
    windows[0] = [turn(0, "a green valve"), turn(1, "")]
    index.forget(0)
    after = index.rows(3, lambda seq: windows[seq])
    assert (before["terms"].tolist(), after["terms"].tolist()) == ([2, 1, 1], [2, 0, 1])
    assert after.number("red") is None, "a word that nobody says any more is not kept"
    assert after.frequency()[after.number("green")] == 1


def test_windows_that_were_not_asked_for_lately_are_read_again_as_they_were() -> None:
    said = {n: [turn(n, f"berth {n} has a red valve")] for n in range(8)}
    index, read = TurnIndex(most=3), list[int]()

    def window_at(seq: int) -> list[Turn]:
        read.append(seq)
        return said[seq]

    before = index.among([2, 5], window_at)
    for seq in range(8):
        index.among([seq], window_at)
    assert read == [2, 5, 0, 1, 2, 3, 4, 5, 6, 7]
    after = index.among([2, 5], window_at)
    np.testing.assert_array_equal(before.columns, after.columns)
    np.testing.assert_array_equal(before.row, after.row)
    assert after.frequency()[after.number("valv")] == 2
    assert after.terms < 20, "numbers of words that are in no window kept are given again"
