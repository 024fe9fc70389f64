"""Search over a channel's history: the first-stage retrieval of a memory, for a person's words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backscroll.operators.history.channel import AsOf
from backscroll.operators.index.bm25 import tokenize
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.index.fusion import reciprocal_rank_fusion
from backscroll.operators.index.ranking import Ranking
from backscroll.operators.memory.request import Retrieval
from backscroll.operators.messages import Turn

__all__ = ["Hit", "search"]


@dataclass(frozen=True, slots=True)
class Hit:
    """A turn that was found; `words` are those of the query that it holds, lower-case."""

    turn: Turn
    words: tuple[str, ...]


def search(
    history: AsOf,
    query: str,
    embedder: Embedder | None,
    *,
    limit: int = 20,
    retrieval: Retrieval | None = None,
) -> list[Hit]:
    """The turns that a query finds, best first, at most one for a chunk.

    Chunks are ranked by BM25, which has to share a word with them, and, where history and embedder
    have vectors, by cosine; the rankings are fused by reciprocal rank. Of a chunk the turn with most
    words of the query is taken, then the closest one.
    """
    retrieval = retrieval or Retrieval()
    wanted = tuple(dict.fromkeys(tokenize(query)))
    if not history.chunks or not query.strip():
        return []
    by_words = Ranking.top(history.sparse(query), retrieval.top_k)
    rankings = [Ranking.of((position, score) for position, score in by_words if score > 0)]
    vector = None
    if embedder is not None and history.has_vectors:
        vector = embedder.embed_queries([query])
        (nearest,) = history.nearest(vector, retrieval.top_k)
        # A store's own search may tell of a chunk that is being made again, and is not here yet.
        here = ((position, cosine) for position, cosine in nearest if position < history.chunks)
        rankings.append(Ranking.of(here))
    hits = dict[int, Hit]()
    for position in reciprocal_rank_fusion(rankings, k=retrieval.rrf_constant).positions:
        seqs = [seq for seq in history.chunk_turns(position) if not history.turn(seq).deleted]
        if not seqs:
            continue
        cosines = np.zeros(len(seqs)) if vector is None else history.turn_vectors(seqs) @ vector[0]
        held = [_held(wanted, history.turn(seq)) for seq in seqs]
        best = max(range(len(seqs)), key=lambda at: (len(held[at]), cosines[at], -at))
        hits.setdefault(seqs[best], Hit(history.turn(seqs[best]), held[best]))
        if len(hits) == limit:
            break
    return list(hits.values())


def _held(wanted: tuple[str, ...], turn: Turn) -> tuple[str, ...]:
    there = set(tokenize(turn.rendered))
    return tuple(word for word in wanted if word in there)
