"""The memory strategies by name: the built-in ones, and those that other packages add.

A package adds a strategy with an entry point, which has the strategy's name:

    [project.entry-points."backscroll.memories"]
    replies = "my_package:Replies"

A strategy is imported on first use, so that listing the names is quick.

>>> names()[:3]
('backscroll', 'remember', 'recent')
>>> get("recent").needs
Needs(vectors=False, model=False)
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from backscroll.operators.errors import BackscrollError

if TYPE_CHECKING:
    from backscroll.operators.memory.request import MemoryStrategy

__all__ = ["MEMORIES", "OWN", "MemoryRegistry", "MemoryStrategyError", "get", "names"]

_GROUP = "backscroll.memories"


class MemoryStrategyError(BackscrollError):
    """A memory strategy is unknown or cannot be used; the text names it and the package it comes from."""


class MemoryRegistry:
    """Finds memory strategies by name.

    Args:
        own: the built-in strategies by name, each as `module:object`.
    """

    def __init__(self, own: Mapping[str, str]) -> None:
        self._own = dict(own)
        self._loaded = dict[str, "MemoryStrategy"]()

    def names(self) -> tuple[str, ...]:
        """Every strategy, the default first and those of other packages last.

        Raises:
            MemoryStrategyError: two strategies have the same name.
        """
        return (*self._own, *sorted(self._added()))

    def get(self, name: str) -> MemoryStrategy:
        """A strategy.

        Raises:
            MemoryStrategyError: it does not exist or cannot be used.
        """
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def extended(self, more: Mapping[str, str]) -> MemoryRegistry:
        """A registry with more built-in strategies, such as those that only a benchmark compares."""
        return MemoryRegistry({**self._own, **more})

    def _added(self) -> dict[str, EntryPoint]:
        added = dict[str, EntryPoint]()
        for point in entry_points(group=_GROUP):
            if point.name in self._own:
                raise MemoryStrategyError(
                    f"{_package(point)}: memory strategy {point.name!r} is built in: use another name"
                )
            if point.name in added:
                raise MemoryStrategyError(
                    f"{_package(point)}: memory strategy {point.name!r} is also defined by "
                    f"{_package(added[point.name])}: uninstall one of them"
                )
            added[point.name] = point
        return added

    def _load(self, name: str) -> MemoryStrategy:
        if name in self._own:
            own: MemoryStrategy = _made(EntryPoint(name, self._own[name], _GROUP))
            return own
        added = self._added()
        if name not in added:
            known = ", ".join((*self._own, *sorted(added)))
            raise MemoryStrategyError(f"unknown memory strategy {name!r}: choose from {known}")
        return _load_added(added[name])


def _load_added(point: EntryPoint) -> MemoryStrategy:
    from backscroll.operators.memory.request import MemoryStrategy, Needs

    whose = f"{_package(point)}: memory strategy {point.name!r}"
    try:
        strategy = _made(point)
    except Exception as err:
        reason = " ".join(f"{type(err).__name__}: {err}".split())
        raise MemoryStrategyError(f"{whose} cannot be loaded: {reason}") from err
    if not isinstance(strategy, MemoryStrategy) or not isinstance(strategy.needs, Needs):
        raise MemoryStrategyError(
            f"{whose} is not a MemoryStrategy: {point.value} needs name, needs and build"
        )
    if strategy.name != point.name:
        raise MemoryStrategyError(f"{whose} is named {strategy.name!r} in its code: use one name in both")
    return strategy


def _made(point: EntryPoint) -> Any:
    """The object that an entry point names, or an instance if it names a class."""
    loaded = point.load()
    return loaded() if isinstance(loaded, type) else loaded


def _package(point: EntryPoint) -> str:
    return "an unknown package" if point.dist is None else f"package {point.dist.name}"


OWN = {
    "backscroll": "backscroll.operators.memory.backscroll:BACKSCROLL",
    "remember": "backscroll.operators.memory.remember:REMEMBER",
    "recent": "backscroll.operators.memory.baselines:RECENT",
    "hybrid": "backscroll.operators.memory.baselines:HYBRID",
    "sparse": "backscroll.operators.memory.baselines:SPARSE",
    "dense": "backscroll.operators.memory.baselines:DENSE",
    "none": "backscroll.operators.memory.baselines:NONE",
}
"""Backscroll's own strategies, all of verbatim turns, as `module:object`."""

MEMORIES = MemoryRegistry(OWN)
"""The strategies that the engine can use."""

get, names = MEMORIES.get, MEMORIES.names
