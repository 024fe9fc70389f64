"""Additive models: a score is a constant plus one term per feature, a slope and a step function.

Models are small enough to store as JSON and fast to evaluate in plain numpy:
`{"constant": -2.1, "features": {"age": {"slope": -0.4, "steps": [[1.5, 0.0], [3.2, -0.1]]}}}`,
where a step `[above, add]` adds to every value greater than `above`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["AdditiveModel", "Term"]

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Term:
    """One feature's contribution: `slope * value` plus the value of the step function.

    `edges` ascend; `levels` has one more entry, and a value on an edge belongs to the level below.
    """

    slope: float
    edges: NDArray[np.float64]
    levels: NDArray[np.float64]

    def score(self, values: Floats) -> Floats:
        """The contribution of each value."""
        scored: Floats = self.slope * values
        if len(self.edges):
            scored = scored + self.levels[np.searchsorted(self.edges, values, side="left")]
        return scored


@dataclass(frozen=True, slots=True)
class AdditiveModel:
    """A constant and the terms of the features."""

    constant: float
    terms: Mapping[str, Term]

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> AdditiveModel:
        """Read the JSON form."""
        terms = {}
        for name, term in row["features"].items():
            steps = term.get("steps", [])
            edges = np.array([above for above, _ in steps], dtype=np.float64)
            levels = np.cumsum([0.0, *(add for _, add in steps)])
            terms[name] = Term(float(term.get("slope", 0.0)), edges, levels)
        return cls(float(row["constant"]), terms)

    def score(self, features: Mapping[str, Floats]) -> Floats:
        """The sum of all terms; arrays broadcast."""
        scored: Floats = np.asarray(self.constant)
        for name, term in self.terms.items():
            scored = scored + term.score(features[name])
        return scored
