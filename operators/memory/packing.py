"""Packing a memory: as much expected evidence as the token budget allows.

Turns are taken in order of probability divided by the square root of their cost, which favours neither
the longest nor the shortest turns. A turn that does not fit the rest of the budget is skipped. Of a
long turn only a run of consecutive sentences is taken, verbatim: the one with the most wanted words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.language.sentences import sentences
from backscroll.operators.language.tokens import count
from backscroll.operators.memory.turn_features import stems
from backscroll.operators.messages import Turn

__all__ = ["LONG", "Packed", "best_span", "pack"]

LONG = 96
"""A turn of more tokens is shortened to a run of sentences of at most this many."""
_LEAST = 4  # no turn has fewer tokens


@dataclass(frozen=True, slots=True)
class Packed:
    """A turn in the memory, whole or the characters `span` of its text, and its cost in tokens."""

    seq: int
    span: tuple[int, int] | None
    tokens: int


def pack(
    probability: NDArray[np.float64],
    tokens: NDArray[np.float64],
    turn: Callable[[int], Turn],
    wanted: Callable[[int, str], float],
    *,
    budget: int,
    candidates: int = 256,
) -> list[Packed]:
    """Fill the budget, best turns first.

    Args:
        probability: the probability that each turn is evidence, `[turns]`.
        tokens: the tokens of each turn, `[turns]`.
        turn: returns a turn by its index in the arrays.
        wanted: how much a word, given as a stem, counts in a turn, for choosing sentences.
        budget: most tokens.
        candidates: how many turns are considered.
    """
    worth = np.round(probability / np.sqrt(np.clip(tokens, 1, LONG)), 6)
    taken, left = list[Packed](), budget
    for seq in np.argsort(-worth, kind="stable")[:candidates].tolist():
        if left < _LEAST:
            break
        candidate = turn(seq)
        if not candidate.text.strip() or (candidate.tokens > LONG and left < LONG // 2):
            continue
        span, cost = None, candidate.tokens
        if cost > LONG:
            span, cost = best_span(candidate, partial(wanted, seq))
        if cost <= left:
            taken.append(Packed(seq, span, cost))
            left -= cost
    return taken


def best_span(
    turn: Turn, wanted: Callable[[str], float], limit: int = LONG
) -> tuple[tuple[int, int] | None, int]:
    """The run of a turn's sentences with the most `wanted` distinct words, in at most `limit` tokens.

    Returns its character span, or None for the whole turn, and its cost in tokens. A single sentence
    may exceed the limit.
    """
    spans = sentences(turn.text)
    if len(spans) < 2:
        return None, turn.tokens
    values = [_value(turn.text[start:end], wanted) for start, end in spans]
    costs = [count(f" {turn.text[start:end]}") for start, end in spans]
    prefix = count(f"{turn.author.name}:\n")
    first, last = max(
        _runs(costs, limit - prefix), key=lambda run: (sum(values[run[0] : run[1] + 1]), -run[0], run[1])
    )
    span = spans[first][0], spans[last][1]
    if (first, last) == (0, len(spans) - 1):
        return None, turn.tokens
    return span, count(f"{turn.author.name}: {turn.text[slice(*span)]}\n")


def _runs(costs: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """For each sentence, the longest run that starts there and fits the limit, or the sentence itself."""
    for first in range(len(costs)):
        last, spent = first, costs[first]
        while last + 1 < len(costs) and spent + costs[last + 1] <= limit:
            last += 1
            spent += costs[last]
        yield first, last


def _value(text: str, wanted: Callable[[str], float]) -> float:
    return sum(map(wanted, dict.fromkeys(stems(text))))
