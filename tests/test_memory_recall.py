"""Memory recall, the paper's measure: does the memory hold the evidence of a gap?

The first tests run on the bundled sample; the others on the benchmark of the project's machines,
with its recorded gaps, and compare with the reference figures.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any, cast

import pytest

from backscroll.connectors.embedding.onnx import OnnxEmbedder
from backscroll.connectors.files.formats import read_file
from backscroll.connectors.files.recorded_gaps import RecordedDetector
from backscroll.operators.gaps.gap import Gap, GapDetector
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.memory.request import MemoryParameters, MemoryRequest
from backscroll.operators.messages import ChannelKey, Turn, parse_message
from backscroll.operators.stream.admission import Admission, AdmissionState
from backscroll.operators.stream.windows import Cutting, Window, WindowCutter
from support.memories import remembered


@dataclass(frozen=True)
class Recorded:
    """A channel cut into windows, and the histories that recorded it."""

    histories: Histories
    windows: tuple[Window, ...]

    def memory(self, window: Window, strategy: str, detector: GapDetector) -> set[str]:
        """The ids of the turns that a strategy remembers for a window."""
        request = MemoryRequest(
            turns=window.turns,
            gaps=detector.detect(window, max_gaps=8),
            history=self.histories[window.ref.key].as_of(window.ref.first_seq),
            parameters=MemoryParameters(self.histories.embedder),
        )
        memory = remembered(strategy, request)
        assert sum(entry.tokens for entry in memory) <= 1024
        return {entry.turn.id for entry in memory}


@cache
def record(path: Path) -> Recorded:
    histories = Histories(InMemoryStore(), embedder(), Chunker())
    turns, key = admitted(path, histories)
    cutting, windows = Cutting(WindowCutter(), key), list[Window]()
    for turn in turns:
        cutting, closed = cutting.push(turn, histories[key])
        for window in closed:
            histories.record(window)
        windows += closed
    still_open = cutting.provisional(histories[key])
    return Recorded(histories, (*windows, *([still_open] if still_open else [])))


def admitted(path: Path, histories: Histories) -> tuple[list[Turn], ChannelKey]:
    messages = [parse_message(received.value) for received in read_file(path)]  # type: ignore[arg-type]
    history = histories[messages[0].key]
    admission = Admission(AdmissionState.over(history))
    turns = [event for message in messages for event in admission.admit(message, history)]
    assert all(isinstance(turn, Turn) for turn in turns)
    return cast(list[Turn], turns), messages[0].key


@cache
def embedder() -> OnnxEmbedder:
    return OnnxEmbedder()


def rows(path: Path) -> Iterator[Mapping[str, Any]]:
    yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def resolved(evidence: Iterable[Iterable[str]], memory: set[str]) -> bool:
    """Whether one alternative is in memory as a whole."""
    return any(set(alternative) <= memory for alternative in evidence)


def benchmark(folder: Path, strategy: str) -> dict[str, float]:
    """Recall over all gaps and as the mean of near, mid and far ones."""
    detector = RecordedDetector.read(folder / "detected.jsonl")
    found: dict[str, list[bool]] = {"near": [], "mid": [], "far": []}
    for row in rows(folder / "gaps.jsonl"):
        channel = record(folder / "dialogues" / f"{row['dialogue']}.jsonl")
        window = channel.windows[row["window"]]
        assert [turn.id for turn in window.turns] == row["ids"]
        memory = channel.memory(window, strategy, detector) if row["gaps"] else set()
        for gap in row["gaps"]:
            distance = gap["distance_tokens"]
            place = "near" if distance <= 1024 else "mid" if distance <= 4096 else "far"
            found[place].append(resolved(gap["evidence"], memory))
    every = [hit for hits in found.values() for hit in hits]
    return {"all": mean(every), "macro": mean(mean(hits) for hits in found.values()), "gaps": len(every)}


@pytest.mark.parametrize(
    ("strategy", "reference"),
    [("recent", (0.54, 0.33)), ("hybrid", (0.51, 0.48)), ("remember", (0.70, 0.71))],
)
def test_memory_recall_is_that_of_the_reference(
    shared: Path, strategy: str, reference: tuple[float, float]
) -> None:
    measured = benchmark(shared / "bench" / "dev", strategy)
    print(f"\n{strategy}: all {measured['all']:.3f}, macro {measured['macro']:.3f}")
    assert measured["gaps"] == 107
    assert (measured["all"], measured["macro"]) == pytest.approx(reference, abs=0.03)


@dataclass(frozen=True)
class AnnotatedDetector:
    """The annotators' own gaps: what a perfect detector would find."""

    gaps: Mapping[str, Gap]
    name: str = "annotated"

    def detect(self, window: Window, *, max_gaps: int) -> tuple[Gap, ...]:
        found = (self.gaps[turn.id] for turn in window.turns if turn.id in self.gaps)
        return tuple(islice(found, max_gaps))


@pytest.mark.parametrize(("strategy", "expected"), [("recent", 0.18), ("hybrid", 0.30), ("remember", 0.43)])
def test_the_evidence_of_the_sample_is_far_away_and_retrieval_finds_more_of_it(
    sample: Path, strategy: str, expected: float
) -> None:
    annotated = {row["utterance"]: row for row in rows(sample.with_suffix(".gaps.jsonl"))}
    detector = AnnotatedDetector(
        {id_: Gap(id_, row["quote"], row["reason"], row["quote"]) for id_, row in annotated.items()}
    )
    channel, hits = record(sample), list[bool]()
    for window in channel.windows:
        memory = channel.memory(window, strategy, detector)
        hits += [
            resolved(annotated[turn.id]["evidence"], memory) for turn in window.turns if turn.id in annotated
        ]
    print(f"\n{strategy}: {mean(hits):.2f} of {len(hits)}")
    assert len(hits) == 60
    assert mean(hits) == pytest.approx(expected, abs=0.05)
