"""Settings whose values are names that other parts list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["OneOf"]


@dataclass(frozen=True, slots=True)
class OneOf:
    """Marks a setting as one of these names; they are listed when somebody asks for them."""

    names: Callable[[], tuple[str, ...]]
