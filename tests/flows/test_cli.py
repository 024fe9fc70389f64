from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "lancedb", "vllm", "sentence_transformers", "nltk", "pydantic", "bytewax", "rich")


@pytest.mark.parametrize("arguments", [[], ["replay"], ["ingest"]])
@pytest.mark.timing
def test_help_imports_nothing_heavy_and_answers_at_once(arguments: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "flows.cli", *arguments, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: ")
    imports = [line.split("|") for line in done.stderr.splitlines() if line.startswith("import time:")][1:]
    names = {name.strip().split(".")[0] for _, _, name in imports}
    assert names.isdisjoint(HEAVY)
    assert "operators.language_files" not in {name.strip() for _, _, name in imports}  # nor word lists
    assert sum(int(own.removeprefix("import time:")) for own, _, _ in imports) < 300_000  # microseconds


def test_the_help_shows_the_environment_variable_of_a_setting() -> None:
    command = [sys.executable, "-m", "flows.cli", "replay", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "BACKSCROLL_STRATEGY" in done.stdout
    assert "BACKSCROLL_STORE" in done.stdout
