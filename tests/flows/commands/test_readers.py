"""Exports through the command: its report of what it left out."""

from __future__ import annotations

import json
import os
from pathlib import Path

from support.commands import run
from support.golden import GOLDEN, packed


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_report_says_what_was_skipped_and_what_was_damaged(tmp_path: Path) -> None:
    slack = packed(GOLDEN / "slack", tmp_path / "slack.zip")
    damaged = tmp_path / "export.jsonl"
    added = b'{"type": "post"\n{"type": "poll"}\n{"type": "pool"}\n'
    damaged.write_bytes((GOLDEN / "mattermost" / "export.jsonl").read_bytes() + added)
    letters_file = tmp_path / "letters"
    options = ("--store", tmp_path / "store", "--embedding-model", "none", "--dead-letters", letters_file)
    wide = {**os.environ, "COLUMNS": "200"}
    told = lines(run("ingest", slack, damaged, *options, env=wide).stderr)
    for line in (
        "21 turns admitted",
        "3 skipped: notices and reactions: joins, leaves, topics, pins, calls",
        "2 skipped: deleted messages",
        "2 skipped: edits and deletions of other messages",
        f"3 dead letters, see {letters_file}",
        "2 type … is unknown: expected a bulk export line, such as a post",
        "1 not JSON: unexpected end of data: line … column … (char …)",
    ):
        assert line in told, told
    letters = [json.loads(line) for line in letters_file.read_text().splitlines()]
    assert [letter["entry"] for letter in letters] == ["line 13", "line 14", "line 15"]


def test_a_missing_time_zone_is_one_line_and_a_setting_gives_it(tmp_path: Path) -> None:
    chat = GOLDEN / "whatsapp" / "es.txt"
    options = ("--store", tmp_path / "store", "--embedding-model", "none")
    refused = run("ingest", chat, *options, check=False)
    assert (refused.returncode, refused.stderr) == (
        2,
        f"Error: {chat}: its times have no time zone: set one, such as --tz Europe/Berlin\n",
    )
    assert "3 turns admitted" in lines(run("ingest", chat, *options, "--tz", "+01:00").stderr)
