from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.benchmarks.judge.asking import CountedModel, TimedModel
from backscroll.benchmarks.memory.model_written import Hierarchical, Incremental, groups, segments, within
from backscroll.connectors.llm.openai import OpenAIChat
from backscroll.operators.language.tokens import count
from backscroll.operators.llm.resilience import SecondTry
from backscroll.operators.memory.request import MemoryModel, MemoryParameters, MemoryRequest, MemoryStrategy
from backscroll.operators.stream.windows import Window
from support.building import history_of, sized, turn, window
from support.chat_server import ChatServer

Y = TypeVar("Y")


def asked(server: ChatServer, work: Callable[[CountedModel], Awaitable[Y]]) -> tuple[Y, CountedModel]:
    async def run() -> tuple[Y, CountedModel]:
        chat = OpenAIChat(server.url, max_retries=0)
        model = CountedModel(SecondTry(chat), "tiny")
        try:
            return await work(model), model
        finally:
            await chat.aclose()

    return asyncio.run(run())


def numbered(server: ChatServer, *stages: str) -> None:
    """Make the server answer the questions of these stages, each with a number."""
    given = iter(range(1000))
    for stage in stages:
        server.answers[stage] = lambda _: {"summary": f"Summary {next(given)}."}


def users(server: ChatServer) -> list[str]:
    return [request["messages"][1]["content"] for request in server.requests]


def chat(*texts: str) -> list[Window]:
    return [window([turn(seq, text)], seq) for seq, text in enumerate(texts)]


async def built(
    model: CountedModel, strategy: MemoryStrategy, windows: Sequence[Window], index: int, budget: int = 100
) -> tuple[list[str], str | None]:
    """The statements of a memory before a window, and why something is missing from it."""
    turns = windows[index].turns if index < len(windows) else (turn(90, "After all."),)
    request = MemoryRequest(
        turns,
        (),
        history_of(windows).as_of(turns[0].seq),
        MemoryParameters(budget=budget, model=MemoryModel(TimedModel(model), model.name)),
    )
    memory = await strategy.build(request)
    for item in memory.items:
        assert (item.seqs, item.tokens) == (range(turns[0].seq), count(item.text))
    return [item.text for item in memory.items], memory.degraded


def test_a_running_summary_reads_every_window_once_in_order(server: ChatServer) -> None:
    numbered(server, "segment_summary", "running_summary")
    windows = chat("The ship is late.", "It comes on Friday.", "Berth nine.", "Never asked.")

    async def three(model: CountedModel) -> list[tuple[list[str], str | None]]:
        return [await built(model, Incremental(), windows, index) for index in (0, 2, 3)]

    found, model = asked(server, three)
    assert found == [([], None), (["Summary 1."], None), (["Summary 2."], None)]
    first, second, third = users(server)
    assert "The ship is late." in first
    assert "Summary 0." in second
    assert "It comes on Friday." in second
    assert "The ship is late." not in second
    assert "Summary 1." in third
    assert "Berth nine." in third
    assert model.to_json()["questions"] == 3
    assert (model.usage.prompt, model.failures) == (300, {})


def test_after_a_failed_update_the_old_memories_are_used_and_marked_incomplete(server: ChatServer) -> None:
    numbered(server, "segment_summary", "running_summary")
    server.behaviours = ["answer", "not json", "not json", "answer"]  # each question is asked twice
    windows = chat("a", "b", "c", "d")

    async def three(model: CountedModel) -> list[tuple[list[str], str | None]]:
        return [await built(model, Incremental(), windows, index) for index in (1, 2, 3)]

    found, model = asked(server, three)
    failed = "memory: invalid_json"
    assert found == [(["Summary 0."], None), (["Summary 0."], failed), (["Summary 3."], failed)]
    assert model.failures == {"running_summary: invalid_json": 1}


def test_a_hierarchy_merges_its_segments_and_shares_them_between_windows(server: ChatServer) -> None:
    numbered(server, "segment_summary", "merged_summary")
    windows = [window([sized(seq, 2000)], seq) for seq in range(5)]

    async def three(model: CountedModel) -> list[list[str]]:
        return [(await built(model, Hierarchical(), windows, index))[0] for index in (2, 4, 0)]

    texts, model = asked(server, three)
    # Two turns of 2,000 tokens a segment; none fits the overlap. One segment needs no merging.
    assert texts == [["Summary 0."], ["Summary 2."], []]
    assert model.to_json()["questions"] == 3
    assert "Summary 0." in users(server)[-1]
    assert "Summary 1." in users(server)[-1]


def test_a_hierarchy_without_any_successful_call_is_empty_and_marked_incomplete(server: ChatServer) -> None:
    server.answers["segment_summary"] = {"summary": " "}
    found, model = asked(server, lambda model: built(model, Hierarchical(), chat("a", "b"), 1))
    assert found == ([], "memory: schema")
    assert model.failures == {"segment_summary: schema": 1}


def test_a_written_memory_never_exceeds_its_budget(server: ChatServer) -> None:
    server.answers["segment_summary"] = {"summary": "The ship comes on Friday. " * 40}
    ((text,), _), _ = asked(server, lambda model: built(model, Hierarchical(), chat("a", "b"), 1, 50))
    assert text.endswith("on Friday.")
    assert 40 < count(text) <= 50


def test_an_answer_takes_the_time_of_who_asks_for_it_first(server: ChatServer) -> None:
    numbered(server, "segment_summary")
    windows = chat("a", "b")

    async def twice(model: CountedModel) -> list[TimedModel]:
        timed = [TimedModel(model), TimedModel(model)]
        for one in timed:
            parameters = MemoryParameters(model=MemoryModel(one, model.name))
            past = history_of(windows).as_of(1)
            await Hierarchical().build(MemoryRequest(windows[1].turns, (), past, parameters))
        return timed

    (first, second), _ = asked(server, twice)
    assert first.seconds > 0
    assert second.seconds == 0


@settings(database=None, deadline=None, max_examples=60)
@given(st.lists(st.integers(4, 70), max_size=40), st.integers(0, 30))
def test_segments_cover_all_turns_within_their_size_and_overlap_limits(
    sizes: list[int], overlap: int
) -> None:
    turns = [sized(seq, tokens) for seq, tokens in enumerate(sizes)]
    cut = list(segments(turns, size=60, overlap=overlap))
    assert {item.seq for segment in cut for item in segment} == set(range(len(turns)))
    for segment in cut:
        assert sum(item.tokens for item in segment) <= 60 or len(segment) == 1
        assert [item.seq for item in segment] == list(range(segment[0].seq, segment[-1].seq + 1))
    for before, after in pairwise(cut):
        shared = [item for item in before if item.seq >= after[0].seq]
        assert before[0].seq < after[0].seq <= before[-1].seq + 1 <= after[-1].seq
        assert sum(item.tokens for item in shared) <= overlap


@settings(database=None, deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=20))
def test_groups_keep_the_order_and_are_at_most_half_as_many(sizes: list[int]) -> None:
    texts = [" ".join(["word"] * size) for size in sizes]
    grouped = list(groups(texts, size=50))
    assert [text for group in grouped for text in group] == texts
    assert len(grouped) <= (len(texts) + 1) // 2
    assert all(len(group) >= 2 for group in grouped[:-1])


@pytest.mark.parametrize(
    ("budget", "kept"), [(20, "One two. Three four five."), (6, "One two."), (2, "One"), (0, "")]
)
def test_a_text_is_cut_after_a_sentence_if_possible_or_else_after_a_word(budget: int, kept: str) -> None:
    assert within("One two. Three four five.", budget) == kept
