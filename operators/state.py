"""State for the recovery store, stamped with a version, so that another version is refused plainly."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["Stamped", "StateError", "stamped", "unstamped"]

_VERSION = 1
Stamped: TypeAlias = tuple[int, Any]
"""A version, and a state of that version."""


class StateError(ValueError):
    """The recovery store was written by another version of the program."""


def stamped(state: Any) -> Stamped:
    """A state for the recovery store."""
    return _VERSION, state


def unstamped(state: Stamped | None) -> Any:
    """A state from the recovery store; None where there is none.

    Raises:
        StateError: another version of the program wrote it.
    """
    if state is None:
        return None
    version, inner = state
    if version != _VERSION:
        raise StateError(
            f"the recovery directory holds state of version {version}, and this program reads {_VERSION}: "
            "start with an empty one, at a time before the oldest open window; what overlaps is skipped"
        )
    return inner
