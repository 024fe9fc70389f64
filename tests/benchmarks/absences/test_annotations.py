from __future__ import annotations

import json
from pathlib import Path

import pytest

from backscroll.benchmarks.absences.annotations import read_absences
from backscroll.benchmarks.data.gaps import BenchmarkError
from support.annotating import ABSENCE

ROW = {**ABSENCE, "absence": "away-1", "dialogue": "dialogue-1"}


def test_the_answers_of_a_question_may_be_left_out(tmp_path: Path) -> None:
    questions = [{"id": "m2", "state": "open"}, {"id": "m3", "state": "answered", "answers": ["m4"]}]
    path = tmp_path / "away.jsonl"
    path.write_text(json.dumps({**ROW, "questions": questions}))
    (absence,) = read_absences(path)
    assert [(one.state, one.answers) for one in absence.questions] == [
        ("open", frozenset()),
        ("answered", frozenset({"m4"})),
    ]


def test_a_question_without_a_state_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "away.jsonl"
    path.write_text(json.dumps({**ROW, "questions": [{"id": "m2"}]}))
    with pytest.raises(BenchmarkError, match=r"away\.jsonl:1: not an annotated absence: no 'state'"):
        read_absences(path)
