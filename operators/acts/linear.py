"""Linear models over named features, as plain numbers in a JSON file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp, fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LinearModel"]


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A logistic model: a bias, a weight for each feature, and one for each dimension of a vector.

    Features without a weight count nothing.
    """

    bias: float
    weights: Mapping[str, float]
    vector: NDArray[np.float32] | None = None

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> LinearModel:
        """Read a model."""
        vector = row.get("vector")
        return cls(row["bias"], row["weights"], None if vector is None else np.array(vector, np.float32))

    def to_json(self) -> dict[str, Any]:
        """The model as JSON fields."""
        vector = None if self.vector is None else [round(float(weight), 3) for weight in self.vector]
        return {"bias": self.bias, "weights": dict(self.weights), "vector": vector}

    def total(self, names: Iterable[str]) -> float:
        """The weights of features that are present, together, in whatever order they come."""
        return fsum(self.weights.get(name, 0.0) for name in names)

    def probability(self, evidence: float, vector: NDArray[np.float32] | None = None) -> float:
        """The probability for an instance with this `total` or `weighed` of its features, and this vector."""
        score = self.bias + evidence
        if vector is not None and self.vector is not None:
            score += float(self.vector @ vector)
        return 1 / (1 + exp(-max(-30.0, min(30.0, score))))

    def weighed(self, figures: Mapping[str, float]) -> float:
        """The weights of figures, each times the figure."""
        return fsum(self.weights.get(name, 0.0) * figure for name, figure in figures.items())
