"""Memories made only of verbatim turns of the history: the kind that the engine can use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from backscroll.operators.memory.registry import MemoryStrategyError
from backscroll.operators.memory.request import Memory, MemoryRequest, MemoryStrategy, MemoryTurn, Needs

__all__ = ["VerbatimMemory", "build_verbatim", "check_verbatim"]


@dataclass(frozen=True, slots=True)
class VerbatimMemory:
    """A strategy defined by a function that selects turns."""

    name: str
    select: Callable[[MemoryRequest], tuple[MemoryTurn, ...]]
    needs: Needs = field(default_factory=Needs)

    async def build(self, request: MemoryRequest) -> Memory:
        """The selected turns."""
        return Memory(self.select(request))


def check_verbatim(strategy: MemoryStrategy) -> None:
    """Reject a strategy that the engine cannot use.

    Raises:
        MemoryStrategyError: it needs a language model.
    """
    if strategy.needs.model:
        raise MemoryStrategyError(
            f"memory strategy {strategy.name!r} needs a language model: use it with `bench memory` only"
        )


def build_verbatim(strategy: MemoryStrategy, request: MemoryRequest) -> Memory:
    """Build a memory of verbatim turns in the calling thread.

    Raises:
        MemoryStrategyError: the strategy needs a language model, awaits something, or returns statements.
    """
    check_verbatim(strategy)
    building = strategy.build(request)
    try:
        building.send(None)
    except StopIteration as done:
        memory: Memory = done.value
    else:
        building.close()
        raise MemoryStrategyError(
            f"memory strategy {strategy.name!r} awaits in build: set needs.model, or do not await"
        )
    if len(memory.turns) < len(memory.items):
        raise MemoryStrategyError(
            f"memory strategy {strategy.name!r} returns statements: return verbatim turns"
        )
    return memory
