from __future__ import annotations

import numpy as np

from backscroll.operators.memory.additive import AdditiveModel
from backscroll.operators.memory.features import FEATURES, RELEVANCE
from backscroll.operators.memory.ranker import Ranker

MODEL = {
    "constant": 1.0,
    "features": {"a": {"slope": 2.0}, "b": {"slope": 1.0, "steps": [[0.5, 10.0], [2.0, -4.0]]}},
}


def test_a_score_is_the_constant_slopes_and_steps() -> None:
    model = AdditiveModel.from_json(MODEL)
    a, b = np.zeros(4), np.array([0.0, 0.5, 0.75, 3.0])
    assert model.score({"a": a + 1, "b": b}).tolist() == [3.0, 3.5, 13.75, 12.0]


def test_features_broadcast() -> None:
    model = AdditiveModel.from_json(MODEL)
    assert model.score({"a": np.array([[0.0], [1.0]]), "b": np.zeros((1, 3))}).shape == (2, 3)


def test_the_packaged_ranker_uses_only_existing_features() -> None:
    for vectors in (True, False):
        ranker = Ranker.shipped(vectors=vectors)
        assert set(ranker.relevance.terms) <= set(RELEVANCE)
        assert set(ranker.evidence.terms) <= set(FEATURES)
