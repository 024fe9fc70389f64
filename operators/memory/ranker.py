"""The evidence ranker: two additive models in `ranker.json`, made by `training.ranker.train`.

`relevance` scores how well a turn answers a query, and `evidence` how likely a turn is evidence for a
window. Both have a second variant for a history without vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from backscroll.operators.memory.additive import AdditiveModel

__all__ = ["WEIGHTS", "Ranker"]

WEIGHTS = Path(__file__).with_name("ranker.json")


@dataclass(frozen=True, slots=True)
class Ranker:
    """The two models of one variant."""

    relevance: AdditiveModel
    evidence: AdditiveModel

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Ranker:
        """Read the JSON of one variant."""
        return cls(AdditiveModel.from_json(row["relevance"]), AdditiveModel.from_json(row["evidence"]))

    @classmethod
    @cache
    def shipped(cls, *, vectors: bool) -> Ranker:
        """The packaged models, for a history with or without vectors."""
        return cls.from_json(orjson.loads(WEIGHTS.read_bytes())["vectors" if vectors else "words"])
