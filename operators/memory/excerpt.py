"""Of a long history the windows that may hold evidence, so that its length does not count.

The evidence ranker compares a window with every turn it is given. Up to `_RECENT + _FOUND` windows it is
given all of them. Of a longer history it gets the latest ones and those that retrieval finds: by the
gaps, by the rare words of the window, and by the vectors of the utterances that have a gap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from backscroll.operators.history.channel import AsOf
from backscroll.operators.index.bm25 import top_k
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.memory.request import MemoryRequest
from backscroll.operators.memory.turn_features import TurnRows
from backscroll.operators.messages import Turn

__all__ = ["Excerpt", "excerpt"]

_RECENT, _FOUND = 64, 128  # windows


_CHUNKS = 96  # of one ranking


_RARE = 0.05  # words in more of the chunks say little, and take most of the time


@dataclass(frozen=True, slots=True)
class Excerpt(AsOf):
    """Some windows of a history, in its order; `turn` and the rows count the turns of these alone.

    Attributes:
        chosen: indexes of the windows.
        starts: the turns of the excerpt before each of them, and in all.
    """

    chosen: tuple[int, ...] = ()
    starts: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, past: AsOf, chosen: Sequence[int]) -> Excerpt:
        """These windows of what is in sight."""
        refs = [past.history.windows[index] for index in chosen]
        starts = accumulate((ref.last_seq - ref.first_seq + 1 for ref in refs), initial=0)
        return cls(past.history, past.windows, tuple(chosen), tuple(starts))

    @property
    def before_seq(self) -> int:
        """How many turns there are."""
        return self.starts[-1]

    def turn(self, seq: int) -> Turn:
        """A turn by its place in the excerpt."""
        place = int(np.searchsorted(self.starts, seq, side="right")) - 1
        first = self.history.windows[self.chosen[place]].first_seq
        return AsOf.turn(self, first + seq - self.starts[place])

    def turn_rows(self) -> TurnRows:
        """What the evidence ranker knows of the turns."""
        return self.history.rows_of(self.chosen)

    @property
    def all_turn_vectors(self) -> Vectors:
        """Unit vectors of the turns, float32 `[turns, dimensions]`."""
        refs = [self.history.windows[index] for index in self.chosen]
        return self.turn_vectors([seq for ref in refs for seq in range(ref.first_seq, ref.last_seq + 1)])


def excerpt(request: MemoryRequest) -> AsOf:
    """What of the history a window has to be compared with: all of it, unless it is long."""
    past = request.history
    if past.windows <= _RECENT + _FOUND or not request.turns:
        return past
    worth: defaultdict[int, float] = defaultdict(float)
    for ranking in _rankings(request):
        for rank, chunk in enumerate(ranking, start=1):
            worth[past.chunk_tokens(chunk)[0].index] += 1 / (request.retrieval.rrf_constant + rank)
    recent = range(past.windows - _RECENT, past.windows)
    for index in recent:
        worth.pop(index, None)
    found = sorted(worth, key=lambda index: (-worth[index], index))[:_FOUND]
    return Excerpt.of(past, [*sorted(found), *recent])


def _rankings(request: MemoryRequest) -> Iterator[list[int]]:
    """The best chunks for each gap, and for the window."""
    past = request.history
    window = "\n".join(turn.text for turn in request.turns)
    for query in (*(gap.text for gap in request.gaps), window):
        yield top_k(past.sparse(query, most=_RARE), _CHUNKS).tolist()
    if request.embedder is None or not past.has_vectors:
        return
    vectors = past.window_vectors(request.turns, request.embedder)
    with_gap = {gap.utterance for gap in request.gaps}
    asking = [place for place, turn in enumerate(request.turns) if turn.id in with_gap]
    asked = np.vstack([vectors[asking], vectors.mean(axis=0, keepdims=True)])
    for nearest in past.nearest(asked, _CHUNKS):
        yield [chunk for chunk, _ in nearest]
