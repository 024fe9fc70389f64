"""Benchmarks with a language model: a real server that answers according to the schema, or a cassette.
The server has no model behind it, so these tests say nothing about quality."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from backscroll.benchmarks.data.benchmark import read_benchmark
from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.benchmarks.summaries.quality import quality
from backscroll.benchmarks.summaries.records import match_records
from backscroll.flows.cli.main import main
from backscroll.operators.summary.record import Summary
from support.chat_server import ChatServer

TURIN = "The zeppelin lands in Turin."


def bench(command: str, *arguments: object) -> Result:
    return CliRunner().invoke(main, ["bench", command, *map(str, arguments)])


def properties(request: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = request["response_format"]["json_schema"]["schema"]["properties"]
    return found


def part(request: dict[str, Any], name: str) -> str:
    """The text between the fence lines of a part."""
    user = str(request["messages"][1]["content"])
    fence = user[:16]
    return user.partition(f"{fence} {name} begins\n")[2].partition(f"\n{fence} {name} ends")[0]


def judges_memory(request: dict[str, Any]) -> dict[str, Any]:
    """A memory that mentions Turin contains whatever Turin resolves."""
    cases = part(request, "gaps").split("\n[")  # further lines of a case are indented
    held = "Turin" in part(request, "memory")
    verdicts = {}
    for id_, case in zip(properties(request), cases, strict=True):
        contained = held and "Turin" in case
        verdicts[id_] = {"needed": "", "found": "x" * contained, "missing": "", "contained": contained}
    return verdicts


@pytest.fixture
def judge(server: ChatServer) -> ChatServer:
    """A server that writes summaries with the word Turin, and looks for it in memories."""
    server.answers |= {
        "segment_summary": {"summary": TURIN},
        "running_summary": {"summary": f"Still: {TURIN}"},
        "memory_recall": judges_memory,
    }
    return server


def figures(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


PLAIN = ("--embedding-model", "none", "--detector", "rules")


def test_model_written_memories_are_judged_by_a_model(judge: ChatServer, folder: Path) -> None:
    out = folder / "out.json"
    strategies = ("--strategy", "incremental", "--strategy", "hierarchical", "--strategy", "recent")
    result = bench("memory", folder, *PLAIN, *strategies, "--llm", judge.url, "--json", out)
    assert result.exit_code == 0, result.output
    found = figures(out)
    for name in ("incremental", "hierarchical"):
        row = found["strategies"][name]
        # The shortest evidence of the first gap is the turn about Turin, that of the others is not.
        assert (row["attribute"], row["referential"], row["relational"], row["all"]) == (1, 0, 0, 0.3333)
        assert (row["judged_by"], row["not_judged"], row["incomplete"]) == ("model", 0, 0)
        assert 0 < row["tokens_max"] <= 1024
    recent = found["strategies"]["recent"]
    assert (recent["all"], recent["judged_by"], recent["agreement"]) == (0.3333, "ids", None)
    # Three windows precede it: a first summary and two updates; one segment. Then two judgements.
    stages = [request["response_format"]["json_schema"]["name"] for request in judge.requests]
    assert sorted(stages) == ["memory_recall"] * 2 + ["running_summary"] * 2 + ["segment_summary"] * 2
    assert found["judge"] == {
        "model": "tiny",
        "questions": 2,
        "prompt_tokens": 200,
        "completion_tokens": 20,
        "failures": {},
    }


def test_a_judge_can_be_compared_with_judging_by_ids(judge: ChatServer, folder: Path) -> None:
    out = folder / "out.json"
    options = ("--strategy", "recent", "--strategy", "full", "--judge", "--judge-llm", judge.url)
    result = bench("memory", folder, *PLAIN, *options, "--json", out)
    assert result.exit_code == 0, result.output
    rows = figures(out)["strategies"]
    # Recent holds the second gap's evidence, where the judge sees no Turin. Full holds that of all three;
    # of those the judge sees Turin in two, as the evidence shown is what the memory holds.
    assert (rows["recent"]["all"], rows["recent"]["agreement"]) == (0, 0.6667)
    assert (rows["full"]["all"], rows["full"]["agreement"]) == (0.6667, 0.6667)


def test_an_invalid_answer_of_the_judge_is_retried_and_then_counts_as_no_verdict(
    judge: ChatServer, folder: Path
) -> None:
    judge.answers["memory_recall"] = {"G0": {"needed": "", "found": "", "missing": "", "contained": False}}
    out = folder / "out.json"
    result = bench("memory", folder, *PLAIN, "--strategy", "hierarchical", "--llm", judge.url, "--json", out)
    assert result.exit_code == 0, result.output
    found = figures(out)
    row = found["strategies"]["hierarchical"]
    assert (row["all"], row["not_judged"], row["gaps"]) == (None, 3, 3)
    assert found["judge"]["failures"] == {"memory_recall: schema": 1}
    assert sum(r["response_format"]["json_schema"]["name"] == "memory_recall" for r in judge.requests) == 2
    assert "no answer: 1 memory_recall: schema" in result.output


def test_an_interrupted_measurement_resumes_from_its_cassette(judge: ChatServer, folder: Path) -> None:
    out, tape = folder / "out.json", folder / "tape.jsonl"
    arguments = ("memory", folder, *PLAIN, "--strategy", "incremental", "--json", out, "--record", tape)
    assert bench(*arguments, "--llm", judge.url).exit_code == 0
    first = figures(out)
    lines = tape.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    tape.write_bytes(lines[0] + lines[1][:40])  # a crash tore the second answer
    judge.requests.clear()
    assert bench(*arguments, "--llm", judge.url).exit_code == 0
    assert len(judge.requests) == 3
    assert sorted(tape.read_bytes().splitlines(keepends=True)) == sorted(lines)
    judge.requests.clear()
    assert bench(*arguments[:-2], "--llm", f"cassette:{tape}").exit_code == 0
    assert judge.requests == []
    for found in (first, again := figures(out)):
        for name in ("build_ms_p50", "build_ms_p95"):
            del found["strategies"]["incremental"][name]
    assert again == first


def test_the_run_ends_with_one_line_if_the_server_stops_answering(
    judge: ChatServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSCROLL_LLM_RETRIES", "0")
    monkeypatch.setenv("BACKSCROLL_BREAKER_FAILURES", "1")
    judge.behaviours = ["503"] * 100
    tape = folder / "tape.jsonl"
    result = bench(
        "memory", folder, *PLAIN, "--strategy", "incremental", "--llm", judge.url, "--record", tape
    )
    assert result.exit_code == 2
    assert "the language model has stopped answering" in result.output
    assert "run the command again to continue" in result.output


def test_the_error_for_a_missing_model_says_what_needs_it(folder: Path) -> None:
    for needs in (("--strategy", "incremental"), ("--judge",), ("--detector", "llm")):
        result = bench("memory", folder, "--embedding-model", "none", *needs)
        assert result.exit_code == 2
        assert f"{' '.join(needs)} needs a language model: set --llm" in result.output


def test_the_judge_must_be_named_if_the_server_has_several_models(judge: ChatServer, folder: Path) -> None:
    judge.models = ["big", "small"]
    result = bench("memory", folder, *PLAIN, "--strategy", "recent", "--judge", "--llm", judge.url)
    assert result.exit_code == 2
    assert "set --judge-model: the server offers big, small" in result.output
    out = folder / "out.json"
    options = ("--judge", "--llm", judge.url, "--judge-model", "big", "--json", out)
    assert bench("memory", folder, *PLAIN, "--strategy", "recent", *options).exit_code == 0
    assert figures(out)["judge"]["model"] == "big"


def test_an_output_that_cannot_be_written_is_reported_before_the_model_is_asked(
    judge: ChatServer, folder: Path
) -> None:
    result = bench("memory", folder, *PLAIN, "--llm", judge.url, "--json", folder / "nowhere" / "out.json")
    assert result.exit_code == 2
    assert "cannot be written: its directory does not exist" in result.output
    assert judge.requests == []


def test_gaps_of_a_model_are_checked_and_missing_answers_are_counted(
    server: ChatServer, folder: Path
) -> None:
    gap = {"gap_reason": "", "evidence_need_query": "where it lands", "keywords": []}
    server.answers["gaps"] = {
        "gaps": [
            {**gap, "utterance_index": 0, "quote": "nobody minds the meeting"},
            {**gap, "utterance_index": 0, "quote": "not in the window"},
        ]
    }
    out = folder / "out.json"
    arguments = (
        "memory",
        folder,
        "--embedding-model",
        "none",
        "--strategy",
        "backscroll",
        "--detector",
        "llm",
    )
    assert bench(*arguments, "--llm", server.url, "--json", out).exit_code == 0
    detector = figures(out)["detector"]
    assert (detector["name"], detector["gaps"], detector["dropped"]["unknown_quote"]) == ("llm", 1, 1)
    assert (detector["prompt_tokens"], detector["failures"]) == (100, {})
    server.behaviours = ["truncated"] * 2
    result = bench(*arguments, "--llm", server.url, "--json", out)
    assert result.exit_code == 0
    assert figures(out)["detector"]["failures"] == {"truncated": 1}
    assert "no answer: 1 truncated" in result.output


# Summaries


def cites(first: str, last: str) -> Any:
    """Verdicts that are positive, citing sentence 0, if the item mentions Turin or is the first."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        verdicts = {}
        for place, id_ in enumerate(properties(request)):
            grounds = {"claim": ""} if first == "claim" else {"question": "", "fact": ""}
            verdicts[id_] = {**grounds, "sentences": [0], last: place == 0}
        return verdicts

    return answer


