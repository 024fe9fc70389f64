"""The formulas of the paper's appendix B, for hand-made verdicts with results worked out by hand."""

from __future__ import annotations

import pytest

from backscroll.benchmarks.summaries.metrics import (
    SummaryVerdicts,
    composite,
    conciseness,
    faithfulness,
    gap_completeness,
    mean_of_known,
    window_completeness,
)


def test_window_completeness_is_the_share_of_salient_utterances_that_a_sentence_covers() -> None:
    assert window_completeness([{0}, set(), {1, 2}, {0}, set()]) == pytest.approx(3 / 5)
    assert window_completeness([{0}, {0}]) == 1
    assert window_completeness([set()]) == 0
    assert window_completeness([]) is None


def test_gap_completeness_is_the_share_of_gaps_in_memory_or_none_without_gaps() -> None:
    assert gap_completeness([{3}, set(), set()]) == pytest.approx(1 / 3)
    assert gap_completeness([]) is None


def test_conciseness_counts_each_sentence_once() -> None:
    # Sentences 0 and 1 cover utterances, 1 and 4 resolve gaps, 2 and 3 do nothing: 3 of 5.
    assert conciseness(5, [{0}, {0, 1}, set()], [{1}, {4}]) == pytest.approx(3 / 5)
    assert conciseness(2, [set()], []) == 0
    assert conciseness(0, [], []) is None


def test_faithfulness_counts_facts_rather_than_sentences() -> None:
    # One fact of one, two of five, none at all: 3 of 6, where the mean of the sentences would be 0.7.
    assert faithfulness([[True], [True, True, False, False, False], []]) == pytest.approx(3 / 6)
    assert faithfulness([[], []]) is None


@pytest.mark.parametrize(
    ("parts", "published"),
    [
        ((0.6913, 0.4559, 0.6038, 0.7853), 0.6341),  # ReMEMBER, Qwen3.5-4B, chit-chat (table 7)
        ((0.6551, 0.2681, 0.5084, 0.6568), 0.5221),  # incremental summary, the same
        ((0.7186, 0.0, 0.6433, 0.8707), 0.5582),  # no memory: its gap completeness counts as 0
    ],
)
def test_the_composite_of_the_published_metrics_equals_the_published_one(
    parts: tuple[float, float, float, float], published: float
) -> None:
    window, gap, concise, faithful = parts
    value = composite(window=window, gap=gap, concise=concise, faithful=faithful)
    assert value == pytest.approx(published, abs=0.0001)


def test_the_composite_is_unknown_if_one_metric_is() -> None:
    assert composite(window=0.5, gap=None, concise=0.5, faithful=0.5) is None


def test_windows_without_a_value_are_excluded_from_the_mean() -> None:
    assert mean_of_known([0.2, None, 0.6]) == pytest.approx(0.4)
    assert mean_of_known([None]) is None


def test_only_metrics_with_verdicts_are_computed_for_a_summary() -> None:
    verdicts = SummaryVerdicts(4, [{0}, set()], [{2}], [[True, False], [True], [], [True]])
    assert verdicts.metrics == {
        "window_completeness": 0.5,
        "gap_completeness": 1,
        "conciseness": 0.5,
        "faithfulness": 0.75,
    }
    assert SummaryVerdicts(4, None, [{2}], None).metrics == {
        "window_completeness": None,
        "gap_completeness": 1,
        "conciseness": None,
        "faithfulness": None,
    }
