"""The names of the memory strategies, for settings and help texts: nothing heavy is imported to list them."""

from __future__ import annotations

__all__ = ["memory_names"]


def memory_names() -> tuple[str, ...]:
    """Every strategy of `memory.registry`, the default first."""
    return ("backscroll", "remember", "recent", "hybrid", "sparse", "dense", "none")
