from __future__ import annotations

import json
from pathlib import Path

import pytest
from building import HashingEmbedder
from click.testing import CliRunner

from benchmarks.dialogues import record_dialogue
from benchmarks.gaps import BenchmarkError, read_gaps
from benchmarks.memory import MemoryBenchmark, measure_memory
from benchmarks.report import memory_plot
from flows.cli import main
from operators.gaps import Gap
from operators.windows import Window

WORDS = "the meeting about schedules and budgets goes on and on while nobody minds "


class Asks:
    """Finds one gap: where the zeppelin lands."""

    name = "asks"

    def detect(self, window: Window, *, max_gaps: int) -> tuple[Gap, ...]:
        del max_gaps
        return (Gap(window.turns[0].id, "it lands", "", "zeppelin lands", ()),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three windows of ten turns; the third asks what the first turn says."""
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
    row = {"dialogue": "d", "window": len(windows) - 1, "ids": ids}
    return write_gaps(
        tmp_path, [{**row, "gaps": [{"utterance": ids[0], "quote": "x", **gap} for gap in gaps]}]
    )


def write_gaps(folder: Path, rows: list[dict]) -> Path:  # type: ignore[type-arg]
    (folder / "gaps.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_recall_counts_a_gap_when_one_alternative_is_there_as_a_whole(folder: Path) -> None:
    benchmark = MemoryBenchmark.read(folder, HashingEmbedder())
    measured = measure_memory(benchmark, ["ideal", "recent", "none"], Asks(), budget=1024)
    ideal, recent, none = (measured[name].to_json() for name in ("ideal", "recent", "none"))
    assert (ideal["all"], ideal["near"], ideal["mid"], ideal["far"], ideal["macro"]) == (1, 1, 1, None, 1)
    assert (recent["all"], recent["near"], recent["mid"], recent["macro"]) == (0.3333, 1, 0, 0.5)
    assert (recent["referential"], recent["attribute"], recent["by_dialogue"]) == (1, 0, {"d": 0.3333})
    assert (none["all"], none["tokens_max"], none["gaps"]) == (0, 0, 3)
    assert 0 < recent["tokens_max"] <= 1024


def test_a_window_that_is_cut_otherwise_than_annotated_is_refused(folder: Path) -> None:
    write_gaps(folder, [{"dialogue": "d", "window": 0, "ids": ["m0", "m7"], "gaps": []}])
    with pytest.raises(BenchmarkError, match="window 0 of d is not cut as annotated"):
        MemoryBenchmark.read(folder, None)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "gaps.jsonl").write_text('{"dialogue": "d"}\n')
    with pytest.raises(BenchmarkError, match=r"gaps\.jsonl:1: not a window of annotated gaps"):
        read_gaps(tmp_path / "gaps.jsonl")


def test_the_command_writes_figures_and_a_plot(folder: Path) -> None:
    out, plot = folder / "out.json", folder / "out.svg"
    arguments = ["bench", "memory", str(folder), "--detector", "rules", "--embedding-model", "none"]
    files = ["--strategy", "recent", "--strategy", "backscroll", "--json", str(out), "--plot", str(plot)]
    result = CliRunner().invoke(main, [*arguments, *files])
    assert result.exit_code == 0, result.output
    strategies = json.loads(out.read_text())["strategies"]
    assert set(strategies) == {"recent", "backscroll"}
    assert strategies["recent"]["gaps"] == 3
    assert ">backscroll</text>" in plot.read_text()


def test_recorded_gaps_need_their_file(folder: Path) -> None:
    result = CliRunner().invoke(main, ["bench", "memory", str(folder), "--embedding-model", "none"])
    assert result.exit_code == 2
    assert "has no detected.jsonl: use --detector rules" in result.output


def test_a_plot_places_recall_upward_and_time_to_the_right() -> None:
    row = {"build_ms_p50": 1.0, "all": 0.5}
    svg = memory_plot({"a<b": row, "slow": {"build_ms_p50": 100.0, "all": 0.9}}, "title")
    assert "a&lt;b" in svg
    spots = [line.split('"')[1:4:2] for line in svg.splitlines() if line.startswith("<circle")]
    (fast_x, fast_y), (slow_x, slow_y) = ([float(part) for part in spot] for spot in spots)
    assert slow_x > fast_x
    assert slow_y < fast_y
