"""Training rows: pairs of question and turn for relevance, of window and turn for evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backscroll.benchmarks.data.dialogues import Dialogue
from backscroll.benchmarks.data.gaps import GapRow, WindowRow
from backscroll.operators.gaps.gap import GapDetector
from backscroll.operators.memory.additive import AdditiveModel
from backscroll.operators.memory.excerpt import Excerpt
from backscroll.operators.memory.features import (
    RELEVANCE,
    evidence_features,
    named_authors,
    relevance_features,
)
from backscroll.operators.memory.request import MemoryParameters, MemoryRequest
from backscroll.operators.memory.turn_bm25 import TurnTerms
from backscroll.operators.memory.turn_features import stems
from backscroll.training.ranker.questions import Question

__all__ = [
    "THINNED",
    "Array",
    "WindowExample",
    "question_rows",
    "stacked",
    "window_example",
    "window_request",
]

Array = NDArray[np.float64]
THINNED = 3
"""One in this many of the turns that are not evidence is used for training."""
_THINNED_QUESTIONS = 5


@dataclass(frozen=True, slots=True)
class WindowExample:
    """A window with annotated gaps: rows `[turns, FEATURES]` and which turns are evidence."""

    dialogue: str
    request: MemoryRequest
    gaps: tuple[GapRow, ...]
    rows: Array
    labels: Array


def question_rows(dialogue: Dialogue, questions: Sequence[Question], *, vectors: bool) -> tuple[Array, Array]:
    """`RELEVANCE` rows and labels: every answering turn, and one in five of the others."""
    history = dialogue.histories[dialogue.key].as_of(1 << 30)
    places = {history.turn(seq).id: seq for seq in range(history.before_seq)}
    asked = [question for question in questions if question.evidence & places.keys()]
    texts, turns = [question.text for question in asked], Excerpt.whole(history).rows()
    embedder = dialogue.histories.embedder
    cosine = None
    if vectors and embedder is not None:
        cosine = embedder.embed_queries(texts) @ history.turn_vectors(range(turns.turns)).T
    terms = [stems(text) for text in texts]
    match = TurnTerms(turns, terms).match()
    features = relevance_features(turns, match, cosine, named_authors(terms, turns))
    shape = len(asked), turns.turns
    table = np.stack([np.broadcast_to(features[name], shape) for name in RELEVANCE], axis=-1)
    labels = np.zeros(shape)
    for row, question in zip(labels, asked, strict=True):
        row[[places[id_] for id_ in question.evidence if id_ in places]] = 1
    kept = (labels == 1) | (np.arange(labels.size).reshape(shape) % _THINNED_QUESTIONS == 0)
    return np.round(table[kept].astype(np.float64), 3), labels[kept]


def window_request(
    dialogue: Dialogue, row: WindowRow, detector: GapDetector, *, vectors: bool, max_gaps: int = 8
) -> MemoryRequest:
    """The request that a strategy gets for a window."""
    window = dialogue.windows[row.window]
    return MemoryRequest(
        turns=window.turns,
        gaps=detector.detect(window, max_gaps=max_gaps),
        history=dialogue.histories[dialogue.key].as_of(window.ref.first_seq),
        parameters=MemoryParameters(dialogue.histories.embedder if vectors else None),
    )


def window_example(request: MemoryRequest, row: WindowRow, relevance: AdditiveModel) -> WindowExample:
    """The rows of a window; a turn counts as evidence if any alternative of any gap contains it."""
    evidence = {id_ for gap in row.gaps for alternative in gap.evidence for id_ in alternative}
    seqs = range(request.history.before_seq)
    labels = np.array([request.history.turn(seq).id in evidence for seq in seqs], np.float64)
    rows = np.asarray(evidence_features(request, Excerpt.whole(request.history), relevance).rows, np.float64)
    return WindowExample(row.dialogue, request, row.gaps, rows, labels)


def stacked(examples: Iterable[WindowExample]) -> tuple[Array, Array]:
    """Rows and labels of several windows: all evidence, and one in `THINNED` of the other turns."""
    rows, labels = list[Array](), list[Array]()
    for example in examples:
        kept = (example.labels == 1) | (np.arange(len(example.labels)) % THINNED == 0)
        rows.append(example.rows[kept])
        labels.append(example.labels[kept])
    return np.concatenate(rows), np.concatenate(labels)
