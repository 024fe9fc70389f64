from __future__ import annotations

from math import exp

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.operators.acts.linear import LinearModel

MODEL = LinearModel(-1.0, {"a": 2.0, "b": -0.5}, np.array([1.0, 0.0, -2.0], np.float32))


def logistic(score: float) -> float:
    return 1 / (1 + exp(-score))


def test_a_probability_adds_the_bias_the_features_and_the_vector() -> None:
    vector = np.array([1.0, 9.0, 0.25], np.float32)
    assert MODEL.probability(0.0) == pytest.approx(logistic(-1))
    assert MODEL.probability(MODEL.total(["a", "b", "unknown"])) == pytest.approx(logistic(0.5))
    assert MODEL.probability(MODEL.total(["a"]), vector) == pytest.approx(logistic(1.5))
    assert MODEL.probability(MODEL.weighed({"a": 1.75}), vector) == pytest.approx(logistic(3.0))


def test_a_model_without_weights_for_a_vector_ignores_it() -> None:
    model = LinearModel(0.0, {"a": 1.0})
    assert model.probability(1.0, np.ones(3, np.float32)) == model.probability(1.0)


def test_totals_and_weighed_figures() -> None:
    assert MODEL.total(["a", "b", "unknown"]) == 1.5
    assert MODEL.total([]) == 0
    assert MODEL.weighed({"a": 3.0, "b": 2.0, "unknown": 7.0}) == 5.0


@given(st.floats(-1e6, 1e6))
def test_a_probability_stays_between_0_and_1(evidence: float) -> None:
    assert 0 <= MODEL.probability(evidence) <= 1


def test_a_model_is_the_same_after_json() -> None:
    for model in (MODEL, LinearModel(0.25, {})):
        again = LinearModel.from_json(orjson.loads(orjson.dumps(model.to_json())))
        assert again.to_json() == model.to_json()
        assert (again.vector is None) == (model.vector is None)


def test_weights_of_vectors_are_rounded_in_json() -> None:
    vector = np.array([0.12345, -2.0], np.float32)
    assert LinearModel(0.0, {}, vector).to_json() == {"bias": 0.0, "weights": {}, "vector": [0.123, -2.0]}
