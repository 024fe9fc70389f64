"""The memories that are compared: the engine's, the paper's references and its two ablations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import zip_longest

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.history.channel import AsOf
from backscroll.operators.memory.registry import STRATEGIES
from backscroll.operators.memory.request import MemoryRequest, MemoryStrategy, MemoryTurn
from backscroll.operators.memory.selection import fuse_chunks, take_chunks

__all__ = ["COMPARED", "FULL_TOKENS", "ideal", "without_gaps", "without_refinement"]

FULL_TOKENS = 128_000
"""What the paper's summarisers can read at once, and so the budget of `full`."""


def ideal(evidence: Iterable[Iterable[str]], history: AsOf) -> tuple[MemoryTurn, ...]:
    """The annotated evidence and nothing else: one alternative of every gap."""
    wanted = {id_ for alternative in evidence for id_ in alternative}
    turns = (history.turn(seq) for seq in range(history.before_seq))
    return tuple(MemoryTurn(turn, None, turn.tokens, None, 1, 1.0) for turn in turns if turn.id in wanted)


def without_gaps(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """ReMEMBER without gap-conditioned retrieval: the window is the only query."""
    window = "".join(turn.rendered for turn in request.turns)
    return STRATEGIES["remember"](replace(request, gaps=[Gap(request.turns[-1].id, window, "", "")]))


def without_refinement(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """ReMEMBER without chunk refinement: the gaps' chunks as they are, gap by gap."""
    if not request.gaps or not request.history.chunks or request.embedder is None:
        return ()
    rankings = fuse_chunks(request, [gap.text for gap in request.gaps])
    rounds = (
        chunk
        for round_ in zip_longest(*(ranking.positions for ranking in rankings))
        for chunk in round_
        if chunk is not None
    )
    distinct = list(dict.fromkeys(rounds))[: request.chunks]
    return take_chunks(request, [(chunk, 0.0) for chunk in distinct])


def of_all(request: MemoryRequest) -> tuple[MemoryTurn, ...]:
    """The engine's memory from the whole of a long history instead of an excerpt."""
    from backscroll.operators.memory.backscroll import backscroll
    from backscroll.operators.memory.excerpt import Excerpt

    return backscroll(request, Excerpt.whole(request.history))


COMPARED: Mapping[str, MemoryStrategy] = {
    **STRATEGIES,
    "full": STRATEGIES["recent"],  # with all the tokens that a model can read: the oldest are cut off
    "backscroll-of-all": of_all,
    "remember-without-gaps": without_gaps,
    "remember-without-refinement": without_refinement,
}
"""Every memory that needs no language model; `ideal` needs the annotation and stands apart."""
