from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from backscroll.operators.acts.classifier import KINDS, ActModel, find_acts
from backscroll.training.acts import train as module
from backscroll.training.acts.examples import AnnotatedTurns, read_annotated
from backscroll.training.acts.fit import FitSettings
from backscroll.training.acts.train import train
from support.acting import read
from support.annotating import write_annotated
from support.building import HashingEmbedder


@pytest.fixture
def annotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A file of six absences and the folder of their dialogues, embedded by hashes."""
    monkeypatch.setattr(module, "OnnxEmbedder", HashingEmbedder)
    return write_annotated(tmp_path)


def run(file: Path, dialogues: Path, *options: object) -> Result:
    arguments = [str(file), "--dialogues", str(dialogues), *map(str, options)]
    return CliRunner().invoke(module.main, arguments, catch_exceptions=False)


CHAT = (
    "Eva: Good morning!",
    "Finn: Where did we leave the kettle?",
    "Eva: The kettle is in the shed.",
    "Gil: We decided to sell the kettle in spring.",
    "Gil: I'll paint the kettle tomorrow.",
    "Eva: Lunch was good.",
)


@pytest.mark.parametrize("vectors", [False, True])
def test_what_was_learned_holds_for_another_thing(annotated: tuple[Path, Path], vectors: bool) -> None:
    file, dialogues = annotated
    examples = read_annotated([file], [dialogues], HashingEmbedder())
    model = train(examples, vectors=vectors, settings=FitSettings(inverse_ridge=10))
    messages = read(*CHAT)
    embedded = HashingEmbedder().embed_passages([one.turn.text for one in messages]) if vectors else None
    acts = find_acts(messages, embedded, model)

    def likeliest(kind: str) -> int:
        return max(range(len(acts)), key=lambda place: acts[place].probabilities[kind])  # type: ignore[index]

    assert likeliest("decision") == 3
    assert likeliest("action") == 4
    assert acts[1].answers[0].place == 2
    assert (model.kinds["decision"].vector is not None) is vectors


def test_weights_are_written_in_the_form_that_is_read(annotated: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "acts.json"
    assert run(*annotated, "--out", out).exit_code == 0
    assert orjson.loads(out.read_bytes())["version"] == 1
    for vectors in (False, True):
        model = ActModel.read(out, vectors=vectors)
        assert set(model.kinds) == set(KINDS)
        assert ("alike" in model.answer.weights) is vectors
        assert {kind for kind, one in model.kinds.items() if one.vector is not None} == (
            set(KINDS) if vectors else set()
        )


def test_the_same_annotations_give_the_same_weights(annotated: tuple[Path, Path], tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    for out in (first, second):
        run(*annotated, "--out", out)
    assert first.read_bytes() == second.read_bytes()


def test_a_dialogue_that_is_left_out_is_not_learned_from(
    annotated: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = list[tuple[bool, list[str]]]()

    def recorded(examples: Sequence[AnnotatedTurns], *, vectors: bool) -> ActModel:
        learned.append((vectors, [one.absence.dialogue for one in examples]))
        return train(examples, vectors=vectors)

    monkeypatch.setattr(module, "train", recorded)
    out = tmp_path / "folder"
    done = run(*annotated, "--out", out, "--leave-out", "dialogue-2", "--leave-out", "dialogue-4")
    assert done.output == "dialogue-2: 5 of 6 absences\ndialogue-4: 5 of 6 absences\n"
    assert sorted(path.name for path in out.iterdir()) == ["dialogue-2.json", "dialogue-4.json"]
    for left, (_, names) in zip(("2", "2", "4", "4"), learned, strict=True):
        assert names == [f"dialogue-{n}" for n in range(6) if str(n) != left]
    assert set(ActModel.read(out / "dialogue-2.json", vectors=False).kinds) == set(KINDS)


def test_vectors_are_kept_for_the_next_run(
    annotated: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "vectors.npz"
    assert run(*annotated, "--out", tmp_path / "a.json", "--vectors", kept).exit_code == 0

    class Forgetful(HashingEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> module.Vector:
            raise AssertionError(f"embedded again: {texts}")

    monkeypatch.setattr(module, "OnnxEmbedder", Forgetful)
    assert run(*annotated, "--out", tmp_path / "b.json", "--vectors", kept).exit_code == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
