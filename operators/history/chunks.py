"""Chunks: overlapping token spans of a closed window, the unit of first-stage retrieval.

Chunking restarts at each window, so a chunk never spans two windows, and a window's chunks depend
only on its own turns (ReMEMBER, section 4.1: 128 tokens with an overlap of 32).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from backscroll.operators.language.tokens import decode, encode
from backscroll.operators.messages import Turn

__all__ = ["Chunk", "Chunker", "token_span"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens `start` (inclusive) to `end` (exclusive) of a window, and the turns they belong to."""

    start: int
    end: int
    first_seq: int
    last_seq: int
    text: str


@dataclass(frozen=True, slots=True)
class Chunker:
    """How windows are chunked: `size` tokens each, `overlap` of them shared with the previous chunk."""

    size: int = 128
    overlap: int = 32

    def __post_init__(self) -> None:
        if not 0 <= self.overlap < self.size:
            msg = f"chunk overlap is {self.overlap}: it must be at least 0 and below the size, {self.size}"
            raise ValueError(msg)

    def chunk(self, turns: Sequence[Turn]) -> tuple[Chunk, ...]:
        """The chunks of one window's turns, in order; the last may be shorter. Deleted turns have none."""
        tokens = [token for turn in turns for token in encode(turn.rendered)]
        if not tokens:
            return ()
        ends = list(accumulate(turn.tokens for turn in turns))
        chunks = []
        for start in range(0, max(len(tokens) - self.overlap, 1), self.size - self.overlap):
            end = min(start + self.size, len(tokens))
            first, last = bisect_right(ends, start), bisect_left(ends, end)
            chunks.append(Chunk(start, end, turns[first].seq, turns[last].seq, decode(tokens[start:end])))
        return tuple(chunks)


def token_span(turn: Turn, start: int, end: int) -> tuple[int, int] | None:
    """Character span of `turn.text` covered by tokens `start` to `end` of the rendered turn.

    None if the tokens cover only the author's name or the line break.
    """
    tokens = encode(turn.rendered)
    prefix = len(turn.author.name) + 2
    left = max(len(decode(tokens[:start])) - prefix, 0)
    right = min(len(decode(tokens[:end])) - prefix, len(turn.text))
    return (left, right) if left < right else None
