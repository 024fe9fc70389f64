"""Train the models of acts.

    python -m backscroll.training.acts.train ANNOTATIONS... --dialogues FOLDER...

ANNOTATIONS are files of annotated absences in the layout of `backscroll bench absences`. To measure, train
once without each dialogue that is measured (`--leave-out`), and score with those weights: `backscroll bench
absences --acts FOLDER`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import click
import numpy as np
import orjson
from numpy.typing import NDArray

from backscroll.connectors.embedding.onnx import OnnxEmbedder
from backscroll.operators.acts.answers import answers_to
from backscroll.operators.acts.classifier import KINDS, WEIGHTS, ActModel, present
from backscroll.operators.acts.linear import LinearModel
from backscroll.training.acts.examples import AnnotatedTurns, read_annotated
from backscroll.training.acts.fit import (
    FitSettings,
    LabelledMessages,
    fit_figures,
    fit_present,
    thresholds_of,
)
from backscroll.training.ranker.vectors import KeptVectors

__all__ = ["train"]

Vector: TypeAlias = NDArray[np.float32]

_FOLDS = 5


def train(
    examples: Sequence[AnnotatedTurns], *, vectors: bool, settings: FitSettings | None = None
) -> ActModel:
    """The models of one variant."""
    answered = _answered(examples, vectors)
    figures = [
        example.neighbourhoods[vectors].figures(place) | {"answered": answered[number].get(place, 0.0)}
        for number, example in enumerate(examples)
        for place in example.places
    ]
    thresholds = thresholds_of(figures)
    features, dialogues, rows = list[set[str]](), list[str](), list[Vector]()
    labels = {kind: list[bool]() for kind in KINDS}
    asking = list[bool]()
    everything = iter(figures)
    for example in examples:
        around, questions = example.neighbourhoods[vectors], set(example.questions())
        for place in example.places:
            sentences, whole = present(around, place, next(everything), thresholds)
            features.append(whole.union(*sentences))
            dialogues.append(example.absence.dialogue)
            rows.append(example.vectors[place])
            asking.append(place in questions)
            for kind, label in example.labels(place).items():
                labels[kind].append(label)
    every = np.ones(len(features), bool)
    learned = LabelledMessages(
        features,
        labels,
        {kind: np.array(asking) if kind == "question" else every for kind in KINDS},
        dialogues,
        np.array(rows) if vectors else None,
    )
    kinds = fit_present(learned, settings or FitSettings())
    return ActModel(kinds, _answer_model(examples, vectors), thresholds)


def _answered(examples: Sequence[AnnotatedTurns], vectors: bool) -> list[dict[int, float]]:
    """How probably each question was answered, by models that have not seen its dialogue."""
    names = sorted({example.absence.dialogue for example in examples})
    found: list[dict[int, float]] = [{} for _ in examples]
    for fold in range(_FOLDS):
        held = set(names[fold::_FOLDS])
        model = _answer_model([one for one in examples if one.absence.dialogue not in held], vectors)
        for number, example in enumerate(examples):
            if example.absence.dialogue in held:
                around = example.neighbourhoods[vectors]
                for place in example.questions():
                    likely = answers_to(around, place, model)
                    found[number][place] = likely[0].probability if likely else 0.0
    return found


def _answer_model(examples: Iterable[AnnotatedTurns], vectors: bool) -> LinearModel:
    rows, labels = list[Mapping[str, float]](), list[bool]()
    for example in examples:
        pairs = example.pairs(vectors=vectors)
        rows += pairs.rows
        labels += pairs.labels
    return fit_figures(rows, labels)


@click.command()
@click.argument("annotations", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--dialogues", multiple=True, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--out", type=click.Path(path_type=Path), default=WEIGHTS, show_default=True)
@click.option("--vectors", "kept", type=click.Path(path_type=Path), help="Keep vectors in this .npz file.")
@click.option(
    "--leave-out", multiple=True, help="A dialogue; --out is a folder then, with weights trained without it."
)
def main(
    annotations: Sequence[Path],
    dialogues: Sequence[Path],
    out: Path,
    kept: Path | None,
    leave_out: Sequence[str],
) -> None:
    """Train the models of acts and write their weights."""
    embedder = KeptVectors(OnnxEmbedder(), kept)
    examples = read_annotated(annotations, dialogues, embedder)
    embedder.save()
    for left in leave_out:
        out.mkdir(parents=True, exist_ok=True)
        others = [one for one in examples if one.absence.dialogue != left]
        (out / f"{left}.json").write_bytes(_weights(others))
        click.echo(f"{left}: {len(others)} of {len(examples)} absences")
    if not leave_out:
        out.write_bytes(_weights(examples))


def _weights(examples: Sequence[AnnotatedTurns]) -> bytes:
    models = {form: train(examples, vectors=form == "vectors").to_json() for form in ("vectors", "words")}
    return orjson.dumps({"version": 1, **models}, option=orjson.OPT_INDENT_2) + b"\n"


if __name__ == "__main__":
    main()
