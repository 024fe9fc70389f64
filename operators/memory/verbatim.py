"""Memories made only of verbatim turns of the history: the kind that the engine can use."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
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
        MemoryStrategyError: the strategy needs a language model or awaits something, or it returns
            anything but turns of the request's history, none deleted, within the budget.
    """
    check_verbatim(strategy)
    memory = _built(strategy, request)
    if not isinstance(memory, Memory):
        raise _error(strategy, f"returns {type(memory).__name__}: return a Memory")
    if len(memory.turns) < len(memory.items):
        raise _error(strategy, "returns statements: return verbatim turns")
    before_seq, budget = request.history.before_seq, request.parameters.budget
    for item in memory.turns:
        if not 0 <= item.turn.seq < before_seq:
            raise _error(
                strategy,
                f"returns turn {item.turn.seq}: the history in view ends before turn {before_seq}",
            )
        if item.turn.deleted:
            raise _error(
                strategy, f"returns turn {item.turn.seq}, which was deleted: leave out deleted turns"
            )
    tokens = sum(item.tokens for item in memory.turns)
    if tokens > budget:
        raise _error(strategy, f"returns {tokens} tokens: keep within the budget of {budget}")
    return memory


def _built(strategy: MemoryStrategy, request: MemoryRequest) -> object:
    building: object = strategy.build(request)
    if not isinstance(building, Coroutine):
        raise _error(strategy, "has a build that is not async: define it with `async def`")
    try:
        building.send(None)
    except StopIteration as done:
        return done.value
    building.close()
    raise _error(strategy, "awaits in build: set needs.model, or do not await")


def _error(strategy: MemoryStrategy, problem: str) -> MemoryStrategyError:
    return MemoryStrategyError(f"memory strategy {strategy.name!r} {problem}")
