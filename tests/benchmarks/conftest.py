from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from backscroll.benchmarks.data.dialogues import record_dialogue
from support.chat_server import ChatServer, chat_server

WORDS = "the meeting about schedules and budgets goes on and on while nobody minds "


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three windows of ten turns; the third asks what the first turn says, and two things more."""
    (tmp_path / "dialogues").mkdir()
    texts = ["The zeppelin lands in Turin.", *(f"{number} {WORDS * 8}" for number in range(29))]
    lines = [
        {"channel": "d", "id": f"m{n}", "ts": f"2026-01-01T00:{n:02}:00Z", "author": "Ana", "text": text}
        for n, text in enumerate(texts)
    ]
    (tmp_path / "dialogues" / "d.jsonl").write_text("\n".join(map(json.dumps, lines)))
    windows = record_dialogue(tmp_path / "dialogues" / "d.jsonl", None).windows
    gaps = [
        {"type": "attribute", "evidence": [["m0"]], "distance_tokens": 2000},
        {"type": "referential", "evidence": [["m0", "m9"], [windows[-2].turns[-1].id]], "distance_tokens": 9},
        {"type": "relational", "evidence": [["m1", "m2"]], "distance_tokens": 2000},
    ]
    ids = [turn.id for turn in windows[-1].turns]
    row = {"dialogue": "d", "window": len(windows) - 1, "ids": ids, "salient": ids[:2]}
    return write_gaps(
        tmp_path, [{**row, "gaps": [{"utterance": ids[0], "quote": "x", **gap} for gap in gaps]}]
    )


def write_gaps(folder: Path, rows: list[dict]) -> Path:  # type: ignore[type-arg]
    (folder / "gaps.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder
