from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.benchmarks.judge.asking import CountedModel
from backscroll.benchmarks.memory.model_written import groups, hierarchical, incremental, segments, within
from backscroll.connectors.llm.openai import OpenAIChat
from backscroll.operators.language.tokens import count
from backscroll.operators.llm.resilience import SecondTry
from backscroll.operators.stream.windows import Window
from support.building import sized, turn, window
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
    """Have the server answer the questions of these stages with a number each."""
    given = iter(range(1000))
    for stage in stages:
        server.answers[stage] = lambda _: {"summary": f"Summary {next(given)}."}


def users(server: ChatServer) -> list[str]:
    return [request["messages"][1]["content"] for request in server.requests]


def chat(*texts: str) -> list[Window]:
    return [window([turn(seq, text)], seq) for seq, text in enumerate(texts)]


def test_a_running_summary_meets_every_window_once_and_in_order(server: ChatServer) -> None:
    numbered(server, "segment_summary", "running_summary")
    windows = chat("The ship is late.", "It comes on Friday.", "Berth nine.", "Never asked.")
    found, model = asked(server, lambda model: incremental(model, windows, {0, 2, 3}, 100))
    assert {index: memory.text for index, memory in found.items()} == {
        0: "",
        2: "Summary 1.",
        3: "Summary 2.",
    }
    first, second, third = users(server)
    assert "The ship is late." in first
    assert "Summary 0." in second
    assert "It comes on Friday." in second
    assert "The ship is late." not in second
    assert "Summary 1." in third
    assert "Berth nine." in third
    assert model.to_json()["questions"] == 3
    assert (model.usage.prompt, model.failures) == (300, {})


def test_after_a_failed_update_the_memories_are_the_old_ones_and_say_so(server: ChatServer) -> None:
    numbered(server, "segment_summary", "running_summary")
    server.behaviours = ["answer", "not json", "not json", "answer"]  # each question is asked twice
    found, model = asked(server, lambda model: incremental(model, chat("a", "b", "c", "d"), {1, 2, 3}, 100))
    assert [(memory.text, memory.incomplete) for memory in found.values()] == [
        ("Summary 0.", False),
        ("Summary 0.", True),
        ("Summary 3.", True),
    ]
    assert model.failures == {"running_summary: invalid_json": 1}


def test_a_hierarchy_merges_what_its_segments_say_and_shares_them_between_windows(server: ChatServer) -> None:
    numbered(server, "segment_summary", "merged_summary")
    windows = [window([sized(seq, 2000)], seq) for seq in range(5)]

    async def both(model: CountedModel) -> list[str]:
        return [(await hierarchical(model, windows, index, 100)).text for index in (2, 4, 0)]

    texts, model = asked(server, both)
    # Two turns of 2,000 tokens a segment; none fits the overlap. One segment needs no merging.
    assert texts == ["Summary 0.", "Summary 2.", ""]
    assert model.to_json()["questions"] == 3
    assert "Summary 0." in users(server)[-1]
    assert "Summary 1." in users(server)[-1]


def test_a_hierarchy_of_which_no_call_succeeds_has_no_text_and_says_so(server: ChatServer) -> None:
    server.answers["segment_summary"] = {"summary": " "}
    memory, model = asked(server, lambda model: hierarchical(model, chat("a", "b"), 1, 100))
    assert (memory.text, memory.incomplete) == ("", True)
    assert model.failures == {"segment_summary: schema": 1}


def test_a_written_memory_never_exceeds_its_budget(server: ChatServer) -> None:
    server.answers["segment_summary"] = {"summary": "The ship comes on Friday. " * 40}
    memory, _ = asked(server, lambda model: hierarchical(model, chat("a", "b"), 1, 50))
    assert memory.text.endswith("on Friday.")
    assert 40 < count(memory.text) <= 50


@settings(database=None, deadline=None, max_examples=60)
@given(st.lists(st.integers(4, 70), max_size=40), st.integers(0, 30))
def test_segments_cover_all_turns_fit_their_size_and_overlap_by_no_more_than_is_allowed(
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
def test_groups_keep_the_order_and_at_least_halve_the_number(sizes: list[int]) -> None:
    texts = [" ".join(["word"] * size) for size in sizes]
    grouped = list(groups(texts, size=50))
    assert [text for group in grouped for text in group] == texts
    assert len(grouped) <= (len(texts) + 1) // 2
    assert all(len(group) >= 2 for group in grouped[:-1])


@pytest.mark.parametrize(
    ("budget", "kept"), [(20, "One two. Three four five."), (6, "One two."), (2, "One"), (0, "")]
)
def test_a_text_is_cut_after_a_sentence_or_else_after_a_word(budget: int, kept: str) -> None:
    assert within("One two. Three four five.", budget) == kept
