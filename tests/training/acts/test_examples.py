from __future__ import annotations

import json
from pathlib import Path

import pytest

from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.training.acts.examples import BEFORE, AnnotatedTurns, read_annotated
from support.annotating import ABSENCE, talk, write_annotated, write_dialogue
from support.building import HashingEmbedder


@pytest.fixture
def example(tmp_path: Path) -> AnnotatedTurns:
    file, dialogues = write_annotated(tmp_path, 1)
    (found,) = read_annotated([file], [dialogues], HashingEmbedder())
    return found


def test_the_messages_of_an_absence_are_read_with_those_before(example: AnnotatedTurns) -> None:
    assert example.first == 1
    assert list(example.places) == list(range(1, 10))
    for vectors in (False, True):
        messages = example.neighbourhoods[vectors].messages
        assert [(one.turn.author.name, one.turn.text) for one in messages] == talk(0)
    assert example.neighbourhoods[False].vectors is None
    assert example.vectors.shape == (10, 64)


def test_labels_are_those_of_the_annotation(example: AnnotatedTurns) -> None:
    labels = {
        f"m{place}": {kind for kind, label in example.labels(place).items() if label}
        for place in example.places
    }
    assert {id_: kinds for id_, kinds in labels.items() if kinds} == {
        "m3": {"point"},  # a task that is done is no open action
        "m5": {"decision", "point"},
        "m7": {"action"},
        "m9": {"question"},
    }


def test_questions_are_messages_that_may_ask(example: AnnotatedTurns) -> None:
    assert list(example.questions()) == [2, 9]


def test_pairs_are_questions_with_what_may_answer_them(example: AnnotatedTurns) -> None:
    pairs = example.pairs(vectors=True)
    assert pairs.labels == [True, False, False, False, False]  # m3, m5, m6, m7 and m9 after m2
    assert "alike" in pairs.rows[0]
    assert "alike" not in example.pairs(vectors=False).rows[0]


def test_a_rhetorical_question_gives_no_pairs(tmp_path: Path) -> None:
    file, dialogues = write_annotated(tmp_path, 1)
    questions = [{"id": "m2", "answers": [], "state": "rhetorical"}]
    file.write_text(json.dumps({**ABSENCE, "absence": "a", "dialogue": "dialogue-0", "questions": questions}))
    (found,) = read_annotated([file], [dialogues], HashingEmbedder())
    assert found.pairs(vectors=False).rows == []


def test_no_more_than_a_few_messages_before_the_absence_are_read(tmp_path: Path) -> None:
    long = [("Eva", f"The tide is at {n}.") for n in range(30)]
    write_dialogue(tmp_path / "dialogues", "tides", long)
    file = tmp_path / "away.jsonl"
    nothing: dict[str, list[str]] = {"points": [], "decisions": [], "actions": [], "questions": []}
    row = {**ABSENCE, **nothing, "absence": "a", "dialogue": "tides", "first_id": "m20", "last_id": "m24"}
    file.write_text(json.dumps(row))
    (found,) = read_annotated([file], [tmp_path / "dialogues"], HashingEmbedder())
    assert [one.turn.id for one in found.neighbourhoods[False].messages] == [
        f"m{n}" for n in range(20 - BEFORE, 25)
    ]
    assert found.first == BEFORE


def test_a_missing_dialogue_is_named_in_one_line(tmp_path: Path) -> None:
    file, dialogues = write_annotated(tmp_path, 1)
    (dialogues / "dialogue-0.jsonl").unlink()
    with pytest.raises(BenchmarkError) as caught:
        read_annotated([file], [dialogues], HashingEmbedder())
    assert str(caught.value) == f"{file}: no dialogue dialogue-0.jsonl in the folders given"


def test_a_file_that_is_no_annotation_is_refused(tmp_path: Path) -> None:
    file, dialogues = write_annotated(tmp_path, 1)
    file.write_text("{}\n")
    with pytest.raises(BenchmarkError, match=r"away\.jsonl:1: not an annotated absence: no 'absence'"):
        read_annotated([file], [dialogues], HashingEmbedder())
