from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from backscroll.benchmarks.data.benchmark import Benchmark, read_benchmark
from backscroll.benchmarks.data.dialogues import record_dialogue
from backscroll.benchmarks.memory.explained import Explained, explains, record_of
from backscroll.benchmarks.memory.recall import build_memory
from backscroll.flows.cli.main import main
from backscroll.operators.gaps.gap import Gap
from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.gaps.stage import Detection
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.summary.build_record import summary_record
from backscroll.operators.summary.evidence import Evidence, Resolution
from backscroll.operators.summary.record import Summary
from backscroll.operators.summary.stage import Written

EARLIER = (
    "Odette keeps the brass theodolite with velvet lining in locker nineteen near the greenhouse.",
    "Bram repaired the leaking gearbox of the blue tractor with copper gaskets from the Lisbon foundry.",
)
FILLER = "the meeting about schedules and budgets goes on and on while nobody minds " * 8
LATER = (
    "Is the brass theodolite with velvet lining still in locker nineteen near the greenhouse, Odette?",
    "Is the leaking gearbox of the blue tractor with copper gaskets from the Lisbon foundry repaired?",
    "Who brings lunch tomorrow?",
)
GAPS = (
    Gap("m12", "the brass theodolite", "", "brass theodolite locker", ("brass", "theodolite", "locker")),
    Gap("m13", "the gearbox", "", "gearbox tractor leaking", ("gearbox", "tractor", "leaking")),
    Gap("m14", "lunch", "", "lunch", ()),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two messages that later ones go back to, a window of filler, and three questions.

    The annotations say that the theodolite is explained by its own message, the gearbox by two
    messages together, and lunch by a message that nobody would find.
    """
    (tmp_path / "dialogues").mkdir()
    texts = [*EARLIER, *(f"{number} {FILLER}" for number in range(10)), *LATER]
    lines = [
        {"channel": "d", "id": f"m{n}", "ts": f"2026-01-01T00:{n:02}:00Z", "author": "Ana", "text": text}
        for n, text in enumerate(texts)
    ]
    (tmp_path / "dialogues" / "d.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (*_, last) = record_dialogue(tmp_path / "dialogues" / "d.jsonl", None).windows
    ids = [turn.id for turn in last.turns]
    assert ids[-3:] == ["m12", "m13", "m14"]
    gaps = [
        {"utterance": "m12", "evidence": [["m5"], ["m0"]]},
        {"utterance": "m13", "evidence": [["m0", "m1"]]},
        {"utterance": "m14", "evidence": [["m2"]]},
        {"utterance": ids[0], "evidence": [["m1"]]},
    ]
    shape = {"quote": "x", "type": "attribute", "distance_tokens": 2000}
    row = {"dialogue": "d", "window": last.ref.index, "ids": ids, "gaps": [{**gap, **shape} for gap in gaps]}
    (tmp_path / "gaps.jsonl").write_text(json.dumps(row))
    return tmp_path


def made(benchmark: Benchmark, gaps: tuple[Gap, ...]) -> Summary:
    """The record of the only annotated window, with the first two messages as the evidence of its gaps."""
    (row,) = benchmark.windows
    memory = [MemoryTurn(turn, None, turn.tokens) for turn in benchmark.dialogues["d"].turns[:2]]
    evidence = {at: (Evidence(entry, entry.text),) for at, entry in enumerate(memory[: len(gaps)])}
    return summary_record(
        benchmark.window(row),
        Detection(gaps, "by hand"),
        memory,
        Resolution(evidence, frozenset(range(len(gaps)))),
        Written("", "extractive", "by hand"),
        strategy="by hand",
        embedding="none",
        timings_ms={},
    )


def test_a_gap_is_explained_rightly_if_the_evidence_holds_all_of_one_alternative(folder: Path) -> None:
    benchmark = read_benchmark(folder, None)
    (row,) = benchmark.windows
    record = made(benchmark, GAPS)
    assert [(gap.utterance, gap.evidence) for gap in record.gaps] == [
        ("m12", ["m0"]),
        ("m13", ["m1"]),
        ("m14", []),
    ]
    # right; one message of two is wrong; listed without evidence; not listed
    assert [explains(record, gap) for gap in row.gaps] == [True, False, None, None]


def test_one_right_explanation_of_an_utterance_is_enough(folder: Path) -> None:
    benchmark = read_benchmark(folder, None)
    (row,) = benchmark.windows
    record = made(benchmark, GAPS[:2])
    record.gaps[1].evidence[:] = ["m0", "m1", "m2"]
    assert explains(record, row.gaps[1]) is True
    (first, _) = record.gaps
    record.gaps.insert(0, type(first)("m12", "x", "", "", [], ["m7"]))
    assert explains(record, row.gaps[0]) is True


def test_counts_and_shares_of_explained_gaps(folder: Path) -> None:
    benchmark = read_benchmark(folder, None)
    (row,) = benchmark.windows
    explained = Explained()
    explained.add(row, made(benchmark, GAPS))
    explained.add(row, made(benchmark, GAPS[:1]))
    assert explained.to_json() == {
        "gaps": 8,
        "right": 2,
        "wrong": 1,
        "shown": 3,
        "right_share": 0.25,
        "wrong_share": 0.125,
        "precision": 0.6667,
    }
    nothing = Explained()
    nothing.add(row, made(benchmark, ()))
    assert (nothing.to_json()["right_share"], nothing.to_json()["precision"]) == (0, None)
    assert Explained().to_json()["wrong_share"] is None


def test_the_command_reports_what_the_records_explain(folder: Path) -> None:
    out = folder / "out.json"
    arguments = ["bench", "memory", str(folder), "--detector", "rules", "--embedding-model", "none"]
    result = CliRunner().invoke(
        main, [*arguments, "--strategy", "ideal", "--strategy", "none", "--json", str(out)]
    )
    assert result.exit_code == 0, result.output
    strategies = json.loads(out.read_text())["strategies"]
    found = strategies["ideal"]["explained"]
    assert found["gaps"] == 4
    assert found["shown"] >= found["right"] + found["wrong"] > 0
    assert (strategies["none"]["explained"]["right"], strategies["none"]["explained"]["shown"]) == (0, 0)
    rows = [line.strip("│ ").split("│") for line in result.output.splitlines() if "│ ideal" in line]
    counts = [str(found[name]) for name in ("gaps", "right", "wrong", "shown")]
    shares = [f"{found[name]:.2f}" for name in ("right_share", "wrong_share", "precision")]
    assert [cell.strip() for cell in rows[1]] == ["ideal", *counts, *shares]


def test_a_record_explains_what_that_of_a_replay_does(tmp_path: Path) -> None:
    sample = Path(__file__).resolve().parents[3] / "samples" / "harbor.jsonl"
    (tmp_path / "dialogues").mkdir()
    (tmp_path / "dialogues" / "harbor.jsonl").write_bytes(sample.read_bytes())
    windows = record_dialogue(sample, None).windows
    rows = [
        {"dialogue": "harbor", "window": index, "ids": [turn.id for turn in window.turns], "gaps": []}
        for index, window in enumerate(windows)
    ]
    (tmp_path / "gaps.jsonl").write_text("\n".join(map(json.dumps, rows)))
    replayed = tmp_path / "replayed.jsonl"
    arguments = ["replay", str(sample), "--embedding-model", "none", "--out", str(replayed)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    expected = [Summary.from_json(line) for line in replayed.read_bytes().splitlines()]

    async def make() -> list[Summary]:
        benchmark, records = read_benchmark(tmp_path, None), []
        for row in benchmark.windows:
            gaps = RulesDetector().detect(benchmark.window(row))
            memory = await build_memory(benchmark, "backscroll", row, gaps, budget=1024)
            records.append(await record_of(benchmark, "backscroll", row, gaps, memory))
        return records

    records = asyncio.run(make())
    assert any(gap.evidence for record in records for gap in record.gaps)
    assert [(record.gaps, record.summary) for record in records] == [
        (record.gaps, record.summary) for record in expected
    ]
