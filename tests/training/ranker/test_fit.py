from __future__ import annotations

import numpy as np
import pytest

from backscroll.operators.memory.additive import AdditiveModel
from backscroll.training.ranker.fit import StumpSettings, fit_logistic, fit_stumps, mean_model

RANDOM = np.random.default_rng(1)
ROWS = RANDOM.normal(size=(4000, 2))


def sampled(odds: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    return (RANDOM.random(len(odds)) < 1 / (1 + np.exp(-odds))).astype(np.float64)


def test_logistic_regression_recovers_the_slopes_behind_the_labels() -> None:
    model = fit_logistic(ROWS, sampled(2 * ROWS[:, 0] - ROWS[:, 1] - 1), ["a", "b"], ridge=0.01)
    assert model["constant"] == pytest.approx(-1, abs=0.15)
    assert model["features"]["a"]["slope"] == pytest.approx(2, abs=0.2)
    assert model["features"]["b"]["slope"] == pytest.approx(-1, abs=0.15)


def test_newtons_method_does_not_overshoot_with_rare_positives() -> None:
    labels = np.zeros(len(ROWS))
    labels[np.argsort(-ROWS[:, 0])[:12]] = 1
    model = fit_logistic(ROWS, labels, ["a", "b"], ridge=1.0)
    assert 0 < model["features"]["a"]["slope"] < 20


def test_stumps_learn_a_step() -> None:
    labels = sampled(np.where(ROWS[:, 0] > 0.5, 2.0, -2.0))
    model = AdditiveModel.from_json(fit_stumps(ROWS, labels, ["a", "b"], StumpSettings(share=1.0)))
    low, high = model.score({"a": np.array([0.0, 1.0]), "b": np.zeros(2)})
    assert (low, high) == (pytest.approx(-2, abs=0.5), pytest.approx(2, abs=0.5))


def test_the_same_rows_give_the_same_model() -> None:
    labels = sampled(ROWS[:, 0])
    assert fit_stumps(ROWS, labels, ["a", "b"], StumpSettings()) == fit_stumps(
        ROWS, labels, ["a", "b"], StumpSettings()
    )


def test_a_mean_model_gives_the_mean_score() -> None:
    line = {"constant": 1.0, "features": {"a": {"slope": 2.0}}}
    stair = {"constant": 0.0, "features": {"a": {"steps": [[0.0, 3.0]]}}}
    model = AdditiveModel.from_json(mean_model(line, stair))
    assert model.score({"a": np.array([-1.0, 1.0])}).tolist() == [-0.5, 3.0]
