from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from backscroll.benchmarks.data.benchmark import Benchmark, read_benchmark
from backscroll.benchmarks.data.gaps import BenchmarkError, read_gaps
from backscroll.benchmarks.data.prepend_history import behind
from backscroll.benchmarks.memory.detection import DetectionAgreement, DetectorOutput, agreement
from backscroll.benchmarks.memory.recall import BuiltMemory, Measured, build_memory
from backscroll.benchmarks.memory.report import memory_plot
from backscroll.flows.cli.main import main
from backscroll.operators.gaps.gap import Gap
from backscroll.operators.stream.windows import Window
from support.building import HashingEmbedder


class Asks:
    """Finds one gap: where the zeppelin lands."""

    name = "asks"

    def detect(self, window: Window, *, max_gaps: int) -> tuple[Gap, ...]:
        del max_gaps
        return (Gap(window.turns[0].id, "it lands", "", "zeppelin lands", ()),)


def built(benchmark: Benchmark, name: str, gaps: Sequence[Gap] = ()) -> BuiltMemory:
    """The memory of the only annotated window."""
    (row,) = benchmark.windows
    return asyncio.run(build_memory(benchmark, name, row, gaps, budget=1024))


def write_gaps(folder: Path, rows: list[dict]) -> Path:  # type: ignore[type-arg]
    (folder / "gaps.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_recall_counts_a_gap_if_one_alternative_is_complete(folder: Path) -> None:
    benchmark = read_benchmark(folder, HashingEmbedder())
    measured = {name: Measured() for name in ("ideal", "recent", "none")}
    for row in benchmark.windows:
        gaps = Asks().detect(benchmark.window(row), max_gaps=8)
        for name, results in measured.items():
            results.add(row, built(benchmark, name, gaps))
    ideal, recent, none = (results.to_json() for results in measured.values())
    assert (ideal["all"], ideal["near"], ideal["mid"], ideal["far"], ideal["macro"]) == (1, 1, 1, None, 1)
    assert (recent["all"], recent["near"], recent["mid"], recent["macro"]) == (0.3333, 1, 0, 0.5)
    assert (recent["referential"], recent["attribute"], recent["by_dialogue"]) == (1, 0, {"d": 0.3333})
    assert (none["all"], none["tokens_max"], none["gaps"]) == (0, 0, 3)
    assert 0 < recent["tokens_max"] <= 1024


def test_unjudged_gaps_are_left_out_of_the_recall(folder: Path) -> None:
    benchmark = read_benchmark(folder, None)
    (row,) = benchmark.windows
    memory = built(benchmark, "recent")  # holds the second gap's evidence alone
    results = Measured()
    results.add(row, memory, [True, True, None])
    figures = results.to_json()
    assert (figures["all"], figures["not_judged"], figures["gaps"]) == (1, 1, 3)
    assert (figures["judged_by"], figures["agreement"], figures["relational"]) == ("model", 0.5, None)


def test_a_window_that_differs_from_its_annotation_is_refused(folder: Path) -> None:
    write_gaps(folder, [{"dialogue": "d", "window": 0, "ids": ["m0", "m7"], "gaps": []}])
    with pytest.raises(BenchmarkError, match=r"window 0 of d has other messages than gaps\.jsonl says"):
        read_benchmark(folder, None)


def test_the_error_for_a_damaged_line_names_it(tmp_path: Path) -> None:
    (tmp_path / "gaps.jsonl").write_text('{"dialogue": "d"}\n')
    with pytest.raises(BenchmarkError, match=r"gaps\.jsonl:1: not a window with annotated gaps"):
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


def test_a_plot_has_recall_on_the_vertical_and_time_on_the_horizontal_axis() -> None:
    row = {"build_ms_p50": 1.0, "all": 0.5}
    svg = memory_plot({"a<b": row, "slow": {"build_ms_p50": 100.0, "all": 0.9}}, "title")
    assert "a&lt;b" in svg
    spots = [line.split('"')[1:4:2] for line in svg.splitlines() if line.startswith("<circle")]
    (fast_x, fast_y), (slow_x, slow_y) = ([float(part) for part in spot] for spot in spots)
    assert slow_x > fast_x
    assert slow_y < fast_y


def test_agreement_of_a_detector_compares_the_utterances_it_names(folder: Path) -> None:
    benchmark = read_benchmark(folder, None)
    (row,) = benchmark.windows
    found = DetectorOutput({row: tuple(Gap(utterance, "", "", "", ()) for utterance in "abbc")})
    assert agreement(found, {row: {"b", "d"}}) == DetectionAgreement(precision=0.3333, recall=0.5)
    assert agreement(found, {row: set()}) == DetectionAgreement(precision=0.0, recall=None)
    assert agreement(DetectorOutput({row: ()}), {row: {"b"}}) == DetectionAgreement(
        precision=None, recall=0.0
    )


def test_prepending_other_dialogues_keeps_the_windows_of_a_dialogue(folder: Path) -> None:
    benchmark, embedder = read_benchmark(folder, HashingEmbedder()), HashingEmbedder()
    sample = Path(__file__).resolve().parents[3] / "samples" / "harbor.jsonl"
    longer = behind(benchmark, [sample, sample], embedder)
    (row,) = benchmark.windows
    ours, theirs = benchmark.window(row), longer.window(row)
    assert [(turn.id, turn.text, turn.ts) for turn in theirs.turns] == [
        (turn.id, turn.text, turn.ts) for turn in ours.turns
    ]
    dialogue = longer.dialogues["d"]
    history = dialogue.histories[dialogue.key]
    added = history.recorded_until - len(dialogue.turns)
    assert added == 2 * len(sample.read_text(encoding="utf-8").splitlines())
    assert theirs.ref.first_seq == ours.ref.first_seq + added
    times = [turn.ts for turn in history.turns(0, history.recorded_until - 1)]
    assert times[added] - times[added - 1] >= timedelta(days=1)
    ideal = [built(one, "ideal").ids for one in (longer, benchmark)]
    assert ideal[0] == ideal[1]
    texts = [turn.rendered for turn in dialogue.windows[0].turns]
    past = history.as_of(history.recorded_until)
    kept = past.turn_vectors(range(added, added + len(texts)))
    np.testing.assert_allclose(kept, embedder.embed_passages(texts), atol=1e-3)
