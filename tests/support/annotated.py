"""The annotated windows of the gap benchmark on the project's machines (`shared/bench`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.messages import ChannelKey, Turn, parse_message
from backscroll.operators.stream.windows import Window, WindowRef

PARTS = ("dev", "train")


@dataclass(frozen=True)
class AnnotatedGap:
    """A gap as people wrote it down: its quote, what resolves it, and the turns that say so."""

    quote: str
    resolution: str
    evidence: tuple[MemoryTurn, ...]


@dataclass(frozen=True)
class AnnotatedWindow:
    """A window, its annotated gaps, and the gaps a strong language model detected in it."""

    window: Window
    gaps: tuple[AnnotatedGap, ...]
    detected: tuple[Mapping[str, Any], ...]


def annotated_windows(shared: Path, part: str) -> Iterator[AnnotatedWindow]:
    """Every annotated window of `dev` or `train`, in the order of the file."""
    folder = shared / "bench" / part
    dialogues = {path.stem: _turns(path) for path in (folder / "dialogues").glob("*.jsonl")}
    detected = {(row["dialogue"], row["window"]): row["gaps"] for row in _rows(folder / "detected.jsonl")}
    for row in _rows(folder / "gaps.jsonl"):
        by_id = dialogues[row["dialogue"]]
        turns = tuple(by_id[id_] for id_ in row["ids"])
        key = ChannelKey("default", row["dialogue"])
        window = Window(WindowRef(key, row["window"], turns[0].seq, turns[-1].seq), turns)
        gaps = tuple(
            AnnotatedGap(
                gap["quote"],
                gap["resolution"],
                tuple(MemoryTurn(by_id[id_], None, 0, 0, 1, 0.0) for ids in gap["evidence"] for id_ in ids),
            )
            for gap in row["gaps"]
            if gap.get("resolution")
        )
        yield AnnotatedWindow(window, gaps, tuple(detected.get((row["dialogue"], row["window"]), ())))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def _turns(path: Path) -> dict[str, Turn]:
    messages = [parse_message(row) for row in _rows(path)]
    return {
        said.id: Turn(seq, said.id, said.ts, said.author, said.text, 0, said.digest)
        for seq, said in enumerate(messages)
    }
