"""Small dialogues and their annotated absences in files, to train the models of acts on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PEOPLE = ("Ana", "Ben", "Cem")
THINGS = ("ferry", "crane", "lantern", "buoy", "anchor", "rope")


def talk(number: int) -> list[tuple[str, str]]:
    """Who says what in a dialogue: the same acts about different things."""
    thing = THINGS[number % len(THINGS)]
    ana, ben, cem = (PEOPLE[(number + shift) % 3] for shift in range(3))
    return [
        (ana, "Good morning!"),
        (ben, "hi"),
        (ana, f"Where did we leave the {thing}?"),
        (ben, f"The {thing} is in the shed by the pier."),
        (ana, "Thanks!"),
        (cem, f"We decided to sell the {thing} in spring."),
        (ben, "haha, fine."),
        (cem, f"I'll paint the {thing} tomorrow."),
        (ana, "Lunch was good."),
        (ben, f"Does anyone know who bought the old {thing}?"),
    ]


ABSENCE: Mapping[str, Any] = {
    "first_id": "m1",
    "last_id": "m9",
    "reader": "Dora",
    "points": [{"ids": ["m5"], "weight": 3}, {"ids": ["m3"], "weight": 1}],
    "decisions": [{"ids": ["m5"]}],
    "actions": [
        {"ids": ["m7"], "owner": "Cem", "due": "tomorrow", "state": "open"},
        {"ids": ["m3"], "owner": "Ben", "due": None, "state": "done"},
    ],
    "questions": [
        {"id": "m2", "answers": ["m3"], "state": "answered"},
        {"id": "m9", "answers": [], "state": "open"},
    ],
    "for_reader": [],
}


def write_dialogue(folder: Path, name: str, said: Sequence[tuple[str, str]]) -> None:
    """`NAME.jsonl` with a message a minute."""
    folder.mkdir(exist_ok=True)
    rows = [
        {"channel": name, "id": f"m{n}", "ts": f"2026-03-02T09:{n:02}:00Z", "author": author, "text": text}
        for n, (author, text) in enumerate(said)
    ]
    (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def write_annotated(folder: Path, dialogues: int = 6) -> tuple[Path, Path]:
    """A file with an absence in each of some dialogues, and the folder of those."""
    rows = []
    for number in range(dialogues):
        write_dialogue(folder / "dialogues", f"dialogue-{number}", talk(number))
        rows.append({**ABSENCE, "absence": f"away-{number}", "dialogue": f"dialogue-{number}"})
    file = folder / "away.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return file, folder / "dialogues"
