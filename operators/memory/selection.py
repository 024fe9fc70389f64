"""From rankings of chunks and turns to verbatim turns within the budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest

from backscroll.operators.history.chunks import token_span
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.index.fusion import reciprocal_rank_fusion
from backscroll.operators.index.ranking import Ranking
from backscroll.operators.memory.request import MemoryRequest, MemoryTurn
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import WindowRef

__all__ = [
    "dense_rankings",
    "fuse_chunks",
    "sparse_ranking",
    "take_chunks",
    "take_in_rounds",
    "window_text",
]


def fuse_chunks(request: MemoryRequest, queries: Sequence[str], vectors: Vectors) -> list[Ranking]:
    """The best K chunks of every query, by reciprocal rank fusion of both retrievers.

    Args:
        request: the history, and how many chunks each retriever and the fusion may return.
        queries: texts, for BM25.
        vectors: the same queries embedded, float32 `[queries, dimensions]`.
    """
    best = []
    nearest = request.history.nearest(vectors, request.parameters.retrieval.top_k)
    for query, by_dense in zip(queries, nearest, strict=True):
        rankings = sparse_ranking(request, query), by_dense
        fused = reciprocal_rank_fusion(rankings, k=request.parameters.retrieval.rrf_constant)
        best.append(fused[: request.parameters.chunks])
    return best


def take_in_rounds(
    request: MemoryRequest, extracted: Sequence[Sequence[tuple[int, float]]]
) -> tuple[MemoryTurn, ...]:
    """Take the d-th turn of every gap in round d, until one does not fit the budget."""
    taken, left = dict[int, MemoryTurn](), request.parameters.budget
    for rank, round_ in enumerate(zip_longest(*extracted), start=1):
        for gap, candidate in enumerate(round_):
            if candidate is None or candidate[0] in taken:
                continue
            seq, score = candidate
            turn = request.history.turn(seq)
            if turn.tokens > left:
                return _in_order(taken.values())
            left -= turn.tokens
            taken[seq] = MemoryTurn(turn, None, turn.tokens, gap, rank, round(score, 4))
    return _in_order(taken.values())


def window_text(request: MemoryRequest) -> str:
    """The window as one text, for baselines that use it as the query."""
    return "".join(turn.rendered for turn in request.turns)


def sparse_ranking(request: MemoryRequest, query: str) -> Ranking:
    """The top chunks by BM25."""
    return Ranking.top(request.history.sparse(query), request.parameters.retrieval.top_k)


def dense_rankings(request: MemoryRequest, queries: Sequence[str]) -> list[Ranking]:
    """The top chunks by cosine for each query; empty without an embedder."""
    embedder = request.parameters.embedder
    if not request.history.chunks or embedder is None:
        return [Ranking() for _ in queries]
    vectors = embedder.embed_queries(queries)
    return request.history.nearest(vectors, request.parameters.retrieval.top_k)


def take_chunks(request: MemoryRequest, ranking: Iterable[tuple[int, float]]) -> tuple[MemoryTurn, ...]:
    """Chunks as verbatim parts of turns; tokens shared by two chunks are taken once."""
    taken = list[MemoryTurn]()
    seen = dict[int, set[int]]()  # window index -> token offsets already in memory
    for rank, (position, score) in enumerate(ranking, start=1):
        ref, start, end = request.history.chunk_tokens(position)
        offsets = seen.setdefault(ref.index, set())
        for run in _runs(offset for offset in range(start, end) if offset not in offsets):
            for turn, span, tokens in _parts(request, ref, *run):
                taken.append(MemoryTurn(turn, span, tokens, None, rank, round(score, 4)))
        offsets.update(range(start, end))
    return _in_order(taken)


def _runs(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Maximal runs `[first, end)` of ascending integers."""
    for _, group in groupby(enumerate(offsets), key=lambda pair: pair[1] - pair[0]):
        run = [offset for _, offset in group]
        yield run[0], run[-1] + 1


def _parts(
    request: MemoryRequest, ref: WindowRef, start: int, end: int
) -> Iterator[tuple[Turn, tuple[int, int] | None, int]]:
    """The parts of turns that tokens `start` to `end` of a window cover: turn, span and token count."""
    offset = 0
    for seq in range(ref.first_seq, ref.last_seq + 1):
        turn = request.history.turn(seq)
        left, right = max(start - offset, 0), min(end - offset, turn.tokens)
        offset += turn.tokens
        if left < right and (span := token_span(turn, left, right)):
            yield turn, None if span == (0, len(turn.text)) else span, right - left


def _in_order(turns: Iterable[MemoryTurn]) -> tuple[MemoryTurn, ...]:
    return tuple(sorted(turns, key=lambda item: (item.turn.seq, item.span or (0, 0))))