def checks(request: dict[str, Any]) -> dict[str, Any]:
    """Facts with a question mark are linking errors."""
    lines = part(request, "facts").split("\n")
    kinds = ["linking error" if "?" in line else "no error" for line in lines]
    return {
        id_: {"reason": "", "category": kind} for id_, kind in zip(properties(request), kinds, strict=True)
    }


@pytest.fixture
def summary_judge(server: ChatServer) -> ChatServer:
    server.answers |= {
        "window_completeness": cites("claim", "covered"),
        "gap_resolution": cites("question", "expressed"),
        "atomic_facts": lambda request: {id_: ["true", "false?"] for id_ in properties(request)},
        "faithfulness": checks,
    }
    return server


@pytest.fixture
def summaries(folder: Path) -> Path:
    """The extractive summaries of a replay, with the third window's rewritten as two sentences."""
    out = folder / "mine.jsonl"
    options = ("--strategy", "recent", "--embedding-model", "none", "--out", out)
    done = CliRunner().invoke(main, ["replay", str(folder / "dialogues" / "d.jsonl"), *map(str, options)])
    assert done.exit_code == 0, done.output
    records = [json.loads(line) for line in out.read_text().splitlines()]
    for record in records:
        record["summary"] = "It landed. Nobody minded."
    out.write_text("\n".join(map(json.dumps, records)))
    return out


