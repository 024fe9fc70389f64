"""The memory strategies by name."""

from __future__ import annotations

from collections.abc import Mapping

from backscroll.operators.memory.baselines import dense, hybrid, none, recent, sparse
from backscroll.operators.memory.remember import remember
from backscroll.operators.memory.request import MemoryRequest, MemoryStrategy, MemoryTurn

__all__ = ["STRATEGIES"]


def backscroll(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The default: turns ranked as evidence by a small trained model (`memory.backscroll`)."""
    from backscroll.operators.memory.backscroll import backscroll as build

    return build(request)


STRATEGIES: Mapping[str, MemoryStrategy] = {
    "backscroll": backscroll,
    "remember": remember,
    "recent": recent,
    "hybrid": hybrid,
    "sparse": sparse,
    "dense": dense,
    "none": none,
}
