"""Fit the linear models of acts, with scikit-learn: the product reads their numbers only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from backscroll.operators.acts.classifier import ActKind
from backscroll.operators.acts.linear import LinearModel

__all__ = ["FitSettings", "LabelledMessages", "fit_figures", "fit_present", "thresholds_of"]

_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.97)
_PLACES = 3


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How much freedom the weights have.

    Attributes:
        inverse_ridge: the larger, the larger weights may grow.
        word, vector: how freely the weights of words and of vectors grow, compared with those of cues.
        least_dialogues: words that occur in fewer dialogues are left out, because they are about a topic.
        least_weight: smaller weights are left out.
    """

    inverse_ridge: float = 0.1
    word: float = 0.7
    vector: float = 3.0
    least_dialogues: int = 4
    least_weight: float = 0.015


@dataclass(frozen=True, slots=True)
class LabelledMessages:
    """What the models learn from.

    Attributes:
        features: of each message.
        labels: by kind, whether each message is of it.
        among: by kind, which messages may be of it; the others are not learned from.
        dialogues: where each message is from.
        vectors: of each message, float32 `[messages, dimensions]`; None to learn without them.
    """

    features: Sequence[set[str]]
    labels: Mapping[ActKind, Sequence[bool]]
    among: Mapping[ActKind, NDArray[np.bool_]]
    dialogues: Sequence[str]
    vectors: NDArray[np.float32] | None


def thresholds_of(figures: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """Where each figure is split: at some of its quantiles."""
    names = sorted({name for row in figures for name in row})
    found = {}
    for name in names:
        values = np.array([row.get(name, 0.0) for row in figures])
        found[name] = sorted({round(float(at), 4) for at in np.quantile(values, _QUANTILES)})
    return found


def fit_figures(rows: Sequence[Mapping[str, float]], labels: Sequence[bool]) -> LinearModel:
    """A model whose weights multiply figures."""
    names = sorted(rows[0])
    table = np.array([[row[name] for name in names] for row in rows])
    mean, deviation = table.mean(axis=0), table.std(axis=0) + 1e-9
    fitted = LogisticRegression(C=0.3, max_iter=1000).fit((table - mean) / deviation, np.array(labels))
    slopes = fitted.coef_[0] / deviation
    bias = float(fitted.intercept_[0] - slopes @ mean)
    weights = {name: round(float(slope), 4) for name, slope in zip(names, slopes, strict=True)}
    return LinearModel(round(bias, 4), weights)


def fit_present(examples: LabelledMessages, settings: FitSettings) -> dict[ActKind, LinearModel]:
    """Models of features that are present or absent and, if there are any, of vectors."""
    features, dialogues, vectors = examples.features, examples.dialogues, examples.vectors
    seen = Counter(
        name
        for name, _ in {
            (name, dialogue) for names, dialogue in zip(features, dialogues, strict=True) for name in names
        }
    )
    kept = {name for name, many in seen.items() if many >= settings.least_dialogues}
    size = {name: settings.word if name.startswith("w:") else 1.0 for name in kept}
    vectorizer = DictVectorizer(dtype=np.float32)
    table = vectorizer.fit_transform([{name: size[name] for name in names & kept} for names in features])
    if vectors is not None:
        table = hstack([table, csr_matrix(vectors * settings.vector)]).tocsr()
    table.indices, table.indptr = table.indices.astype(np.int32), table.indptr.astype(np.int32)
    names = vectorizer.get_feature_names_out()
    return {
        kind: _fitted(table[among], np.array(examples.labels[kind])[among], names, size, settings)
        for kind, among in examples.among.items()
    }


def _fitted(
    table: csr_matrix,
    labels: NDArray[np.bool_],
    names: Sequence[str],
    size: Mapping[str, float],
    settings: FitSettings,
) -> LinearModel:
    fitted = LogisticRegression(C=settings.inverse_ridge, solver="liblinear", max_iter=1000).fit(
        table, labels
    )
    slopes = fitted.coef_[0]
    weights = {
        name: round(float(slope) * size[name], _PLACES) for name, slope in zip(names, slopes, strict=False)
    }
    rest = slopes[len(names) :]
    return LinearModel(
        round(float(fitted.intercept_[0]), 4),
        {name: weight for name, weight in weights.items() if abs(weight) >= settings.least_weight},
        (rest * settings.vector).astype(np.float32) if len(rest) else None,
    )
