"""Contextual gaps: what the utterances of a window presuppose. Also the detector interface.

A gap names the utterance, quotes the part that cannot be understood alone, says why, and has a query
and keywords from the window to search for evidence with. It never guesses the answer (ReMEMBER,
section 4.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from backscroll.operators.stream.windows import Window

__all__ = ["Gap", "GapDetector"]


@dataclass(frozen=True, slots=True)
class Gap:
    """Something a window utterance presupposes. `utterance` is the id of the turn."""

    utterance: str
    quote: str
    reason: str
    query: str
    keywords: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The retrieval query: quote, reason, query and keywords joined by spaces."""
        return " ".join((self.quote, self.reason, self.query, *self.keywords))


class GapDetector(Protocol):
    """Finds the gaps of a window. It sees only the window, never the history."""

    @property
    def name(self) -> str:
        """The detector's name, as stored in summary records."""
        ...

    def detect(self, window: Window, *, max_gaps: int) -> tuple[Gap, ...]:
        """The most important gaps of the window, at most `max_gaps`, in window order."""
        ...
