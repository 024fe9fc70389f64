"""Train the models that choose the evidence of gaps, `operators/summary/evidence.json`.

    python -m backscroll.training.evidence.train --bench ../shared/bench --data ../shared/data

Training data are the annotated gaps of the benchmark's `dev` and `train` parts, except LoCoMo 48, and of
the folders `--more` that are annotated in the same way. A window's memory is chosen by a ranker trained
without its dialogue, as the scores of a dialogue that the ranker knows are too good. With `--evaluate
FORM` nothing is written: each dialogue is evaluated with models trained without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import orjson

from backscroll.benchmarks.data.dialogues import Dialogue, record_dialogue
from backscroll.benchmarks.data.gaps import WindowRow, read_gaps
from backscroll.connectors.embedding.onnx import OnnxEmbedder
from backscroll.operators.memory.ranker import Ranker
from backscroll.operators.summary.evidence import WEIGHTS, EvidenceModels, Resolution, resolve_gaps
from backscroll.operators.summary.evidence_features import ASKED, DENSE, EVIDENCE, RANKED
from backscroll.training.evidence.examples import (
    Array,
    WindowExample,
    asked_rows,
    evidence_rows,
    window_example,
)
from backscroll.training.ranker.fit import StumpSettings, fit_logistic, fit_stumps, mean_model
from backscroll.training.ranker.train import NEVER, Corpus
from backscroll.training.ranker.train import train as train_ranker
from backscroll.training.ranker.vectors import KeptVectors

__all__ = ["FORMS", "Annotated", "main", "measure", "train"]

FORMS: Mapping[str, frozenset[str]] = {
    "vectors": frozenset(),
    "vectors_unranked": frozenset(RANKED),
    "words": frozenset(DENSE),
    "words_unranked": frozenset((*DENSE, *RANKED)),
}
"""The forms of the model for evidence, and the features that each does without."""
ASKED_RIDGE, EVIDENCE_RIDGE = 50.0, 200.0
ASKED_STUMPS, EVIDENCE_STUMPS = StumpSettings(rounds=150), StumpSettings()
STUMPS = 3  # ensembles of stumps, each with its own random features


@dataclass(frozen=True)
class Annotated:
    """All annotated windows by dialogue, and the rankers that were trained without a dialogue.

    `parts` has the dialogues that can be evaluated; the others are for training only.
    """

    corpus: Corpus
    dialogues: dict[str, Dialogue]
    windows: dict[str, list[WindowRow]]
    parts: dict[str, str]
    rankers: dict[str, Any]
    examples: dict[tuple[str, bool], list[WindowExample]] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        bench: Path,
        data: Path,
        embedder: KeptVectors,
        more: Sequence[Path] = (),
        rankers: Mapping[str, Any] | None = None,
    ) -> Annotated:
        """Record every annotated dialogue."""
        corpus = Corpus.read(bench, data, embedder)
        dialogues = {name: corpus.dialogues[name] for name in corpus.windows}
        windows = {name: list(rows) for name, rows in corpus.windows.items()}
        for folder in more:
            for row in read_gaps(folder / "gaps.jsonl"):
                if row.dialogue not in dialogues:
                    path = folder / "dialogues" / f"{row.dialogue}.jsonl"
                    dialogues[row.dialogue] = record_dialogue(path, embedder)
                windows.setdefault(row.dialogue, []).append(row)
        return cls(corpus, dialogues, windows, dict(corpus.parts), dict(rankers or {}))

    def of(self, name: str, *, vectors: bool) -> list[WindowExample]:
        """The examples of a dialogue, with the memory of a ranker trained without it."""
        if (name, vectors) not in self.examples:
            form = "vectors" if vectors else "words"
            known = name in self.corpus.dialogues  # its windows or questions train the ranker
            key = f"{form} {name if known else 'nothing left out'}"
            if key not in self.rankers:
                self.rankers[key] = train_ranker(
                    self.corpus, vectors=vectors, leave_out=name if known else None
                )
            ranker = Ranker.from_json(self.rankers[key])
            self.examples[name, vectors] = [
                window_example(self.dialogues[name], row, ranker, vectors=vectors)
                for row in self.windows[name]
            ]
        return self.examples[name, vectors]


def train(annotated: Annotated, forms: Iterable[str] = FORMS, leave_out: str | None = None) -> dict[str, Any]:
    """The JSON of the models, trained on all dialogues except `leave_out`."""
    learned = [name for name in annotated.windows if name != leave_out and name not in NEVER]
    evidence, asked = dict[str, Any](), dict[str, Any]()
    for form in forms:
        vectors = form.startswith("vectors")
        examples = [example for name in learned for example in annotated.of(name, vectors=vectors)]
        if not asked:
            asked = _fit(*asked_rows(examples), ASKED, ridge=ASKED_RIDGE, stumps=ASKED_STUMPS)
        names = [name for name in EVIDENCE if name not in FORMS[form]]
        rows, labels = evidence_rows(examples, names)
        evidence[form] = _fit(rows, labels, names, ridge=EVIDENCE_RIDGE, stumps=EVIDENCE_STUMPS)
    return {"asked": asked, "evidence": evidence}


def _fit(
    rows: Array, labels: Array, names: Sequence[str], *, ridge: float, stumps: StumpSettings
) -> dict[str, Any]:
    seeds = range(STUMPS)
    ensembles = [
        fit_stumps(rows, labels, names, StumpSettings(rounds=stumps.rounds, seed=seed)) for seed in seeds
    ]
    return mean_model(fit_logistic(rows, labels, names, ridge=ridge), mean_model(*ensembles))


def measure(annotated: Annotated, form: str, *, say: Callable[[str], None]) -> None:
    """What is explained in each dialogue by models that are not trained on it."""
    totals = dict[str, Counter[str]]()
    for name, part in annotated.parts.items():
        models = EvidenceModels.from_json(train(annotated, [form], leave_out=name), form)
        counts = Counter[str]()
        for example in annotated.of(name, vectors=form.startswith("vectors")):
            resolution = resolve_gaps(
                example.request.turns, example.request.gaps, example.memory, example.vectors, models
            )
            counts.update(_counts(example, resolution))
        totals.setdefault(part, Counter()).update(counts)
        say(f"{name:18} {_line(counts)}")
    for part, counts in totals.items():
        say(f"{part:18} {_line(counts)}")


def _counts(example: WindowExample, resolution: Resolution) -> Counter[str]:
    named = dict[str, list[set[str]]]()
    for index, evidence in resolution.evidence.items():
        utterance = example.request.gaps[index].utterance
        named.setdefault(utterance, []).append({one.entry.turn.id for one in evidence})
    counts = Counter(
        windows=1,
        gaps=len(example.row.gaps),
        shown=len(resolution.evidence),
        messages=sum(map(len, resolution.evidence.values())),
        open=len(resolution.asked - resolution.evidence.keys()),
    )
    for gap in example.row.gaps:
        if gap.utterance in named:
            counts["right" if any(map(gap.resolved, named[gap.utterance])) else "wrong"] += 1
    return counts


def _line(counts: Counter[str]) -> str:
    right, wrong, gaps = counts["right"], counts["wrong"], counts["gaps"]
    shares = f"{right / max(1, gaps):.2f}, precision {right / max(1, right + wrong):.2f}"
    shown = f"{counts['shown']} gaps explained by {counts['messages']} messages, {counts['open']} listed open"
    return f"{right:3} right {wrong:3} wrong of {gaps:3} ({shares}); in {counts['windows']} windows {shown}"


@click.command()
@click.option("--bench", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option(
    "--more",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    help="A folder with more annotated dialogues, for training only.",
)
@click.option("--out", type=click.Path(path_type=Path), default=WEIGHTS, show_default=True)
@click.option("--vectors", "kept", type=click.Path(path_type=Path), help="Keep vectors in this .npz file.")
@click.option("--rankers", type=click.Path(path_type=Path), help="Keep rankers in this JSON file.")
@click.option("--evaluate", type=click.Choice(tuple(FORMS)), help="Measure a form, leaving one out.")
def main(
    *,
    bench: Path,
    data: Path,
    more: Sequence[Path],
    out: Path,
    kept: Path | None,
    rankers: Path | None,
    evaluate: str | None,
) -> None:
    """Train the models that choose evidence and write their weights, or measure them."""
    embedder = KeptVectors(OnnxEmbedder(), kept)
    trained = orjson.loads(rankers.read_bytes()) if rankers is not None and rankers.exists() else {}
    annotated = Annotated.read(bench, data, embedder, more, trained)
    if evaluate:
        measure(annotated, evaluate, say=click.echo)
    else:
        models = train(annotated)
        out.write_bytes(orjson.dumps({"version": 1, **models}, option=orjson.OPT_INDENT_2) + b"\n")
    embedder.save()
    if rankers is not None:
        rankers.write_bytes(orjson.dumps(annotated.rankers))


if __name__ == "__main__":
    main()
