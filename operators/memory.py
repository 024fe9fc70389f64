"""Memory strategies: which verbatim history turns a window is summarised with.

Every strategy gets the same request and returns at most `budget` tokens, counted in the same
tokens as windows. Parameters and baselines follow ReMEMBER, sections 4 and 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest

from operators.bm25 import ranking
from operators.chunks import token_span
from operators.dense import Embedder, Vectors
from operators.gaps import Gap
from operators.history import AsOf, ChannelHistory
from operators.messages import Turn
from operators.retrieval import reciprocal_rank_fusion
from operators.windows import WindowRef

__all__ = [
    "STRATEGIES",
    "MemoryRef",
    "MemoryRequest",
    "MemoryStrategy",
    "MemoryTurn",
    "Retrieval",
    "fuse_chunks",
    "take_chunks",
    "take_in_rounds",
]


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


def none(_request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """No memory."""
    return ()


def recent(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The turns right before the window, as many as fit."""
    taken, left = list[MemoryTurn](), request.budget
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
    return take_chunks(request, _sparse_ranking(request, _window_text(request))[: request.chunks])


def dense(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The top chunks by cosine, with the window as the query."""
    return take_chunks(request, _dense_rankings(request, [_window_text(request)])[0][: request.chunks])


def hybrid(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The top K/2 chunks of the sparse and of the dense ranking, with the window as the query."""
    window, half = _window_text(request), request.chunks // 2
    by_sparse = _sparse_ranking(request, window)[: request.chunks - half]
    by_dense = _dense_rankings(request, [window])[0][:half]
    return take_chunks(request, by_sparse + by_dense)


def remember(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """ReMEMBER as published: retrieve for every gap, extract turns, accumulate gap by gap.

    Top chunks of both retrievers are fused per gap and the best K kept; their turns are ordered by
    cosine to the gap's query; round d takes the d-th turn of every gap until one does not fit.
    """
    if not request.gaps or not request.history.chunks or request.embedder is None:
        return ()
    queries = [gap.text for gap in request.gaps]
    vectors = request.embedder.embed_queries(queries)
    extracted = []
    for vector, best in zip(vectors, _fused(request, queries, vectors), strict=True):
        touched = {seq for chunk in best for seq in request.history.chunk_turns(chunk)}
        seqs = sorted(seq for seq in touched if not request.history.turn(seq).deleted)
        scores = (request.history.turn_vectors(seqs) @ vector).tolist()
        extracted.append(sorted(zip(seqs, scores, strict=True), key=lambda pair: (-pair[1], pair[0])))
    return take_in_rounds(request, extracted)


def fuse_chunks(request: MemoryRequest, queries: Sequence[str]) -> list[list[int]]:
    """The best K chunks of every query, by reciprocal rank fusion of both retrievers."""
    if request.embedder is None:
        return []
    return _fused(request, queries, request.embedder.embed_queries(queries))


def _fused(request: MemoryRequest, queries: Sequence[str], vectors: Vectors) -> list[list[int]]:
    best = []
    nearest = request.history.nearest(vectors, request.retrieval.top_k)
    for query, by_dense in zip(queries, nearest, strict=True):
        rankings = _sparse_ranking(request, query), by_dense
        fused = reciprocal_rank_fusion(
            [[position for position, _ in ranking] for ranking in rankings],
            k=request.retrieval.rrf_constant,
        )
        best.append(fused[: request.chunks])
    return best


def take_in_rounds(
    request: MemoryRequest, extracted: Sequence[Sequence[tuple[int, float]]]
) -> tuple[MemoryTurn, ...]:
    """Take the d-th turn of every gap in round d, until one does not fit the budget."""
    taken, left = dict[int, MemoryTurn](), request.budget
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


def _window_text(request: MemoryRequest) -> str:
    return "".join(turn.rendered for turn in request.turns)


def _sparse_ranking(request: MemoryRequest, query: str) -> list[tuple[int, float]]:
    return ranking(request.history.sparse(query), request.retrieval.top_k)


def _dense_rankings(request: MemoryRequest, queries: Sequence[str]) -> list[list[tuple[int, float]]]:
    if not request.history.chunks or request.embedder is None:
        return [[] for _ in queries]
    vectors = request.embedder.embed_queries(queries)
    return request.history.nearest(vectors, request.retrieval.top_k)


def take_chunks(request: MemoryRequest, ranking: Iterable[tuple[int, float]]) -> tuple[MemoryTurn, ...]:
    """Chunks as verbatim parts of turns; tokens that two chunks share are taken once."""
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
    """The parts of turns under tokens `start` to `end` of a window: turn, span and token count."""
    offset = 0
    for seq in range(ref.first_seq, ref.last_seq + 1):
        turn = request.history.turn(seq)
        left, right = max(start - offset, 0), min(end - offset, turn.tokens)
        offset += turn.tokens
        if left < right and (span := token_span(turn, left, right)):
            yield turn, None if span == (0, len(turn.text)) else span, right - left


def _in_order(turns: Iterable[MemoryTurn]) -> tuple[MemoryTurn, ...]:
    return tuple(sorted(turns, key=lambda item: (item.turn.seq, item.span or (0, 0))))


def backscroll(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The default: turns ranked as evidence by a small trained model (`operators.backscroll`)."""
    from operators.backscroll import backscroll as build
    from operators.excerpt import excerpt

    return build(replace(request, history=excerpt(request)))


STRATEGIES: Mapping[str, MemoryStrategy] = {
    "backscroll": backscroll,
    "remember": remember,
    "recent": recent,
    "hybrid": hybrid,
    "sparse": sparse,
    "dense": dense,
    "none": none,
}
