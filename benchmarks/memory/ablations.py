"""Memories to compare the engine's with: the paper's references and its two ablations."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from itertools import zip_longest

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.memory.backscroll import rank_all
from backscroll.operators.memory.baselines import recent
from backscroll.operators.memory.remember import remember
from backscroll.operators.memory.request import MemoryRequest, MemoryTurn, Needs
from backscroll.operators.memory.selection import fuse_chunks, take_chunks
from backscroll.operators.memory.verbatim import VerbatimMemory

__all__ = ["FULL_TOKENS", "AnnotatedRequest"]

FULL_TOKENS = 128_000
"""What the paper's summarisers can read at once, and so the budget of `full`."""


@dataclass(frozen=True, slots=True)
class AnnotatedRequest(MemoryRequest):
    """A request of a benchmark.

    Attributes:
        evidence: ids of the annotated evidence, one alternative of every gap.
        context: most tokens that a model can read at once.
    """

    evidence: Set[str] = frozenset()
    context: int = FULL_TOKENS


def ideal(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The annotated evidence and nothing else."""
    wanted = _annotated(request).evidence
    turns = (request.history.turn(seq) for seq in range(request.history.before_seq))
    return tuple(MemoryTurn(turn, None, turn.tokens, None, 1, 1.0) for turn in turns if turn.id in wanted)


def full(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The whole history, as far as a model can read it: the oldest turns are cut off."""
    budget = _annotated(request).context
    return recent(replace(request, parameters=replace(request.parameters, budget=budget)))


def without_gaps(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """ReMEMBER without gap-conditioned retrieval: the window is the only query."""
    window = "".join(turn.rendered for turn in request.turns)
    return remember(replace(request, gaps=[Gap(request.turns[-1].id, window, "", "")]))


def without_refinement(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """ReMEMBER without chunk refinement: the gaps' chunks as they are, gap by gap."""
    embedder = request.parameters.embedder
    if not request.gaps or not request.history.chunks or embedder is None:
        return ()
    queries = [gap.text for gap in request.gaps]
    rankings = fuse_chunks(request, queries, embedder.embed_queries(queries))
    rounds = (
        chunk
        for round_ in zip_longest(*(ranking.positions for ranking in rankings))
        for chunk in round_
        if chunk is not None
    )
    distinct = list(dict.fromkeys(rounds))[: request.parameters.chunks]
    return take_chunks(request, [(chunk, 0.0) for chunk in distinct])


def _annotated(request: MemoryRequest) -> AnnotatedRequest:
    if not isinstance(request, AnnotatedRequest):
        raise TypeError("this memory can only be built for an AnnotatedRequest")
    return request


FULL = VerbatimMemory("full", full)
IDEAL = VerbatimMemory("ideal", ideal)
BACKSCROLL_OF_ALL = VerbatimMemory("backscroll-of-all", rank_all)
WITHOUT_GAPS = VerbatimMemory("remember-without-gaps", without_gaps, Needs(vectors=True))
WITHOUT_REFINEMENT = VerbatimMemory("remember-without-refinement", without_refinement, Needs(vectors=True))
