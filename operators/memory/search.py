"""Search a channel's history with a person's query, by the first-stage retrieval of memories."""

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
    """A turn that was found; `words` are the query's words that it contains, in lower case."""

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
    """The turns that match a query, best first, at most one per chunk.

    Chunks are ranked by BM25, which finds only those that share a word with the query, and by cosine
    if the history has vectors and there is an embedder. The rankings are combined by reciprocal rank
    fusion. Each chunk yields the turn with the most query words; ties go to the closest turn.
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
        # The store's own search may return a chunk that is being rewritten and is not indexed here yet.
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
