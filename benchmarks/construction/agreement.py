"""Measure how far annotators agree beyond chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

__all__ = ["AnnotatorAgreement"]


@dataclass(slots=True)
class AnnotatorAgreement:
    """The labels of items, one per annotator that did not abstain."""

    items: list[Counter[Hashable]] = field(default_factory=list)

    def add(self, labels: Sequence[Hashable]) -> None:
        """Add the labels of one item; a single label is ignored, as it says nothing about agreement."""
        if len(labels) > 1:
            self.items.append(Counter(labels))

    @property
    def observed(self) -> float | None:
        """The share of annotator pairs that gave an item the same label; None without items."""
        if not self.items:
            return None
        pairs = [
            sum(count * (count - 1) for count in item.values()) / (item.total() * (item.total() - 1))
            for item in self.items
        ]
        return sum(pairs) / len(pairs)

    @property
    def kappa(self) -> float | None:
        """Fleiss' kappa (1971); None without items, or if all labels are the same."""
        observed = self.observed
        if observed is None:
            return None
        labels = sum(self.items, Counter[Hashable]())
        chance = sum((count / labels.total()) ** 2 for count in labels.values())
        return None if chance == 1 else (observed - chance) / (1 - chance)
