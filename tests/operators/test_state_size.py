"""What is kept for a channel between two epochs stays small, however long its history is."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import timedelta

import pytest
from building import KEY, START, history_of, message, turn, windows_of

from operators.admission import Admission, AdmissionState
from operators.history import ChannelHistory
from operators.messages import Message
from operators.state import stamped
from operators.windows import Cutting, WindowCutter

MOST = 64 * 1024
WINDOWS, TURNS = 32, 30  # the engine lets so many windows wait to be recorded; turns of a usual one


def posted(number: int, text: str) -> Message:
    """One message a second, with an id as long as Slack's or Discord's."""
    return replace(message(f"1700000000.{number:08d}", text), ts=START + timedelta(seconds=number))


def full(history: ChannelHistory, text: str) -> Admission:
    """A channel whose buffers are full: unrecorded turns, late messages, edits without their message."""
    admission = Admission(AdmissionState.over(history), patience=True)
    for number in range(WINDOWS * TURNS):
        list(admission.admit(posted(number, "ok"), history))
    list(admission.release(history, None))
    for number in range(40):
        edit = replace(posted(10**6 + number, text), op="edit")
        list(admission.admit(edit, history))
    held = 0
    while len(admission.snapshot(history).held) == held:
        list(admission.admit(posted(10**5 + held, text), history))
        held += 1
    return admission


@pytest.mark.parametrize("text", ["", "k", "The valve arrived today. " * 6, "漢字かな交じり文" * 20])
def test_the_state_of_admission_is_small_with_its_buffers_full(text: str) -> None:
    long = history_of(windows_of([[f"berth {n} is free", "ok"] for n in range(200)]))
    sizes = []
    for history in (ChannelHistory(KEY, None), long):
        state = full(history, text).snapshot(history)
        assert len(state.unrecorded) >= WINDOWS * TURNS
        assert len(state.held) > 1
        sizes.append(len(pickle.dumps(stamped((state, ())))))
    assert max(sizes) < MOST
    assert abs(sizes[0] - sizes[1]) < 4 * 1024, "numbers of more digits, and nothing else"


@pytest.mark.parametrize("words", [3, 900])
def test_the_state_of_the_cut_is_small_with_the_window_nearly_full(words: int) -> None:
    recorded = history_of(windows_of([["a", "b"]] * 50))
    cutting = Cutting.begin(WindowCutter(), KEY, recorded, None)
    largest = 0
    for seq in range(recorded.recorded_until, recorded.recorded_until + 600):
        cutting, _ = cutting.push(turn(seq, "valve " * words, id_=f"1700000000.{seq:08d}"), recorded)
        if seq % 8 == 0:
            largest = max(largest, len(pickle.dumps(stamped(cutting))))
    assert 4 * 1024 < largest < MOST
