"""State for the recovery store: small, and stamped with a version, so that another one is refused plainly.

Windows that wait to be recorded are part of it, and chat takes less than half its room compressed.
"""

from __future__ import annotations

import pickle
import zlib
from typing import Any, TypeAlias

__all__ = ["Stamped", "StateError", "stamped", "unstamped"]

_VERSION = 2
_FASTEST = 1
Stamped: TypeAlias = tuple[int, bytes]
"""A version, and a state of that version, pickled and compressed."""


class StateError(ValueError):
    """The recovery store was written by another version of the program."""


def stamped(state: Any) -> Stamped:
    """A state for the recovery store."""
    return _VERSION, zlib.compress(pickle.dumps(state, pickle.HIGHEST_PROTOCOL), _FASTEST)


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
    return pickle.loads(zlib.decompress(inner))
