"""Contextual gaps: what a window's utterances presuppose, and the detector interface.

A gap names the utterance, quotes the span that cannot be understood alone, says why, and carries
an evidence-seeking query with lexical anchors from the window; it never guesses the answer
(ReMEMBER, section 4.1).
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
    """Finds the gaps of a window from the window alone; it never sees the history."""

    @property
    def name(self) -> str:
        """How summary records name the detector."""
        ...

    def detect(self, window: Window, *, max_gaps: int) -> tuple[Gap, ...]:
        """The most important gaps of the window, at most `max_gaps`, in window order."""
        ...
