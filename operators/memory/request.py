"""What a memory strategy is asked for, and what it returns.

Parameters follow ReMEMBER, section 5.1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.history.channel import AsOf, ChannelHistory
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.messages import Turn

__all__ = ["MemoryRef", "MemoryRequest", "MemoryStrategy", "MemoryTurn", "Retrieval"]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Parameters of first-stage retrieval; `chunk_size` in tokens."""

    top_k: int = 30
    rrf_constant: int = 60
    chunk_size: int = 128


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """A window's turns and gaps, the history it may see, and the most tokens to take from it."""

    turns: Sequence[Turn]
    gaps: Sequence[Gap]
    history: AsOf
    embedder: Embedder | None
    budget: int = 1024
    retrieval: Retrieval = Retrieval()

    @property
    def chunks(self) -> int:
        """K: how many chunks fill the budget."""
        return self.budget // self.retrieval.chunk_size


@dataclass(frozen=True, slots=True)
class MemoryTurn:
    """A turn in memory, or the characters `span` of its text.

    `gap` is the index of the gap that it was taken for, `rank` its place for that gap (or in the
    strategy's own order) from 1, `score` what it was ranked by.
    """

    turn: Turn
    span: tuple[int, int] | None
    tokens: int
    gap: int | None
    rank: int
    score: float

    @property
    def text(self) -> str:
        """The verbatim text in memory."""
        return self.turn.text if self.span is None else self.turn.text[slice(*self.span)]


@dataclass(frozen=True, slots=True)
class MemoryRef:
    """A turn in memory by its place, for what is in flight: the text stays in the history."""

    seq: int
    span: tuple[int, int] | None
    tokens: int
    gap: int | None
    rank: int
    score: float

    @classmethod
    def of(cls, entry: MemoryTurn) -> MemoryRef:
        """The reference to a turn in memory."""
        return cls(entry.turn.seq, entry.span, entry.tokens, entry.gap, entry.rank, entry.score)

    def read(self, history: ChannelHistory) -> MemoryTurn:
        """The turn in memory, with its text from the history."""
        (turn,) = history.turns(self.seq, self.seq)
        return MemoryTurn(turn, self.span, self.tokens, self.gap, self.rank, self.score)


MemoryStrategy = Callable[[MemoryRequest], tuple[MemoryTurn, ...]]
"""Builds a memory; its turns come in the order of the channel."""
