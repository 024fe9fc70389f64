"""Training examples: windows with their memory, and their gaps with features and labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backscroll.benchmarks.data.dialogues import Dialogue
from backscroll.benchmarks.data.gaps import WindowRow
from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.memory.backscroll import remember_evidence
from backscroll.operators.memory.excerpt import Excerpt
from backscroll.operators.memory.ranker import Ranker
from backscroll.operators.memory.request import MemoryRequest, MemoryTurn
from backscroll.operators.summary.evidence import exchange_vectors
from backscroll.operators.summary.evidence_features import ASKED, EVIDENCE, Exchange, ExchangeVectors
from backscroll.training.ranker.examples import window_request

__all__ = ["Array", "GapExample", "WindowExample", "asked_rows", "evidence_rows", "window_example"]

Array = NDArray[np.float64]
_PART = 0.5
"""The label of a turn that explains a gap only together with others."""


@dataclass(frozen=True, slots=True)
class GapExample:
    """A gap of the rules: `ASKED` `[features]`, `EVIDENCE` `[memory, features]`, and what was annotated.

    `labels` `[memory]` is None for a gap that was not annotated, so that a reader would not ask.
    """

    asked: Array
    evidence: Array
    labels: Array | None


@dataclass(frozen=True, slots=True)
class WindowExample:
    """A window with annotated gaps, its memory, and its gaps as examples."""

    row: WindowRow
    request: MemoryRequest
    memory: tuple[MemoryTurn, ...]
    vectors: ExchangeVectors | None
    gaps: tuple[GapExample, ...]


def window_example(dialogue: Dialogue, row: WindowRow, ranker: Ranker, *, vectors: bool) -> WindowExample:
    """The example of a window, with the gaps of the rules and the memory that a ranker chooses."""
    request = window_request(dialogue, row, RulesDetector(), vectors=vectors)
    memory = remember_evidence(request, ranker, Excerpt.whole(request.history))
    memory = tuple(entry for entry in memory if entry.text.strip())
    embedder = request.parameters.embedder
    known = exchange_vectors(request.turns, memory, request.history, embedder)
    exchange = Exchange(request.turns, memory, known)
    gaps = [_example(exchange, row, index, request) for index in range(len(request.gaps))] if memory else []
    return WindowExample(row, request, memory, known, tuple(gaps))


def _example(exchange: Exchange, row: WindowRow, index: int, request: MemoryRequest) -> GapExample:
    gap = request.gaps[index]
    alternatives = [
        ids for annotated in row.gaps if annotated.utterance == gap.utterance for ids in annotated.evidence
    ]
    alone = {id_ for ids in alternatives for id_ in ids if len(ids) == 1}
    together = frozenset[str]().union(*alternatives)
    ids = [entry.turn.id for entry in exchange.memory]
    labels = [1.0 if id_ in alone else _PART if id_ in together else 0.0 for id_ in ids]
    asked, evidence = exchange.asked(gap), exchange.evidence(gap, index)
    table: Array = np.column_stack([evidence[name] for name in EVIDENCE]).astype(np.float64)
    return GapExample(
        np.array([asked[name][0] for name in ASKED]),
        np.round(table, 4),
        np.array(labels) if alternatives else None,
    )


def asked_rows(examples: Iterable[WindowExample]) -> tuple[Array, Array]:
    """`ASKED` rows and labels of every gap."""
    gaps = [gap for example in examples for gap in example.gaps]
    return np.array([gap.asked for gap in gaps]), np.array([float(gap.labels is not None) for gap in gaps])


def evidence_rows(examples: Iterable[WindowExample], names: Sequence[str]) -> tuple[Array, Array]:
    """The named columns of `EVIDENCE`, and labels, of every turn in memory for every annotated gap."""
    places = [EVIDENCE.index(name) for name in names]
    rows, labels = list[Array](), list[Array]()
    for example in examples:
        for gap in example.gaps:
            if gap.labels is not None:
                rows.append(gap.evidence[:, places])
                labels.append(gap.labels)
    return np.concatenate(rows), np.concatenate(labels)
