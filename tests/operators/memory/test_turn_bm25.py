from __future__ import annotations

from math import log

import numpy as np
import pytest

from backscroll.operators.memory.excerpt import Excerpt
from backscroll.operators.memory.turn_bm25 import TurnTerms, idf, mentions
from backscroll.operators.memory.turn_features import TurnRows, stems
from support.building import history_of, windows_of


@pytest.fixture
def rows() -> TurnRows:
    said = [["the red pump leaks", "a red valve"], ["red paint for Ana", "nothing here"]]
    return Excerpt.whole(history_of(windows_of(said)).as_of(4)).rows()


def test_scores_are_bm25_with_a_positive_idf(rows: TurnRows) -> None:
    (scores,) = TurnTerms(rows, [stems("red pump")]).match().score
    lengths = rows["terms"]
    red, pump = log(1 + 1.5 / 3.5), log(1 + 3.5 / 1.5)
    weight = 2.2 / (1 + 1.2 * (0.5 + 0.5 * lengths / lengths.mean()))
    expected = [(red + pump) * weight[0], red * weight[1], red * weight[2], 0.0]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_coverage_counts_words_that_are_in_no_turn(rows: TurnRows) -> None:
    match = TurnTerms(rows, [stems("valve"), stems("valve zeppelin")]).match()
    unseen, valve = log(1 + 4.5 / 0.5), log(1 + 3.5 / 1.5)
    assert match.coverage[1, 1] / match.coverage[0, 1] == pytest.approx(valve / (valve + unseen), rel=1e-4)


def test_first_and_last_mark_the_turns_where_a_word_first_and_last_occurs(rows: TurnRows) -> None:
    match = TurnTerms(rows, [stems("red")]).match()
    assert match.first.round(3).tolist() == [[1.0, 0.0, 0.0, 0.0]]
    assert match.last.round(3).tolist() == [[0.0, 0.0, 1.0, 0.0]]
    assert np.exp(match.shared).round(3).tolist() == [[2.0, 2.0, 2.0, 1.0]]


def test_a_query_without_known_words_matches_nothing(rows: TurnRows) -> None:
    match = TurnTerms(rows, [stems("zeppelin"), []]).match()
    assert not match.score.any()
    assert not match.rarest.any()


def test_mentions_look_for_the_first_name(rows: TurnRows) -> None:
    assert mentions(rows, ["Ana Lopez", "Ben"]).tolist() == [[0, 0, 1, 0], [0, 0, 0, 0]]


def test_idf_is_never_negative() -> None:
    assert idf(np.array([4]), 4)[0] == pytest.approx(log(1 + 0.5 / 4.5))
