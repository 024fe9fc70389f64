from __future__ import annotations

from pathlib import Path

import numpy as np

from backscroll.benchmarks.data.dialogues import record_dialogue
from backscroll.benchmarks.data.gaps import GapRow, WindowRow
from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.memory.ranker import Ranker
from backscroll.operators.summary.evidence_features import ASKED, EVIDENCE
from backscroll.training.evidence.examples import asked_rows, evidence_rows, window_example

SAMPLE = Path(__file__).resolve().parents[3] / "samples" / "harbor.jsonl"


def test_a_window_gives_a_row_for_each_gap_and_each_turn_in_memory_of_an_annotated_gap() -> None:
    dialogue = record_dialogue(SAMPLE, None)
    window = dialogue.windows[3]
    ranker = Ranker.shipped(vectors=False)
    bare = WindowRow("harbor", 3, tuple(turn.id for turn in window.turns), ())
    plain = window_example(dialogue, bare, ranker, vectors=False)
    memory = [entry.turn.id for entry in plain.memory]
    gap = RulesDetector().detect(window, max_gaps=8)[1]
    alternatives = frozenset(memory[:1]), frozenset(memory[1:3])
    annotated = GapRow(gap.utterance, gap.quote, "attribute", alternatives, "", 100)
    row = WindowRow("harbor", 3, bare.ids, (annotated,))
    example = window_example(dialogue, row, ranker, vectors=False)

    assert example.vectors is None
    asked, is_asked = asked_rows([plain, example])
    assert asked.shape == (2 * len(example.gaps), len(ASKED))
    assert np.flatnonzero(is_asked).tolist() == [len(plain.gaps) + 1]

    names = ["away", "relevance"]
    rows, labels = evidence_rows([plain, example], names)
    assert labels.tolist() == [1, 0.5, 0.5, *[0] * (len(memory) - 3)]
    assert rows.shape == (len(memory), 2)
    assert rows[:, 0].tolist() == example.gaps[1].evidence[:, EVIDENCE.index("away")].tolist()
    assert len(set(rows[:, 1])) > 1
