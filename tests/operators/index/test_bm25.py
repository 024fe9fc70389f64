from __future__ import annotations

import gc
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from backscroll.operators.index.bm25 import AsOfBM25, tokenize

words = st.sampled_from(["pump", "valve", "leak", "the", "berth", "漢字", "Noon"])
chunk_texts = st.lists(words, max_size=6).map(" ".join)
windows_of_chunks = st.lists(chunk_texts, max_size=4)
corpora = st.lists(windows_of_chunks, max_size=6)
changes = st.lists(st.tuples(st.none() | st.integers(0, 20), windows_of_chunks), max_size=14)
queries = st.lists(words | st.sampled_from(["unknown", "zebra"]), max_size=8).map(" ".join)


def index_of(windows: list[list[str]]) -> AsOfBM25:
    index = AsOfBM25()
    for chunks in windows:
        index.append_window(chunks)
    return index


def oracle(chunks: list[str], query: str) -> np.ndarray:
    """rank_bm25 over the chunks; it divides by zero if there are no words."""
    documents = [tokenize(chunk) for chunk in chunks]
    if not any(documents):
        return np.zeros(len(chunks))
    return np.asarray(BM25Okapi(documents).get_scores(tokenize(query)))


def assert_equals_the_oracle(index: AsOfBM25, windows: list[list[str]], query: str) -> None:
    for cut in range(len(windows) + 1):
        chunks = [chunk for window in windows[:cut] for chunk in window]
        assert index.size(cut) == len(chunks)
        scores = index.scores(query, windows=cut)
        assert scores.dtype == np.float64
        np.testing.assert_allclose(scores, oracle(chunks, query), rtol=0, atol=1e-9)


def strings_in(index: AsOfBM25) -> set[str]:
    """Every string reachable from an object, except through classes and modules."""
    found, seen, open_ = set[str](), set[int](), [index]
    while open_:
        here = open_.pop()
        if id(here) in seen or isinstance(here, type | ModuleType):
            continue
        seen.add(id(here))
        if isinstance(here, str):
            found.add(here)
        if isinstance(here, dict):
            open_.extend(here)  # the collector does not go to keys that are strings
        open_.extend(gc.get_referents(here))
    return found


def test_the_analyser_returns_lower_case_runs_of_word_characters() -> None:
    assert tokenize("The pump's B7-valve, ÉTÉ 漢字! x_1") == [
        "the",
        "pump",
        "s",
        "b7",
        "valve",
        "été",
        "漢字",
        "x_1",
    ]
    assert tokenize("...") == []


def test_scores_of_a_small_example_match_the_formula() -> None:
    index = index_of([["pump leaks", "new pump"], ["lunch", "noon", "valve"]])
    # pump is in 2 of 5 chunks, mean length 7/5, both chunks have 2 words
    idf = np.log(3.5) - np.log(2.5)
    expected = idf * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 2 / 1.4))
    assert index.scores("pump", windows=2).tolist() == pytest.approx([expected, expected, 0, 0, 0], abs=1e-12)


@given(windows=corpora, query=queries)
@settings(database=None, deadline=None, max_examples=200)
def test_scores_over_every_prefix_equal_rank_bm25(windows: list[list[str]], query: str) -> None:
    assert_equals_the_oracle(index_of(windows), windows, query)


@pytest.mark.parametrize(
    ("windows", "query"),
    [
        ([["a b", "a c", "a d"]], "a"),  # in every chunk: the idf is negative and floored
        ([["a", "a", "a"], ["a", "b"]], "a b"),  # the mean idf is negative at first, and so is the floor
        ([["a b c"]], "a a a b"),  # a repeated query term counts each time
        ([["", "a"], [""], ["", "b a"]], "a b"),  # chunks without a word
        ([["...", "🧭"]], "a"),  # no word at all
        ([["A a", "b"], ["B", "a c"]], "A zebra"),  # case, and a term that no chunk has
        ([["x y", "x z"], ["y y y z", "w"]], ""),  # no query
    ],
)
def test_scores_equal_rank_bm25_in_edge_cases(windows: list[list[str]], query: str) -> None:
    assert_equals_the_oracle(index_of(windows), windows, query)


