from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.memory.registry import names
from backscroll.operators.memory.request import MemoryParameters, MemoryRequest, MemoryTurn, Retrieval
from backscroll.operators.messages import Turn
from support.building import HashingEmbedder, history_of, turn, windows_of
from support.memories import remembered

EMBEDDER = HashingEmbedder()
WINDOW = [turn(90, "pump")]
word = st.sampled_from(["pump", "valve", "leaks", "lunch", "the", "漢字", "🧭", "\n"])
texts = st.lists(word, max_size=14).map(" ".join)
corpora = st.lists(st.lists(texts, min_size=1, max_size=4), max_size=5)
gaps_ = st.lists(st.builds(Gap, st.just("m90"), word, st.just(""), texts), max_size=4)


def gap(text: str) -> Gap:
    return Gap("m90", text, "", "")


def request(
    history: ChannelHistory,
    *gaps: Gap,
    turns: Sequence[Turn] = WINDOW,
    budget: int = 1024,
    before_seq: int = 90,
    **retrieval: Any,
) -> MemoryRequest:
    past = history.as_of(before_seq)
    return MemoryRequest(turns, gaps, past, MemoryParameters(EMBEDDER, budget, Retrieval(**retrieval)))


def taken(memory: Sequence[MemoryTurn]) -> list[tuple[str, int | None, int, float]]:
    return [(entry.turn.id, entry.gap, entry.rank, entry.score) for entry in memory]


@pytest.mark.parametrize("name", names())
@given(corpus=corpora, gaps=gaps_, budget=st.integers(0, 120), data=st.data())
@settings(database=None, deadline=None, max_examples=25)
def test_a_memory_is_verbatim_history_within_the_budget(
    name: str, corpus: list[list[str]], gaps: list[Gap], budget: int, data: st.DataObject
) -> None:
    windows = windows_of(corpus)
    history = history_of(windows, embedder=EMBEDDER, chunker=Chunker(16, 4))
    index = data.draw(st.integers(0, len(windows)))
    current = windows[index].turns if index < len(windows) else WINDOW
    past = history.as_of(current[0].seq)
    parameters = MemoryParameters(EMBEDDER, budget, Retrieval(top_k=5, chunk_size=16))
    memory = remembered(name, MemoryRequest(current, gaps, past, parameters))

    assert sum(entry.tokens for entry in memory) <= budget
    order = [(entry.turn.seq, entry.span or (0, len(entry.turn.text))) for entry in memory]
    assert order == sorted(order)
    for (seq, (_, end)), (next_seq, (start, _)) in pairwise(order):
        assert seq < next_seq or end <= start
    for entry in memory:
        assert entry.turn.seq < current[0].seq
        assert entry.turn == past.turn(entry.turn.seq)
        assert entry.span != (0, len(entry.turn.text))
        assert entry.text == (entry.turn.text[slice(*entry.span)] if entry.span else entry.turn.text)
        assert 0 < entry.tokens <= entry.turn.tokens
        assert entry.rank >= 1
        if name in ("recent", "remember"):
            assert (entry.span, entry.tokens) == (None, entry.turn.tokens)
        if name == "remember" or (name == "backscroll" and gaps):
            assert entry.gap in range(len(gaps))
        else:
            assert entry.gap is None


@pytest.mark.parametrize("name", names())
def test_an_empty_history_gives_an_empty_memory(name: str) -> None:
    history = history_of([], embedder=EMBEDDER)
    assert remembered(name, request(history, gap("pump"))) == ()


@pytest.mark.parametrize("name", names())
def test_a_budget_of_zero_gives_an_empty_memory(name: str) -> None:
    history = history_of(windows_of([["pump"]]), embedder=EMBEDDER)
    assert remembered(name, request(history, gap("pump"), budget=0)) == ()


def test_the_none_strategy_takes_nothing() -> None:
    history = history_of(windows_of([["pump"]]), embedder=EMBEDDER)
    assert remembered("none", request(history, gap("pump"))) == ()


def test_recent_takes_the_last_turns_before_the_window_that_fit() -> None:
    history = history_of(windows_of([["a"], ["b b b b b b", "c"], ["d"], ["after the window"]]))
    tokens = [history.turns(0, 9)[seq].tokens for seq in range(4)]
    assert tokens == [4, 9, 4, 4]
    recent = partial(remembered, "recent")
    assert recent(request(history, before_seq=4, budget=8)) == (
        MemoryTurn(turn(2, "c"), None, 4, None, 2, 0.0),
        MemoryTurn(turn(3, "d"), None, 4, None, 1, 0.0),
    )
    # 9 tokens do not fit into the 4 that are left; the older turn of 4 tokens is not taken either
    assert [entry.turn.seq for entry in recent(request(history, before_seq=4, budget=12))] == [2, 3]
    assert [entry.turn.seq for entry in recent(request(history, before_seq=4, budget=17))] == [1, 2, 3]
    assert [entry.turn.seq for entry in recent(request(history, before_seq=4, budget=1024))] == [0, 1, 2, 3]
    assert recent(request(history, before_seq=4, budget=3)) == ()


HARBOR = [["pump", "lunch"], ["valve pump", "pump leaks badly"], ["valve"]]


def test_remember_takes_the_turns_of_every_gap_in_rounds() -> None:
    history = history_of(windows_of(HARBOR), embedder=EMBEDDER)
    memory = remembered("remember", request(history, gap("pump"), gap("valve"), chunk_size=128))
    # by cosine, every turn holding "ana" too: pump: m0 1/√2, m2 1/√3, m3 1/√4, m1 0, m4 0
    #                                          valve: m4 1/√2, m2 1/√3, m0 0, m1 0, m3 0
    assert taken(memory) == [
        ("m0", 0, 1, 0.7071),
        ("m1", 0, 4, 0.0),
        ("m2", 0, 2, 0.5774),
        ("m3", 0, 3, 0.5),
        ("m4", 1, 1, 0.7071),
    ]
    assert [entry.tokens for entry in memory] == [4, 4, 5, 6, 4]


