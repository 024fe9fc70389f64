"""An excerpt of a long history: the windows that may hold evidence. It bounds the cost of ranking.

The evidence ranker compares a window with every turn it is given. A history of up to
`_RECENT + _FOUND` windows is used whole. Of a longer one, the ranker gets the latest windows and those
that retrieval finds: by the gaps, by the window's rare words, and by the vectors of utterances that
have a gap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from backscroll.operators.history.channel import AsOf
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.index.fusion import reciprocal_rank_fusion
from backscroll.operators.index.ranking import Ranking
from backscroll.operators.memory.request import MemoryRequest
from backscroll.operators.memory.turn_features import TurnFeatures, TurnRows
from backscroll.operators.messages import Turn

__all__ = ["Excerpt", "excerpt"]

_RECENT, _FOUND = 64, 128  # windows
_CHUNKS = 96  # taken from each ranking
_RARE = 0.05  # words in a larger share of the chunks say little, and take most of the time


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The turns that the evidence ranker compares with a window: those of selected earlier windows.

    A turn is identified by its *position*, which counts only the turns of these windows, from 0.

    Attributes:
        past: the history in view.
        windows: indexes of the windows, ascending.
        starts: number of turns before each window, then the total.
    """

    past: AsOf
    windows: Sequence[int]
    starts: Sequence[int]

    @classmethod
    def of(cls, past: AsOf, windows: Sequence[int]) -> Excerpt:
        """An excerpt of the given windows."""
        refs = [past.history.windows[index] for index in windows]
        starts = accumulate((ref.last_seq - ref.first_seq + 1 for ref in refs), initial=0)
        return cls(past, windows, tuple(starts))

    @classmethod
    def whole(cls, past: AsOf) -> Excerpt:
        """An excerpt of every window in view."""
        return cls.of(past, range(past.windows))

    def __len__(self) -> int:
        return self.starts[-1]

    def turn(self, position: int) -> Turn:
        """A turn by its position."""
        place = bisect_right(self.starts, position) - 1
        first = self.past.history.windows[self.windows[place]].first_seq
        return self.past.turn(first + position - self.starts[place])

    def rows(self) -> TurnRows:
        """The turns as arrays, for the evidence ranker."""
        return self.past.index(TurnFeatures).rows(self.windows)

    def vectors(self) -> Vectors:
        """Unit vectors of the turns, float32 `[turns, dimensions]`.

        Raises:
            HistoryError: the history has no embedder.
        """
        if len(self.windows) == self.past.windows:
            return self.past.all_turn_vectors
        refs = [self.past.history.windows[index] for index in self.windows]
        return self.past.turn_vectors([seq for ref in refs for seq in range(ref.first_seq, ref.last_seq + 1)])


def excerpt(request: MemoryRequest) -> Excerpt:
    """The part of the history to compare a window with: all of it, unless it is long."""
    past = request.history
    if past.windows <= _RECENT + _FOUND or not request.turns:
        return Excerpt.whole(past)
    recent = range(past.windows - _RECENT, past.windows)
    found = reciprocal_rank_fusion(_rankings(request), k=request.parameters.retrieval.rrf_constant).positions
    older = [window for window in found if window not in recent][:_FOUND]
    return Excerpt.of(past, [*sorted(older), *recent])


def _rankings(request: MemoryRequest) -> Iterator[Ranking]:
    """The windows of the best chunks for each gap and for the window, one entry per chunk."""
    for ranking in _chunk_rankings(request):
        windows = (request.history.chunk_tokens(chunk)[0].index for chunk in ranking.positions)
        yield Ranking(tuple(windows), ranking.scores)


def _chunk_rankings(request: MemoryRequest) -> Iterator[Ranking]:
    past = request.history
    window = "\n".join(turn.text for turn in request.turns)
    for query in (*(gap.text for gap in request.gaps), window):
        yield Ranking.top(past.sparse(query, most=_RARE), _CHUNKS)
    embedder = request.parameters.embedder
    if embedder is None or not past.has_vectors:
        return
    vectors = past.window_vectors(request.turns, embedder)
    with_gap = {gap.utterance for gap in request.gaps}
    asking = [place for place, turn in enumerate(request.turns) if turn.id in with_gap]
    asked = np.vstack([vectors[asking], vectors.mean(axis=0, keepdims=True)])
    yield from past.nearest(asked, _CHUNKS)