def test_summaries_are_measured_with_the_papers_metrics(
    summary_judge: ChatServer, folder: Path, summaries: Path
) -> None:
    out = folder / "out.json"
    result = bench("summaries", folder, summaries, "--llm", summary_judge.url, "--json", out)
    assert result.exit_code == 0, result.output
    row = figures(out)["summaries"]["mine"]
    # One of two salient utterances, the one gap in memory, sentence 0 of two, two of four facts.
    metrics = [
        row[name] for name in ("window_completeness", "gap_completeness", "conciseness", "faithfulness")
    ]
    assert metrics == [0.5, 1, 0.5, 0.5]
    assert row["composite"] == 0.625
    assert (row["memory_recall"], row["windows"], row["missing"]) == (0.3333, 1, 0)
    assert row["gaps"]["referential"] == {"annotated": 1, "in_memory": 1, "in_summary": 1}
    assert row["gaps"]["attribute"] == {"annotated": 1, "in_memory": 0, "in_summary": 0}
    assert row["errors"] == {"linking error": 2}
    assert set(row["not_judged"].values()) == {0}
    (asked,) = [r for r in summary_judge.requests if "cases" in r["messages"][1]["content"].split("\n")[-1]]
    assert list(properties(asked)) == ["G0"]  # gaps that the memory does not resolve are not asked about


