"""`backscroll bench throughput` runs the real flow, each way in a separate process."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from backscroll.benchmarks.cost.throughput import Figures, throughput_table, write_chat
from backscroll.flows.cli.main import main

SAMPLE = Path(__file__).resolve().parents[3] / "samples" / "harbor.jsonl"


def test_a_report_shows_messages_and_shares_of_work(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    asked = ["bench", "throughput", str(SAMPLE), "--messages", "120", "--channels", "2", "--processes", "1"]
    result = CliRunner().invoke(main, [*asked, "--way", "recent, no gaps", "--json", str(out)])
    assert result.exit_code == 0, result.output
    (run,) = json.loads(out.read_text())["runs"]
    assert (run["way"], run["messages"], run["processes"]) == ("recent, no gaps", 120, 1)
    assert run["windows"] >= 2
    assert run["messages_per_s"] > 0
    assert run["work_seconds"]["store"] > 0
    assert run["work_seconds"]["summary"] > 0
    assert run["embedding_seconds"] == 0


def test_the_chat_to_measure_with_has_the_texts_of_the_files_in_runs_of_a_channel(tmp_path: Path) -> None:
    out = tmp_path / "chat.jsonl"
    write_chat([SAMPLE], 120, 2, out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["channel"] for row in rows] == ["c0"] * 50 + ["c1"] * 50 + ["c0"] * 20
    assert len({row["id"] for row in rows}) == 120
    assert rows[0]["text"] == json.loads(SAMPLE.read_text().splitlines()[0])["text"]


def test_shares_are_of_the_worker_threads_time() -> None:
    figures = Figures(1000, 40, 1, 2.0, 4.0, {"record": 3.0, "store": 1.0}, 2.0)
    (cells,) = zip(*(column.cells for column in throughput_table([("a way", figures)]).columns), strict=True)
    assert cells == ("a way", "1", "500", "250", "50%", "75%", "25%")


def test_an_unknown_way_is_refused_in_one_line() -> None:
    result = CliRunner().invoke(main, ["bench", "throughput", str(SAMPLE), "--way", "fast"])
    assert result.exit_code == 2
    assert result.output.startswith("Error: --way 'fast' does not exist: use one of 'recent, no gaps', ")
    assert result.output.count("\n") == 1
