from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from backscroll.operators.acts.classifier import KINDS
from backscroll.operators.acts.linear import LinearModel
from backscroll.training.acts.fit import (
    FitSettings,
    LabelledMessages,
    fit_figures,
    fit_present,
    thresholds_of,
)

RANDOM = np.random.default_rng(1)
COUNT = 1200
CUES = RANDOM.random((COUNT, 2)) < 0.3
DIALOGUES = [f"d{n % 6}" for n in range(COUNT)]
DECISIONS = (RANDOM.random(COUNT) < np.where(CUES[:, 0], 0.9, 0.1)).tolist()


def examples(vectors: NDArray[np.float32] | None = None) -> LabelledMessages:
    """Messages of six dialogues: the cue `decides` makes a decision likely, and the word `crane` too, but
    that is said in one dialogue only."""
    features = []
    for number, (decides, times) in enumerate(CUES):
        names = {"w:the"} | ({"c:decides"} if decides else set()) | ({"c:times"} if times else set())
        features.append(names | ({"w:crane"} if DIALOGUES[number] == "d0" and DECISIONS[number] else set()))
    every = np.ones(COUNT, bool)
    return LabelledMessages(
        features, dict.fromkeys(KINDS, DECISIONS), dict.fromkeys(KINDS, every), DIALOGUES, vectors
    )


def test_a_planted_cue_is_found() -> None:
    weights = fit_present(examples(), FitSettings())["decision"].weights
    assert weights["c:decides"] > 2
    assert abs(weights.get("c:times", 0.0)) < 0.5


def test_words_of_one_dialogue_are_ignored() -> None:
    assert "w:crane" not in fit_present(examples(), FitSettings())["decision"].weights
    assert fit_present(examples(), FitSettings(least_dialogues=1))["decision"].weights["w:crane"] > 0


def test_small_weights_are_left_out() -> None:
    weights = fit_present(examples(), FitSettings(least_weight=1.0))["decision"].weights
    assert set(weights) == {"c:decides"}


def test_a_kind_is_learned_among_the_messages_that_may_be_of_it() -> None:
    made = examples()
    among = {**made.among, "question": ~CUES[:, 0]}  # where the planted cue is never seen
    models = fit_present(replace(made, among=among), FitSettings())
    assert "c:decides" not in models["question"].weights
    assert models["decision"].weights["c:decides"] > 2


def test_vectors_are_weighed_if_there_are_any() -> None:
    vectors = RANDOM.normal(size=(COUNT, 3)).astype(np.float32)
    vectors[:, 0] += np.where(DECISIONS, 2.0, -2.0)
    model = fit_present(examples(vectors), FitSettings())["decision"]
    assert model.vector is not None
    assert model.vector.shape == (3,)
    assert model.vector[0] > 10 * abs(model.vector[1:]).max() > 0
    assert model.probability(0.0, vectors[DECISIONS.index(True)]) > 0.5
    assert fit_present(examples(), FitSettings())["decision"].vector is None


def test_the_slope_of_a_figure_is_recovered() -> None:
    figures = RANDOM.normal(loc=(3.0, 0.0), scale=(2.0, 5.0), size=(6000, 2))
    odds = 1.5 * figures[:, 0] - 0.1 * figures[:, 1] - 4
    labels = RANDOM.random(len(odds)) < 1 / (1 + np.exp(-odds))
    rows = [{"near": near, "far": far} for near, far in figures.tolist()]
    model = fit_figures(rows, labels.tolist())
    assert model.weights["near"] == pytest.approx(1.5, abs=0.15)
    assert model.weights["far"] == pytest.approx(-0.1, abs=0.03)
    assert model.bias == pytest.approx(-4, abs=0.4)


def test_a_figure_that_never_changes_gets_no_weight() -> None:
    rows = [{"same": 2.0, "flips": float(n % 2)} for n in range(200)]
    model = fit_figures(rows, [n % 2 == 1 for n in range(200)])
    assert model.weights["same"] == 0
    chance = [model.probability(model.weighed(row)) for row in rows[:2]]
    assert chance[0] < 0.1
    assert chance[1] > 0.9


def test_figures_are_split_at_quantiles() -> None:
    rows = [{"length": float(n), "link": float(n == 0)} for n in range(101)]
    assert thresholds_of(rows) == {"length": [10.0, 25.0, 50.0, 75.0, 90.0, 97.0], "link": [0.0]}
    assert thresholds_of([{"a": 1.0}, {}]) == {"a": [0.1, 0.25, 0.5, 0.75, 0.9, 0.97]}


def test_the_same_messages_give_the_same_model() -> None:
    first, second = (fit_present(examples(), FitSettings()) for _ in range(2))
    assert {kind: model.to_json() for kind, model in first.items()} == {
        kind: model.to_json() for kind, model in second.items()
    }
    assert isinstance(first["point"], LinearModel)
