"""Ids for messages whose format has none: the same in every export that holds the message."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

__all__ = ["ContentIds"]


class ContentIds:
    """Makes ids from when and what; equal messages of the same time get `#2`, `#3`, ..."""

    def __init__(self) -> None:
        self._ts = ""
        self._made: Counter[str] = Counter()

    def make(self, ts: str, *content: str) -> str:
        """The id of a message; the messages of one time have to come one after the other.

        Args:
            ts: when, as text.
            content: what else tells the message from others, such as its author and text.
        """
        if ts != self._ts:
            self._ts = ts
            self._made.clear()
        digest = blake2b("\0".join(content).encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
        base = f"{ts}-{digest}"
        self._made[base] += 1
        count = self._made[base]
        return base if count == 1 else f"{base}#{count}"
