"""Explains gaps: which turns in memory say what an utterance leaves open, and whether to show them.

Two additive models in `evidence.json`, made by `training.evidence.train`, decide. `asked` says whether a
reader would ask about a gap, and `evidence` whether a turn in memory explains it. Evidence is an
exchange, such as a question and its answer: the best turn, and a second one of the same conversation if
it is about as likely. It is given only if it is likely enough to be right, because a wrong explanation
is worse than none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.history.channel import AsOf
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.language.lexicon import words
from backscroll.operators.language.sentences import sentences, shortened
from backscroll.operators.memory.additive import AdditiveModel
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.messages import Turn
from backscroll.operators.summary.evidence_features import Exchange, ExchangeVectors

__all__ = ["WEIGHTS", "Evidence", "EvidenceModels", "Resolution", "exchange_vectors", "resolve_gaps"]

WEIGHTS = Path(__file__).with_name("evidence.json")

_ASKED = 0.08  # least probability that a reader asks, of a gap that is explained
_OPEN = 0.4  # the same, of a gap that is listed without an explanation
_SURE = 0.41  # least sum of the probabilities of the turns shown
_SECOND = 0.2  # least probability of a second turn, as a share of the first one's
_CONVERSATION = 8  # turns between the two
_QUOTE = 160  # characters of a turn
_REPEATED = 0.5  # weight of a word that the utterance has, too

Probabilities = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A turn in memory that explains a gap, and the verbatim part of it that informs most."""

    entry: MemoryTurn
    quote: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """What explains the gaps of a window, by the gap's index, and the gaps that a reader may ask about.

    Evidence is one or two turns, the more likely one first. A gap that is explained counts as asked; one
    with the same evidence as an earlier gap does not, as the reader has been told.
    """

    evidence: Mapping[int, tuple[Evidence, ...]]
    asked: frozenset[int]


@dataclass(frozen=True, slots=True)
class EvidenceModels:
    """The models of one form: with or without vectors, for a memory with or without scores."""

    asked: AdditiveModel
    evidence: AdditiveModel

    @classmethod
    def from_json(cls, row: Mapping[str, Any], form: str) -> EvidenceModels:
        """Read the JSON of a form."""
        return cls(AdditiveModel.from_json(row["asked"]), AdditiveModel.from_json(row["evidence"][form]))

    @classmethod
    @cache
    def shipped(cls, form: str) -> EvidenceModels:
        """The packaged models of a form, a key of `training.evidence.train.FORMS`."""
        return cls.from_json(orjson.loads(WEIGHTS.read_bytes()), form)

    @classmethod
    def fitting(cls, exchange: Exchange) -> EvidenceModels:
        """The packaged models for what is known about a window and its memory."""
        form = "words" if exchange.vectors is None else "vectors"
        return cls.shipped(form if exchange.ranked else f"{form}_unranked")


def exchange_vectors(
    window: Sequence[Turn], memory: Sequence[MemoryTurn], history: AsOf, embedder: Embedder | None
) -> ExchangeVectors | None:
    """The vectors of a window and its memory; None without an embedder.

    Turns in memory that are not in the history are embedded.
    """
    if embedder is None or not history.has_vectors or not memory:
        return None
    turns = [entry.turn for entry in memory]
    known = [position for position, turn in enumerate(turns) if turn.seq < history.before_seq]
    new = [position for position, turn in enumerate(turns) if turn.seq >= history.before_seq]
    vectors = np.zeros((len(turns), embedder.dimensions), np.float32)
    if known:
        vectors[known] = history.turn_vectors([turns[position].seq for position in known])
    if new:
        vectors[new] = embedder.embed_passages([turns[position].rendered for position in new])
    return ExchangeVectors(history.window_vectors(window, embedder), vectors)


def resolve_gaps(
    window: Sequence[Turn],
    gaps: Sequence[Gap],
    memory: Sequence[MemoryTurn],
    vectors: ExchangeVectors | None = None,
    models: EvidenceModels | None = None,
) -> Resolution:
    """Explain the gaps of a window that its memory explains.

    Args:
        window: the window's turns.
        gaps: the window's gaps.
        memory: the turns in memory, in channel order.
        vectors: the vectors of window and memory, as `exchange_vectors` returns them.
        models: other models than the packaged ones.
    """
    written = [position for position, entry in enumerate(memory) if entry.text.strip()]
    if vectors is not None:
        vectors = ExchangeVectors(vectors.window, vectors.memory[written])
    exchange = Exchange(window, [memory[position] for position in written], vectors)
    models = models or EvidenceModels.fitting(exchange)
    evidence, asked, told = dict[int, tuple[Evidence, ...]](), set[int](), set[frozenset[int]]()
    for index, gap in enumerate(gaps):
        place = exchange.places.get(gap.utterance)
        if place is None or window[place].author.bot:  # nobody asks what a bot means
            continue
        probability = float(_probability(models.asked.score(exchange.asked(gap)))[0])
        if probability < _ASKED:
            continue
        chosen = list[int]()
        if exchange.memory:
            likely = _probability(models.evidence.score(exchange.evidence(gap, index)))
            chosen = _chosen(exchange, gap, likely)
        if chosen and frozenset(chosen) not in told:
            evidence[index] = tuple(Evidence(exchange.memory[at], _quote(exchange, at, gap)) for at in chosen)
            told.add(frozenset(chosen))
        if index in evidence or (probability >= _OPEN and not chosen):
            asked.add(index)
    return Resolution(evidence, frozenset(asked))


def _chosen(exchange: Exchange, gap: Gap, likely: Probabilities) -> list[int]:
    """The positions in memory of the evidence, best first; none if it is not likely enough to be right."""
    said = exchange.window[exchange.places[gap.utterance]].text.split()
    same = [entry.text.split() == said for entry in exchange.memory]  # the same words explain nothing
    likely = np.where(same, 0.0, likely)
    best, *others = np.argsort(-likely, kind="stable").tolist()
    seq = exchange.memory[best].turn.seq
    near = (at for at in others if abs(exchange.memory[at].turn.seq - seq) <= _CONVERSATION)
    second = next((at for at in near if likely[at] >= _SECOND * likely[best] > 0), None)
    chosen = [best] if second is None else [best, second]
    return chosen if likely[chosen].sum() >= _SURE else []


def _probability(odds: Probabilities) -> Probabilities:
    likely: Probabilities = 1 / (1 + np.exp(-odds))
    return likely


def _quote(exchange: Exchange, position: int, gap: Gap) -> str:
    """The consecutive sentences, if they are short, that say most; what the utterance says counts less.

    A sentence that is too long is cut at a word and ends in an ellipsis.
    """
    text = exchange.memory[position].text.strip()
    if len(text) <= _QUOTE:
        return text
    utterance = {word.stem for word in words(exchange.window[exchange.places[gap.utterance]].text)}
    spans = sentences(text) or ((0, len(text)),)

    def weight(quote: str) -> float:
        stems = sorted({word.stem for word in words(quote)})
        return sum(
            exchange.rarity.get(stem, 0.0) * (_REPEATED if stem in utterance else 1.0) for stem in stems
        )

    quotes = [
        _fitting(text[spans[first][0] : spans[last][1]])
        for first in range(len(spans))
        for last in range(first, len(spans))
        if last == first or spans[last][1] - spans[first][0] <= _QUOTE
    ]
    return max(quotes, key=weight)


def _fitting(text: str) -> str:
    return text if len(text) <= _QUOTE else shortened(text, _QUOTE - 2)
