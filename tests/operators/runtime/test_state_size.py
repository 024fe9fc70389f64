"""The state kept for a channel between epochs stays small, however long its history is."""

from __future__ import annotations

import asyncio
import json
import pickle
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from backscroll.operators.engine import Engine
from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.messages import ChannelKey, Message
from backscroll.operators.runtime.calls import ConcurrentCalls, drain
from backscroll.operators.state_types import CODEC
from backscroll.operators.stream.admission import Admission, AdmissionState
from backscroll.operators.stream.windows import Cutting, Window, WindowCutter, WindowRef
from support.building import KEY, START, history_of, message, turn, windows_of

MOST = 64 * 1024
WINDOWS, TURNS = 8, 32  # of a channel that wait to be recorded, and turns of a usual one
BATCH = 128  # messages that a source hands on at once
SAMPLE = Path(__file__).resolve().parents[3] / "samples" / "harbor.jsonl"


def posted(number: int, text: str) -> Message:
    """One message a second, with an id as long as Slack's or Discord's."""
    return replace(message(f"1700000000.{number:08d}", text), ts=START + timedelta(seconds=number))


def talk() -> Callable[[int], str]:
    """A text of this many words of the sample, in random order."""
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    vocabulary, chooser = (
        [word for line in lines for word in json.loads(line)["text"].split()],
        random.Random(0),
    )
    return lambda words: " ".join(chooser.choices(vocabulary, k=words))


def idle_engine() -> Engine:
    """An engine of which only the counters are used."""
    return Engine(InMemoryStore())


def full(history: ChannelHistory, text: str) -> Admission:
    """A channel with full buffers: unrecorded turns, late messages, edits without their message."""
    admission = Admission(AdmissionState.over(history), patience=True)
    for number in range(WINDOWS * TURNS + BATCH):
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
        assert len(state.unrecorded) >= WINDOWS * TURNS + BATCH
        assert len(state.held) > 1
        sizes.append(len(pickle.dumps(CODEC.encode((state, ())))))
    assert max(sizes) < MOST
    assert abs(sizes[0] - sizes[1]) < 4 * 1024, "numbers of more digits, and nothing else"


@pytest.mark.parametrize("turns", [8, TURNS, 256])
def test_the_state_of_a_channel_is_small_even_if_all_waiting_windows_are_its_own(turns: int) -> None:
    """The state of the record step: windows with their turns. The limit holds for large and small windows."""
    said = talk()
    of_turn = max(1024 // turns * 5 // 8, 1)  # words
    waiting, engine = list[Window](), idle_engine()

    def close_one() -> None:
        first = len(waiting) * turns
        texts = [said(of_turn) for _ in range(turns)]
        made = [turn(first + n, text, id_=f"1700000000.{first + n:08d}") for n, text in enumerate(texts)]
        waiting.append(Window(WindowRef(KEY, len(waiting), first, first + turns - 1), tuple(made)))
        engine.wait_to_be_recorded(waiting[-1:])

    while not engine.throttled:
        close_one()
    assert len(waiting) == (WINDOWS if turns <= TURNS else 1)
    for _ in range(BATCH // turns):  # were read before the source waits
        close_one()

    async def never(_: Window) -> None:
        await asyncio.Event().wait()

    calls = ConcurrentCalls(never, (), codec=CODEC, per_key=8, stopping=threading.Event(), fail=pytest.fail)
    calls.on_batch(waiting)
    size = len(pickle.dumps(calls.snapshot()))
    drain()
    assert 4 * 1024 < size < MOST


@pytest.mark.parametrize("words", [3, 90])
def test_the_state_of_cutting_is_small_with_the_window_nearly_full(words: int) -> None:
    recorded = history_of(windows_of([["a", "b"]] * 50))
    cutting = Cutting.begin(WindowCutter(), KEY, recorded, None)
    said, largest = talk(), 0
    for seq in range(recorded.recorded_until, recorded.recorded_until + 600):
        cutting, _ = cutting.push(turn(seq, said(words), id_=f"1700000000.{seq:08d}"), recorded)
        if seq % 8 == 0:
            largest = max(largest, len(pickle.dumps(CODEC.encode(cutting))))
    assert 1024 < largest < 16 * 1024


def test_many_channels_can_wait_while_one_has_reached_its_limit() -> None:
    engine, other = idle_engine(), ChannelKey("default", "other")
    of_one = [Window(WindowRef(KEY, index, index, index), (turn(index, "ok"),)) for index in range(8)]
    engine.wait_to_be_recorded(of_one[:7])
    engine.wait_to_be_recorded(Window(WindowRef(other, n, n, n), (turn(n, "ok"),)) for n in range(7))
    assert not engine.throttled
    engine.wait_to_be_recorded(of_one[7:])
    assert engine.throttled
    engine.wait_to_be_recorded(of_one[:1], done=True)
    assert not engine.throttled
    keys = [ChannelKey("default", name) for name in map(str, range(18))]
    engine.wait_to_be_recorded(Window(WindowRef(key, 0, 0, 0), (turn(0, "ok"),)) for key in keys)
    assert engine.throttled
    engine.wait_to_be_recorded(of_one[:1], done=True)
    assert not engine.throttled
