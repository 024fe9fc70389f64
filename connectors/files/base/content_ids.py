"""Ids for messages of formats without ids. Exporting the same message again gives the same id."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

__all__ = ["ContentIds"]


class ContentIds:
    """Derives ids from time and content; identical messages at the same time get `#2`, `#3`, ..."""

    def __init__(self) -> None:
        self._ts = ""
        self._made: Counter[str] = Counter()

    def make(self, ts: str, *content: str) -> str:
        """The id of a message. Messages with the same time must be passed one after another.

        Args:
            ts: the message's time, as text.
            content: other parts that identify the message, such as its author and text.
        """
        if ts != self._ts:
            self._ts = ts
            self._made.clear()
        digest = blake2b("\0".join(content).encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
        base = f"{ts}-{digest}"
        self._made[base] += 1
        count = self._made[base]
        return base if count == 1 else f"{base}#{count}"
