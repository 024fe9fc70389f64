"""Fit an additive model: the average of a ridge logistic regression and boosted stumps.

Both are additive, so their mean is one slope and one staircase a feature. Everything is plain
numpy and seeded: the same rows give the same model, and its numbers are rounded as they are shipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["StumpSettings", "fit_logistic", "fit_stumps", "mean_model"]

Array = NDArray[np.float64]
_PLACES = 4


@dataclass(frozen=True, slots=True)
class StumpSettings:
    """Settings for boosting stumps; each round sees a random `share` of the features."""

    rounds: int = 250
    rate: float = 0.05
    bins: int = 32
    share: float = 0.2
    ridge: float = 5.0
    least_rows: int = 30
    seed: int = 0


def fit_logistic(rows: Array, labels: Array, names: Sequence[str], *, ridge: float) -> dict[str, Any]:
    """Logistic regression by Newton's method; `ridge` penalises slopes of standardised features."""
    mean, deviation = rows.mean(axis=0), rows.std(axis=0) + 1e-6
    design = np.column_stack([np.ones(len(rows)), (rows - mean) / deviation])
    penalty = np.full(design.shape[1], ridge)
    penalty[0] = 0.0
    weights = np.zeros(design.shape[1])
    weights[0] = np.log(labels.mean() / (1 - labels.mean()))
    loss = _ridge_loss(design, labels, penalty, weights)
    for _ in range(50):
        probability = 1 / (1 + np.exp(-(design @ weights)))
        gradient = design.T @ (labels - probability) - penalty * weights
        curvature = (design * (probability * (1 - probability))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(curvature + 1e-9 * np.eye(len(weights)), gradient)
        while (lower := _ridge_loss(design, labels, penalty, weights + step)) > loss + 1e-9:
            step /= 2  # Newton's method overshoots if positives are rare
        weights, loss = weights + step, lower
        if np.abs(step).max() < 1e-7:
            break
    slopes = weights[1:] / deviation
    return {
        "constant": float(weights[0] - slopes @ mean),
        "features": {name: {"slope": float(slope)} for name, slope in zip(names, slopes, strict=True)},
    }


def _ridge_loss(design: Array, labels: Array, penalty: Array, weights: Array) -> float:
    odds = design @ weights
    return float(np.logaddexp(0, odds).sum() - labels @ odds + (penalty * weights**2).sum() / 2)


def fit_stumps(rows: Array, labels: Array, names: Sequence[str], settings: StumpSettings) -> dict[str, Any]:
    """Gradient boosting of one-split trees on the logistic loss, over quantile bins."""
    random = np.random.default_rng(settings.seed)
    quantiles = np.linspace(0, 1, settings.bins + 1)[1:-1]
    edges = [np.unique(np.quantile(column, quantiles, method="lower")) for column in rows.T]
    edges = [edge[edge < column.max()] for edge, column in zip(edges, rows.T, strict=True)]
    binned = [np.searchsorted(edge, column) for edge, column in zip(edges, rows.T, strict=True)]
    usable = np.array([feature for feature, edge in enumerate(edges) if len(edge)])
    constant = np.log(labels.mean() / (1 - labels.mean()))
    score = np.full(len(rows), constant)
    levels = [np.zeros(len(edge) + 1) for edge in edges]
    for _ in range(settings.rounds):
        probability = 1 / (1 + np.exp(-score))
        gradient, curvature = labels - probability, probability * (1 - probability)
        tried = random.choice(usable, max(1, round(settings.share * len(usable))), replace=False)
        best: tuple[float, int, int, float, float] | None = None
        for feature in np.sort(tried).tolist():
            split = _best_split(binned[feature], len(levels[feature]), gradient, curvature, settings)
            if split is not None and (best is None or split[0] > best[0]):
                best = (split[0], feature, *split[1:])
        if best is None:
            continue
        _, feature, cut, left, right = best
        step = settings.rate * np.where(np.arange(len(levels[feature])) <= cut, left, right)
        levels[feature] += step
        score += step[binned[feature]]
    features = {}
    for name, edge, level in zip(names, edges, levels, strict=True):
        constant += level[0]
        steps = [[float(at), float(add)] for at, add in zip(edge, np.diff(level), strict=True) if add]
        features[name] = {"steps": steps}
    return {"constant": float(constant), "features": features}


def _best_split(
    bins: NDArray[np.intp], count: int, gradient: Array, curvature: Array, settings: StumpSettings
) -> tuple[float, int, float, float] | None:
    """Gain, last bin on the left, and the values of both sides; None if no split is allowed."""
    gradients = np.cumsum(np.bincount(bins, gradient, minlength=count))
    curvatures = np.cumsum(np.bincount(bins, curvature, minlength=count))
    sizes = np.cumsum(np.bincount(bins, minlength=count))
    left_g, left_h, left_n = gradients[:-1], curvatures[:-1], sizes[:-1]
    right_g, right_h, right_n = gradients[-1] - left_g, curvatures[-1] - left_h, sizes[-1] - left_n
    allowed = (left_n >= settings.least_rows) & (right_n >= settings.least_rows)
    if not allowed.any():
        return None
    gains = left_g**2 / (left_h + settings.ridge) + right_g**2 / (right_h + settings.ridge)
    cut = int(np.where(allowed, gains, -np.inf).argmax())
    return (
        float(gains[cut]),
        cut,
        float(left_g[cut] / (left_h[cut] + settings.ridge)),
        float(right_g[cut] / (right_h[cut] + settings.ridge)),
    )


def mean_model(*models: dict[str, Any]) -> dict[str, Any]:
    """The mean of additive models, rounded, without terms that round to zero."""
    constant = sum(model["constant"] for model in models) / len(models)
    features: dict[str, Any] = {}
    for name in dict.fromkeys(name for model in models for name in model["features"]):
        parts = [model["features"].get(name, {}) for model in models]
        slope = round(sum(part.get("slope", 0.0) for part in parts) / len(models), _PLACES)
        total: dict[float, float] = {}
        for part in parts:
            for at, add in part.get("steps", []):
                total[round(at, _PLACES)] = total.get(round(at, _PLACES), 0.0) + add / len(models)
        steps = [[at, round(add, _PLACES)] for at, add in sorted(total.items()) if round(add, _PLACES)]
        term = ({"slope": slope} if slope else {}) | ({"steps": steps} if steps else {})
        if term:
            features[name] = term
    return {"constant": round(constant, _PLACES), "features": features}
