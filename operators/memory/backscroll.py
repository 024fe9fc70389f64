"""The default memory: every turn in view is ranked as evidence for the window, then packed.

It depends less on the gap detector than ReMEMBER does: every utterance of the window is a query as
well as every gap, and recency, speakers and content count besides similarity. The window is compared
with turns directly; no chunks are retrieved first.
"""

from __future__ import annotations

import numpy as np

from backscroll.operators.memory.excerpt import Excerpt, excerpt
from backscroll.operators.memory.features import FEATURES, evidence_features
from backscroll.operators.memory.packing import pack
from backscroll.operators.memory.ranker import Ranker
from backscroll.operators.memory.request import MemoryRequest, MemoryTurn
from backscroll.operators.memory.verbatim import VerbatimMemory

__all__ = ["BACKSCROLL", "rank_all", "remember_evidence"]


def backscroll(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The memory chosen by the packaged ranker; a long history is reduced to an excerpt first."""
    return _shipped(request, excerpt(request))


def rank_all(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The same, but ranks the whole history, however long it is."""
    return _shipped(request, Excerpt.whole(request.history))


def _shipped(request: MemoryRequest, among: Excerpt) -> tuple[MemoryTurn, ...]:
    vectors = request.parameters.embedder is not None and request.history.has_vectors
    return remember_evidence(request, Ranker.shipped(vectors=vectors), among)


def remember_evidence(request: MemoryRequest, ranker: Ranker, among: Excerpt) -> tuple[MemoryTurn, ...]:
    """The memory that a given ranker chooses from an excerpt of the request's history.

    A turn's `gap` is the one it is most relevant to, and `rank` its rank among that gap's turns.
    `score` is the square root of the probability that it is evidence, which has about the range of
    a cosine.
    """
    if not among or not request.turns:
        return ()
    evidence = evidence_features(request, among, ranker.relevance)
    odds = ranker.evidence.score(dict(zip(FEATURES, evidence.rows.T, strict=True)))
    probability = 1 / (1 + np.exp(-odds))
    tokens = among.rows()["tokens"]
    packed = pack(probability, tokens, among.turn, evidence.wanted, budget=request.parameters.budget)
    best, ranks, taken = evidence.relevance.argmax(axis=0), dict[int | None, int](), list[MemoryTurn]()
    for entry in packed:
        gap = int(best[entry.seq]) if request.gaps else None
        ranks[gap] = rank = ranks.get(gap, 0) + 1
        score = round(float(probability[entry.seq]) ** 0.5, 4)
        odds_by_gap = evidence.relevance[:, entry.seq] if request.gaps else ()
        relevance = tuple(round(float(value), 3) for value in odds_by_gap)
        turn = among.turn(entry.seq)
        taken.append(MemoryTurn(turn, entry.span, entry.tokens, gap, rank, score, relevance))
    return tuple(sorted(taken, key=lambda item: item.turn.seq))


BACKSCROLL = VerbatimMemory("backscroll", backscroll)