def test_remember_stops_at_the_first_turn_that_does_not_fit() -> None:
    history = history_of(windows_of(HARBOR), embedder=EMBEDDER)

    def ids(budget: int) -> list[str]:
        memory = remembered(
            "remember", request(history, gap("pump"), gap("valve"), budget=budget, chunk_size=1)
        )
        return [entry.turn.id for entry in memory]

    # m0 (4), m4 (4), m2 (5), m3 (6), m1 (4): m1 would fit beside m0, m4 and m2 in 17 to 18 tokens
    assert [ids(budget) for budget in (3, 4, 8, 12, 13, 18, 19, 22, 23)] == [
        [],
        ["m0"],
        ["m0", "m4"],
        ["m0", "m4"],
        ["m0", "m2", "m4"],
        ["m0", "m2", "m4"],
        ["m0", "m2", "m3", "m4"],
        ["m0", "m2", "m3", "m4"],
        ["m0", "m1", "m2", "m3", "m4"],
    ]


def test_remember_extracts_only_the_turns_of_the_best_chunks() -> None:
    history = history_of(windows_of(HARBOR), embedder=EMBEDDER)
    memory = remembered("remember", request(history, gap("lunch"), budget=128, chunk_size=128))
    assert taken(memory) == [("m0", 0, 2, 0.0), ("m1", 0, 1, 0.7071)]


def test_remember_fuses_both_rankings() -> None:
    corpus = [["noon lunch"], ["noon berth"], ["valve leaks lunch lunch"], ["valve berth valve"]]
    corpus += [["leaks noon"], ["valve"]]
    history = history_of(windows_of(corpus), embedder=EMBEDDER)
    memory = remembered("remember", request(history, gap("valve leaks"), budget=128, chunk_size=128))
    # chunk 2 is second by BM25 and by cosine: 2/62; chunk 4 is first and fourth: 1/61 + 1/64;
    # chunk 3 is fifth and first: 1/65 + 1/61
    assert taken(memory) == [("m2", 0, 1, 0.5345)]


def test_remember_needs_gaps() -> None:
    history = history_of(windows_of(HARBOR), embedder=EMBEDDER)
    assert remembered("remember", request(history)) == ()


LONG = "one two three four five six seven eight nine ten eleven twelve more"


def test_chunks_in_memory_are_parts_of_turns_and_share_no_token() -> None:
    # 16 tokens: Ana, :, thirteen words, line break
    history = history_of(windows_of([[LONG], ["lunch"], ["noon"]]), embedder=EMBEDDER, chunker=Chunker(8, 4))
    past = history.as_of(90)
    ranges = [past.chunk_tokens(n)[1:] for n in range(past.chunks)]
    assert ranges == [(0, 8), (4, 12), (8, 16), (0, 4), (0, 4)]
    window = [turn(90, "one two three four five six", author="Ben")]
    memory = remembered("sparse", request(history, turns=window, budget=16, chunk_size=8))
    assert [(entry.text, entry.span, entry.tokens, entry.rank) for entry in memory] == [
        ("one two three four five six", (0, 27), 8, 1),
        (" seven eight nine ten", (27, 48), 4, 2),
    ]


def test_a_chunk_in_memory_names_whole_turns_without_a_span() -> None:
    history = history_of(windows_of([["pump", "valve leaks"], ["noon"], ["lunch"]]), embedder=EMBEDDER)
    memory = remembered("sparse", request(history, budget=128))
    assert [(entry.text, entry.span, entry.tokens) for entry in memory] == [
        ("pump", None, 4),
        ("valve leaks", None, 5),
    ]


BERTHS = [["pump"], ["lunch"], ["new pump"], ["noon"], ["crane"], ["berth"]]


@pytest.mark.parametrize("name", ["sparse", "dense"])
def test_enough_chunks_are_taken_to_fill_the_budget(name: str) -> None:
    history = history_of(windows_of(BERTHS), embedder=EMBEDDER)
    window = [turn(90, "pump", author="Zoe")]

    def ids(budget: int) -> list[str]:
        memory = remembered(name, request(history, turns=window, budget=budget))
        return [entry.turn.id for entry in sorted(memory, key=lambda entry: entry.rank)]

    assert ids(127) == []
    assert ids(128) == ids(255) == ["m0"]
    assert ids(256) == ["m0", "m2"]
    assert ids(1024) == ["m0", "m2", "m1", "m3", "m4", "m5"]


def test_hybrid_takes_half_its_chunks_from_each_ranking() -> None:
    corpus = [["noon lunch"], ["noon berth"], ["valve leaks lunch lunch"], ["valve berth valve"]]
    corpus += [["leaks noon"], ["valve"]]
    history = history_of(windows_of(corpus), embedder=EMBEDDER)
    window = [turn(90, "valve leaks", author="Zoe")]
    memory = remembered("hybrid", request(history, turns=window, budget=256))
    assert taken(memory) == [("m3", None, 2, 0.4714), ("m4", None, 1, 0.6155)]


def test_hybrid_takes_a_chunk_of_both_rankings_once() -> None:
    history = history_of(windows_of(BERTHS), embedder=EMBEDDER)
    window = [turn(90, "pump", author="Zoe")]
    memory = remembered("hybrid", request(history, turns=window, budget=512))
    assert [(entry.turn.id, entry.rank) for entry in memory] == [("m0", 1), ("m2", 2)]
