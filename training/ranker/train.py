"""Train the evidence ranker.

    python -m backscroll.training.ranker.train --bench ../shared/bench --data ../shared/data

Training data are the annotated gaps of the benchmark's `dev` and `train` parts, except LoCoMo 48, which is
held out of all training, and the questions of `questions`. With `--evaluate FORM` nothing is written:
each dialogue is evaluated with a ranker trained without it and its questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson

from backscroll.benchmarks.data.dialogues import Dialogue, record_dialogue
from backscroll.benchmarks.data.gaps import GapRow, WindowRow, read_gaps
from backscroll.connectors.embedding.onnx import OnnxEmbedder
from backscroll.connectors.files.recorded_gaps import RecordedDetector
from backscroll.operators.gaps.gap import GapDetector
from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.memory.additive import AdditiveModel
from backscroll.operators.memory.backscroll import remember_evidence
from backscroll.operators.memory.excerpt import Excerpt
from backscroll.operators.memory.features import DENSE, FEATURES, RELEVANCE
from backscroll.operators.memory.ranker import WEIGHTS, Ranker
from backscroll.training.ranker.examples import (
    THINNED,
    Array,
    WindowExample,
    question_rows,
    stacked,
    window_example,
    window_request,
)
from backscroll.training.ranker.fit import StumpSettings, fit_logistic, fit_stumps, mean_model
from backscroll.training.ranker.questions import REALTALK, Question, read_questions
from backscroll.training.ranker.vectors import KeptVectors

__all__ = ["Corpus", "main", "measure", "train"]

PARTS = ("dev", "train")
NEVER = frozenset(("locomo-conv-48",))
QUESTION_RIDGE, GAP_RIDGE = 10.0, 600.0
STUMPS = 3  # ensembles of stumps, each with its own random features


@dataclass(frozen=True)
class Corpus:
    """All data for training and evaluation, by dialogue."""

    dialogues: dict[str, Dialogue]
    windows: dict[str, list[WindowRow]]
    parts: dict[str, str]
    detectors: dict[str, GapDetector]
    questions: list[Question]
    tables: dict[tuple[str, bool], tuple[Array, Array]] = field(default_factory=dict)

    @classmethod
    def read(cls, bench: Path, data: Path, embedder: KeptVectors) -> Corpus:
        """Record every dialogue of the benchmark parts, and the chats used only for their questions."""
        corpus = cls({}, {}, {}, {}, list(read_questions(data)))
        for part in PARTS:
            for path in sorted((bench / part / "dialogues").glob("*.jsonl")):
                corpus.dialogues[path.stem] = record_dialogue(path, embedder)
                corpus.parts[path.stem] = part
                corpus.windows[path.stem] = []
            corpus.detectors[part] = RecordedDetector.read(bench / part / "detected.jsonl")
            for row in read_gaps(bench / part / "gaps.jsonl"):
                corpus.windows[row.dialogue].append(row)
        for number in REALTALK:
            if (name := f"realtalk-{number}") not in corpus.dialogues:
                (path,) = (data / "realtalk").glob(f"Chat_{number}_*.json")
                corpus.dialogues[name] = record_dialogue(path, embedder)
        return corpus


def train(corpus: Corpus, *, vectors: bool, leave_out: str | None = None) -> dict[str, Any]:
    """The JSON of one form of the ranker, trained on all dialogues except `leave_out`."""
    relevance = _train_relevance(corpus, vectors, leave_out)
    model = AdditiveModel.from_json(relevance)
    learned = [name for name in corpus.windows if name != leave_out and name not in NEVER]
    examples = [example for name in learned for example in _examples(corpus, name, model, vectors)]
    rows, labels = stacked(examples)
    names = [name for name in FEATURES if vectors or name not in DENSE]
    rows = rows[:, [FEATURES.index(name) for name in names]]
    stumps = [fit_stumps(rows, labels, names, StumpSettings(seed=seed)) for seed in range(STUMPS)]
    evidence = mean_model(fit_logistic(rows, labels, names, ridge=GAP_RIDGE), mean_model(*stumps))
    evidence["constant"] = round(evidence["constant"] - log(THINNED), 4)  # corrects for thinning
    return {"relevance": relevance, "evidence": evidence}


def _train_relevance(corpus: Corpus, vectors: bool, leave_out: str | None) -> dict[str, Any]:
    tables = []
    for name in sorted({question.dialogue for question in corpus.questions} - {leave_out}):
        if (name, vectors) not in corpus.tables:
            asked = [question for question in corpus.questions if question.dialogue == name]
            corpus.tables[name, vectors] = question_rows(corpus.dialogues[name], asked, vectors=vectors)
        tables.append(corpus.tables[name, vectors])
    rows = np.concatenate([table for table, _ in tables])
    labels = np.concatenate([label for _, label in tables])
    names = [name for name in RELEVANCE if vectors or name not in DENSE]
    rows = rows[:, [RELEVANCE.index(name) for name in names]]
    return mean_model(fit_logistic(rows, labels, names, ridge=QUESTION_RIDGE))


def _examples(corpus: Corpus, name: str, relevance: AdditiveModel, vectors: bool) -> Iterable[WindowExample]:
    """Every window twice, with the recorded gaps and with those of the rules, to depend on neither."""
    for row in corpus.windows[name]:
        for detector in (corpus.detectors[corpus.parts[name]], RulesDetector()):
            request = window_request(corpus.dialogues[name], row, detector, vectors=vectors)
            if request.history.before_seq:
                yield window_example(request, row, relevance)


def measure(corpus: Corpus, *, vectors: bool, say: Callable[[str], None]) -> None:
    """Measure memory recall on each dialogue with a ranker not trained on it, for recorded gaps and rules."""
    hits: dict[tuple[str, str], list[tuple[GapRow, bool]]] = {}
    for name, rows in corpus.windows.items():
        ranker = Ranker.from_json(train(corpus, vectors=vectors, leave_out=name))
        part = corpus.parts[name]
        for label, detector in (("recorded", corpus.detectors[part]), ("rules", RulesDetector())):
            for row in rows:
                request = window_request(corpus.dialogues[name], row, detector, vectors=vectors)
                taken = remember_evidence(request, ranker, Excerpt.whole(request.history))
                memory = {entry.turn.id for entry in taken}
                hits.setdefault((label, part), []).extend((gap, gap.resolved(memory)) for gap in row.gaps)
    for (label, part), found in sorted(hits.items()):
        say(f"{label:9} {part:6} {_recall(found)}")


def _recall(found: Sequence[tuple[GapRow, bool]]) -> str:
    places = [np.mean([hit for gap, hit in found if gap.place == place]) for place in ("near", "mid", "far")]
    every = np.mean([hit for _, hit in found])
    return f"all {every:.3f} macro {np.mean(places):.3f} " + " ".join(f"{place:.2f}" for place in places)


@click.command()
@click.option("--bench", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--out", type=click.Path(path_type=Path), default=WEIGHTS, show_default=True)
@click.option("--vectors", "kept", type=click.Path(path_type=Path), help="Keep vectors in this .npz file.")
@click.option("--evaluate", type=click.Choice(("vectors", "words")), help="Measure a form, leaving one out.")
def main(bench: Path, data: Path, out: Path, kept: Path | None, evaluate: str | None) -> None:
    """Train the evidence ranker and write its weights, or measure it."""
    embedder = KeptVectors(OnnxEmbedder(), kept)
    corpus = Corpus.read(bench, data, embedder)
    embedder.save()
    if evaluate:
        measure(corpus, vectors=evaluate == "vectors", say=click.echo)
    else:
        models = {form: train(corpus, vectors=form == "vectors") for form in ("vectors", "words")}
        out.write_bytes(orjson.dumps({"version": 1, **models}, option=orjson.OPT_INDENT_2) + b"\n")
    embedder.save()


if __name__ == "__main__":
    main()
