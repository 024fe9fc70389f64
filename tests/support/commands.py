"""The installed command, run as a user runs it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

BACKSCROLL = Path(sys.executable).with_name("backscroll")
WORDS = [
    "berth",
    "crane",
    "pilot",
    "tide",
    "quay",
    "ship",
    "crew",
    "port",
    "dock",
    "rope",
    "mast",
    "sail",
    "wind",
]


def run(*arguments: object, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; with `check` it has to succeed."""
    command = [str(BACKSCROLL), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)
    if check:
        assert done.returncode == 0, done.stderr
    return done


def records(lines: Iterable[str]) -> dict[str, Any]:
    """Summary records by id, without what may differ between runs."""
    found: dict[str, Any] = {}
    for line in lines:
        record = json.loads(line)
        del record["timings_ms"]
        assert found.setdefault(record["summary_id"], record) == record
    return found


def write_chat(path: Path, channels: Sequence[str], messages: int, *, seed: int = 7) -> None:
    """A chat of several channels with interleaved messages of about 25 tokens."""
    chance = random.Random(seed)
    with path.open("w") as file:
        for number in range(messages):
            message = {
                "channel": chance.choice(channels),
                "id": f"{seed}-{number}",
                "ts": f"2026-03-02T{9 + number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z",
                "author": chance.choice(["Ana", "Ben", "Cem"]),
                "text": " ".join(chance.choices(WORDS, k=25)) + ". Is it done again?",
            }
            file.write(json.dumps(message) + "\n")
