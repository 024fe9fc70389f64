from __future__ import annotations

from pathlib import Path

import click
import pytest

from backscroll.flows.terminal.results import FileResults

LETTER = b'{"line": 3, "reason": "channel is missing", "raw": ""}'


def test_appending_keeps_earlier_dead_letters(tmp_path: Path) -> None:
    letters = tmp_path / "dead-letters.jsonl"
    for _ in range(2):
        with FileResults(tmp_path / "out.jsonl", letters, "jsonl", append=True) as results:
            results.dead_letters([LETTER])
    assert letters.read_bytes() == 2 * (LETTER + b"\n")


def test_the_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError) as refused:
        FileResults(tmp_path / "none" / "out.jsonl", tmp_path / "none" / "dead-letters.jsonl", "jsonl")
    assert refused.value.message.startswith(f"{tmp_path / 'none' / 'out.jsonl'}: cannot be written")
