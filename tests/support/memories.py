"""Memories of the engine's strategies, as tests build them."""

from __future__ import annotations

from backscroll.operators.memory.registry import get
from backscroll.operators.memory.request import MemoryRequest, MemoryTurn
from backscroll.operators.memory.verbatim import build_verbatim

__all__ = ["remembered"]


def remembered(strategy: str, request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The turns that a strategy chooses."""
    return build_verbatim(get(strategy), request).turns
