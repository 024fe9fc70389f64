from __future__ import annotations

import numpy as np
import pytest

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.memory import excerpt as module
from backscroll.operators.memory.backscroll import rank_all
from backscroll.operators.memory.excerpt import Excerpt, excerpt
from backscroll.operators.memory.request import MemoryParameters, MemoryRequest
from backscroll.operators.stream.windows import Window
from support.building import HashingEmbedder, history_of, windows_of
from support.memories import remembered

EMBEDDER = HashingEmbedder()
SAID = [[f"berth {n} is free on day {n}", "ok then"] for n in range(40)]
SAID[7] = ["the bilge pump leaks", "Marta ordered a gasket for it"]
WINDOW = windows_of([*SAID, ["did the gasket for the bilge pump come?", "not yet"]])[-1]


@pytest.fixture
def history() -> ChannelHistory:
    return history_of(windows_of(SAID), embedder=EMBEDDER)


def asking(history: ChannelHistory, window: Window = WINDOW) -> MemoryRequest:
    gap = Gap(window.turns[0].id, "the gasket", "which gasket?", "gasket bilge pump", ("gasket",))
    return MemoryRequest(window.turns, [gap], history.as_of(window.ref.first_seq), MemoryParameters(EMBEDDER))


def test_a_short_history_is_used_whole(history: ChannelHistory) -> None:
    request = asking(history)
    assert excerpt(request) == Excerpt.whole(request.history)
    assert len(excerpt(request)) == 80


def test_a_long_history_is_reduced_to_the_latest_windows_and_those_found(
    history: ChannelHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RECENT", 3)
    monkeypatch.setattr(module, "_FOUND", 2)
    taken = excerpt(asking(history))
    assert len(taken.windows) == 5
    assert taken.windows[-3:] == [37, 38, 39]
    assert 7 in taken.windows
    assert list(taken.windows) == sorted(taken.windows)


def test_an_excerpt_equals_a_history_of_only_its_windows(history: ChannelHistory) -> None:
    taken = Excerpt.of(history.as_of(80), [7, 8, 39])
    alone = Excerpt.whole(history_of(windows_of([SAID[7], SAID[8], SAID[39]]), embedder=EMBEDDER).as_of(6))
    assert len(taken) == len(alone) == 6
    assert [taken.turn(at).text for at in range(6)] == [alone.turn(at).text for at in range(6)]
    assert [taken.turn(at).seq for at in range(6)] == [14, 15, 16, 17, 78, 79]
    ours, theirs = taken.rows(), alone.rows()
    columns = [column for column in range(theirs.columns.shape[1]) if column != 1]  # but the time
    np.testing.assert_array_equal(ours.columns[:, columns], theirs.columns[:, columns])
    np.testing.assert_array_equal(ours.row, theirs.row)
    for word in ("gasket", "berth", "leak"):
        assert ours.frequency()[ours.number(word)] == theirs.frequency()[theirs.number(word)]
    np.testing.assert_array_equal(taken.vectors(), alone.vectors())


def test_the_memory_of_a_long_history_has_the_turns_of_the_full_history(
    history: ChannelHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RECENT", 3)
    monkeypatch.setattr(module, "_FOUND", 2)
    memory = remembered("backscroll", asking(history))
    assert {entry.turn.seq for entry in memory} >= {14, 15}
    assert all(entry.turn == history.turns(entry.turn.seq, entry.turn.seq)[0] for entry in memory)


def test_all_turns_of_a_long_history_can_be_ranked_to_compare(
    history: ChannelHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = remembered("backscroll", asking(history))
    monkeypatch.setattr(module, "_RECENT", 1)
    monkeypatch.setattr(module, "_FOUND", 0)
    assert rank_all(asking(history)) == whole
    assert {entry.turn.seq for entry in remembered("backscroll", asking(history))} <= {78, 79}
