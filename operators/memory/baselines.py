"""The baselines of ReMEMBER (section 5.1): no memory, recent turns, retrieval with the window as query."""

from __future__ import annotations

from backscroll.operators.memory.request import MemoryRequest, MemoryTurn, Needs
from backscroll.operators.memory.selection import dense_rankings, sparse_ranking, take_chunks, window_text
from backscroll.operators.memory.verbatim import VerbatimMemory

__all__ = ["DENSE", "HYBRID", "NONE", "RECENT", "SPARSE", "recent"]


def none(_request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """No memory."""
    return ()


def recent(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The last turns before the window, as many as fit the budget."""
    taken, left = list[MemoryTurn](), request.parameters.budget
    for rank, seq in enumerate(range(request.history.before_seq - 1, -1, -1), start=1):
        turn = request.history.turn(seq)
        if turn.tokens > left:
            break
        if turn.deleted:
            continue
        left -= turn.tokens
        taken.append(MemoryTurn(turn, None, turn.tokens, None, rank, 0.0))
    return tuple(reversed(taken))


def sparse(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The top chunks by BM25, with the window as the query."""
    return take_chunks(request, sparse_ranking(request, window_text(request))[: request.parameters.chunks])


def dense(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The top chunks by cosine, with the window as the query."""
    return take_chunks(
        request, dense_rankings(request, [window_text(request)])[0][: request.parameters.chunks]
    )


def hybrid(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The top K/2 chunks of each ranking, sparse and dense, with the window as the query."""
    window, half = window_text(request), request.parameters.chunks // 2
    by_sparse = sparse_ranking(request, window)[: request.parameters.chunks - half]
    by_dense = dense_rankings(request, [window])[0][:half]
    return take_chunks(request, [*by_sparse, *by_dense])


NONE = VerbatimMemory("none", none)
RECENT = VerbatimMemory("recent", recent)
SPARSE = VerbatimMemory("sparse", sparse)
DENSE = VerbatimMemory("dense", dense, Needs(vectors=True))
HYBRID = VerbatimMemory("hybrid", hybrid, Needs(vectors=True))