def test_an_unjudged_metric_is_unknown_rather_than_zero(
    summary_judge: ChatServer, folder: Path, summaries: Path
) -> None:
    summary_judge.answers["gap_resolution"] = {"G0": {"expressed": True}}
    out = folder / "out.json"
    result = bench("summaries", folder, summaries, "--llm", summary_judge.url, "--json", out)
    assert result.exit_code == 0, result.output
    row = figures(out)["summaries"]["mine"]
    assert (row["gap_completeness"], row["conciseness"], row["composite"]) == (None, None, None)
    assert (row["window_completeness"], row["faithfulness"]) == (0.5, 0.5)
    assert row["not_judged"] == {
        "window_completeness": 0,
        "gap_completeness": 1,
        "conciseness": 1,
        "faithfulness": 0,
    }


def test_gap_completeness_without_memory_is_unknown_and_zero_in_the_composite(
    summary_judge: ChatServer, folder: Path, summaries: Path
) -> None:
    records = [json.loads(line) for line in summaries.read_text().splitlines()]
    summaries.write_text("\n".join(json.dumps({**record, "memory": []}) for record in records))
    out = folder / "out.json"
    assert bench("summaries", folder, summaries, "--llm", summary_judge.url, "--json", out).exit_code == 0
    row = figures(out)["summaries"]["mine"]
    assert (row["gap_completeness"], row["memory_recall"]) == (None, 0)
    assert row["composite"] == (0.5 + 0 + 0.5 + 0.5) / 4


def test_a_judge_can_decide_what_the_memory_contains(
    summary_judge: ChatServer, folder: Path, summaries: Path
) -> None:
    summary_judge.answers["memory_recall"] = lambda request: {
        id_: {"needed": "", "found": "x", "missing": "", "contained": True} for id_ in properties(request)
    }
    out = folder / "out.json"
    options = ("--llm", summary_judge.url, "--judge-memory", "--json", out)
    assert bench("summaries", folder, summaries, *options).exit_code == 0
    row = figures(out)["summaries"]["mine"]
    assert row["memory_recall"] == 1
    assert row["gap_completeness"] == pytest.approx(1 / 3, abs=1e-4)  # the first of three is expressed


def test_records_from_another_benchmark_are_refused(
    summary_judge: ChatServer, folder: Path, summaries: Path
) -> None:
    record = Summary.from_json(summaries.read_bytes().splitlines()[0])
    other = folder / "other.jsonl"
    other.write_bytes(record.to_json().replace(b'"channel":"d"', b'"channel":"e"'))
    result = bench("summaries", folder, other, "--llm", summary_judge.url)
    assert result.exit_code == 2
    assert "no summary of an annotated window" in result.output
    other.write_text('{"version": 1, "summary": "A secret."}\n')
    result = bench("summaries", folder, other, "--llm", summary_judge.url)
    assert result.exit_code == 2
    assert "other.jsonl:1: not a summary record" in result.output
    assert "secret" not in result.output


def test_a_file_with_several_strategies_gets_a_row_for_each_and_missing_windows_are_reported(
    folder: Path, summaries: Path
) -> None:
    benchmark = read_benchmark(folder, None)
    (row,) = benchmark.windows
    lines = summaries.read_text()
    summaries.write_text(lines + "\n" + lines.replace('"recent"', '"none"'))
    named = match_records(benchmark, [summaries])
    assert {name: list(records) for name, records in named.items()} == {
        "mine/recent": [row],
        "mine/none": [row],
    }
    assert (quality([], 1)["missing"], quality([], 1)["composite"]) == (1, None)
    with pytest.raises(BenchmarkError, match="a second file called 'mine/none'"):
        match_records(benchmark, [summaries, summaries])


def test_the_higher_revision_of_two_records_of_a_window_counts(folder: Path, summaries: Path) -> None:
    benchmark = read_benchmark(folder, None)
    last = json.loads(summaries.read_text().splitlines()[-1])
    newer = {**last, "revision": 2, "summary": "Newer."}
    summaries.write_text("\n".join(map(json.dumps, [newer, last])))
    (records,) = match_records(benchmark, [summaries]).values()
    assert [record.summary for record in records.values()] == ["Newer."]
