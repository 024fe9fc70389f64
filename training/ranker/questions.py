"""Questions about a dialogue with the turns that answer them, from LoCoMo and REALTALK."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["LOCOMO", "REALTALK", "Question", "read_questions"]

LOCOMO = ("26", "30")
"""Conversations whose questions are used for training; 41 is for validation, the others are held out."""
REALTALK = ("1", "3", "4", "5", "6", "7", "8", "10")
"""Chats whose questions are used for training; 2 and 9 are held out."""
_MOST_EVIDENCE = 4  # a question about more turns asks for a list


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the ids of the turns that answer it together."""

    dialogue: str
    text: str
    evidence: frozenset[str]


def read_questions(data: Path) -> Iterator[Question]:
    """The questions for training, from the files under `data`."""
    conversations = json.loads((data / "locomo" / "locomo10.json").read_text(encoding="utf-8"))
    for conversation in conversations:
        if (name := conversation["sample_id"]).removeprefix("conv-") in LOCOMO:
            yield from _questions(f"locomo-{name}", conversation["qa"])
    for number in REALTALK:
        (path,) = (data / "realtalk").glob(f"Chat_{number}_*.json")
        yield from _questions(f"realtalk-{number}", json.loads(path.read_text(encoding="utf-8"))["qa"])


def _questions(dialogue: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[Question]:
    for row in rows:
        evidence = frozenset(
            id_ for text in row.get("evidence") or () for id_ in re.split(r"[;\s]+", text) if id_
        )
        if 0 < len(evidence) <= _MOST_EVIDENCE:
            yield Question(dialogue, row["question"], evidence)
