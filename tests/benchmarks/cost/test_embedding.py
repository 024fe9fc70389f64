from __future__ import annotations

import json
import shutil
from pathlib import Path

from click.testing import CliRunner

from backscroll.benchmarks.cost.embedding import read_texts
from backscroll.flows.cli.main import main


def test_onnx_is_measured_against_itself_over_the_windows_of_a_folder(tmp_path: Path, sample: Path) -> None:
    (tmp_path / "dialogues").mkdir()
    shutil.copy(sample, tmp_path / "dialogues")
    out = tmp_path / "found.json"
    arguments = [
        "bench",
        "embedding",
        str(tmp_path),
        "--backend",
        "onnx",
        "--windows",
        "1",
        "--json",
        str(out),
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "onnx float32" in result.output
    found = json.loads(out.read_bytes())
    ((turns, chunks),) = read_texts(tmp_path, 1)
    assert (found["windows"], found["turns"], found["chunks"]) == (1, len(turns), len(chunks))
    cost = found["ways"]["onnx float32"]
    assert (cost["speedup"], cost["cosine_min"], cost["difference_max"]) == (1.0, 1.0, 0.0)
    assert cost["turns_per_s"] > cost["chunks_per_s"] > 0
    assert cost["load_s"] > 0
    assert cost["memory_mb"] > 90, "the weights alone are that large"


def test_a_folder_without_dialogues_is_refused_with_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["bench", "embedding", str(tmp_path)])
    assert result.exit_code == 2
    assert result.output == f"Error: {tmp_path} has no dialogues/*.jsonl with a closed window\n"


def test_the_error_for_a_missing_model_names_it(tmp_path: Path, sample: Path) -> None:
    (tmp_path / "dialogues").mkdir()
    shutil.copy(sample, tmp_path / "dialogues")
    arguments = ["bench", "embedding", str(tmp_path), "--backend", "onnx", "--embedding-model", "./nowhere"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert result.output.startswith("Error: embedding model './nowhere' does not run on ONNX: it is neither")