def test_a_negative_idf_is_floored_at_a_quarter_of_the_mean() -> None:
    index = index_of([["a b", "a c", "a d"]])
    common, rare = np.log(0.5) - np.log(3.5), np.log(2.5) - np.log(1.5)
    floor = 0.25 * (common + 3 * rare) / 4
    assert index.scores("a", windows=1).tolist() == pytest.approx([floor] * 3, abs=1e-12)


def test_an_empty_index_has_no_scores() -> None:
    assert AsOfBM25().scores("pump", windows=0).tolist() == []
    assert AsOfBM25().size(0) == 0


def test_scores_of_a_prefix_do_not_change_when_the_index_grows() -> None:
    index = index_of([["pump leaks", "lunch", "see you"]])
    before = index.scores("pump", windows=1)
    for _ in range(20):
        index.append_window(["pump valve", "pump pump", "noon"])
    assert index.scores("pump", windows=1).tolist() == before.tolist()
    assert len(index.scores("pump", windows=21)) == 63


@given(changes=changes, query=queries, every_step=st.booleans())
@settings(database=None, deadline=None, max_examples=400)
def test_scores_over_every_prefix_equal_rank_bm25_after_any_appends_and_replacements(
    changes: list[tuple[int | None, list[str]]], query: str, every_step: bool
) -> None:
    index, windows = AsOfBM25(), list[list[str]]()
    for place, chunks in changes:
        if place is None or not windows:
            index.append_window(chunks)
            windows.append(chunks)
        else:
            index.replace_window(place % len(windows), chunks)
            windows[place % len(windows)] = chunks
        if every_step:  # a cut that was asked for before the next change must not be kept
            assert_equals_the_oracle(index, windows, query)
    assert_equals_the_oracle(index, windows, query)
    assert_equals_the_oracle(index, windows, "pump valve leak the berth 漢字 noon")


@pytest.mark.parametrize(
    ("window", "chunks"),
    [
        (0, ["pump valve", "pump"]),  # the same number of chunks
        (1, ["pump pump pump"]),  # fewer, so that later chunks move up
        (1, ["a", "b pump", "c", "d"]),  # more, so that later chunks move down
        (1, []),  # none
        (2, ["", "..."]),  # without a word
    ],
)
def test_a_replaced_window_scores_like_a_fresh_index(window: int, chunks: list[str]) -> None:
    windows = [["pump leaks", "a pump"], ["the pump", "noon"], ["pump", "valve pump"], ["b a", "leaks"]]
    index = index_of(windows)
    index.replace_window(window, chunks)
    windows[window] = chunks
    assert_equals_the_oracle(index, windows, "pump a leaks zebra")
    for cut in range(len(windows) + 1):
        assert (
            index.scores("pump a leaks", windows=cut).tolist()
            == index_of(windows).scores("pump a leaks", windows=cut).tolist()
        )


def test_an_index_with_all_chunks_removed_can_be_filled_again() -> None:
    index = index_of([["pump leaks"], ["a pump"]])
    index.replace_window(0, [])
    index.replace_window(1, [])
    assert index.scores("pump", windows=2).tolist() == []
    index.append_window(["pump", "pump noon", "valve"])
    assert_equals_the_oracle(index, [[], [], ["pump", "pump noon", "valve"]], "pump noon")


def test_a_term_that_is_in_no_chunk_any_more_is_removed_from_the_index() -> None:
    index = index_of([["pump secret42", "noon"], ["secret42 valve"]])
    index.replace_window(0, ["pump", "noon"])
    assert "secret42" in strings_in(index)
    index.replace_window(1, ["valve"])
    assert strings_in(index) & {"secret42", "pump", "noon", "valve"} == {"pump", "noon", "valve"}
    assert_equals_the_oracle(index, [["pump", "noon"], ["valve"]], "secret42 valve")


@pytest.mark.parametrize("window", [-1, 2])
def test_a_window_out_of_range_cannot_be_replaced(window: int) -> None:
    windows = [["pump leaks"], ["a pump"]]
    index = index_of(windows)
    with pytest.raises(IndexError, match=f"window {window} is out of range: the index has 2 windows"):
        index.replace_window(window, ["noon"])
    assert_equals_the_oracle(index, windows, "pump noon")
