"""The published memory of ReMEMBER, section 4."""

from __future__ import annotations

from backscroll.operators.memory.request import MemoryRequest, MemoryTurn, Needs
from backscroll.operators.memory.selection import fuse_chunks, take_in_rounds
from backscroll.operators.memory.verbatim import VerbatimMemory

__all__ = ["REMEMBER", "remember"]


def remember(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """ReMEMBER as published: retrieve for every gap, extract turns, accumulate gap by gap.

    For each gap, the top chunks of both retrievers are fused and the best K are kept. Their turns are
    sorted by cosine to the gap's query. Round d takes the d-th turn of every gap, until one does not
    fit.
    """
    embedder = request.parameters.embedder
    if not request.gaps or not request.history.chunks or embedder is None:
        return ()
    queries = [gap.text for gap in request.gaps]
    vectors = embedder.embed_queries(queries)
    extracted = []
    for vector, best in zip(vectors, fuse_chunks(request, queries, vectors), strict=True):
        touched = {seq for chunk in best.positions for seq in request.history.chunk_turns(chunk)}
        seqs = sorted(seq for seq in touched if not request.history.turn(seq).deleted)
        scores = (request.history.turn_vectors(seqs) @ vector).tolist()
        extracted.append(sorted(zip(seqs, scores, strict=True), key=lambda pair: (-pair[1], pair[0])))
    return take_in_rounds(request, extracted)


REMEMBER = VerbatimMemory("remember", remember, Needs(vectors=True))
