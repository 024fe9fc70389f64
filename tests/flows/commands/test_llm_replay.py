"""Replays with a language model: a real server that is good, bad, gone, or recorded."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.chat_server import ChatServer, chat_server
from support.commands import BACKSCROLL, records, run, write_chat
from support.llama import llama_server

PLAIN = ("--strategy", "recent", "--embedding-model", "none")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as running:
        yield running


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chat") / "chat.jsonl"
    write_chat(path, ["a", "b"], 240)
    return path


@pytest.fixture(scope="module")
def plain(chat: Path) -> dict[str, Any]:
    """The records of a run without a model: nine windows."""
    found, _ = replay(chat)
    assert len(found) == 9
    return found


def replay(chat: Path, *options: object, **more: Any) -> tuple[dict[str, Any], str]:
    done = run("replay", chat, *PLAIN, *options, cwd=chat.parent, **more)
    return records(done.stdout.splitlines()), done.stderr


def windows(found: dict[str, Any]) -> list[tuple[str, int, int]]:
    return sorted((r["channel"], r["window"]["first_seq"], r["window"]["last_seq"]) for r in found.values())


def test_a_models_summaries_are_abstractive_and_count_its_tokens(
    server: ChatServer, chat: Path, plain: dict[str, Any]
) -> None:
    found, report = replay(chat, "--llm", server.url)
    assert windows(found) == windows(plain)
    for record in found.values():
        assert (record["kind"], record["summary"]) == ("abstractive", "they talked about the ship.")
        assert record["models"] == {"gaps": "tiny", "summary": "tiny", "embedding": "none"}
        assert (record["tokens"]["prompt"], record["tokens"]["completion"]) == (200, 20)
        assert (record["degraded"], record["unsupported"]) == (None, [])
    assert len(server.requests) == 2 * len(found)
    assert f"{220 * len(found):,}  language model tokens: " in report


def test_calls_run_concurrently_up_to_the_limit(server: ChatServer, chat: Path) -> None:
    server.delay = 0.2
    replay(chat, "--llm", server.url, env=environment(BACKSCROLL_LLM_CONCURRENCY="5"))
    assert server.most_running == 5


def test_no_window_is_lost_if_the_server_goes_away(
    server: ChatServer, chat: Path, plain: dict[str, Any], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    server.behaviours = ["answer"] * 13 + ["503"] * 2000  # all gaps, some summaries
    quick = environment(
        BACKSCROLL_LLM_RETRIES="0", BACKSCROLL_BREAKER_SECONDS="600", BACKSCROLL_LLM_CONCURRENCY="2"
    )
    found, report = replay(chat, "--llm", server.url, "--store", store, env=quick)
    assert windows(found) == windows(plain)
    degraded = {id_: record for id_, record in found.items() if record["degraded"]}
    assert 0 < len(degraded) < len(found)
    for record in degraded.values():
        assert set(record["degraded"].split("; ")) <= {
            f"{stage}: {kind}" for stage in ("gaps", "summary") for kind in ("server", "circuit_open")
        }
        assert record["kind"] == "extractive" or record["degraded"].startswith("gaps")
    assert f"{len(degraded)}  of the new summaries used a fallback: " in report
    assert len(server.requests) < 13 + 10  # the breaker spares the server
    asked = len(server.requests)
    again, report = replay(chat, "--llm", server.url, "--store", store, env=quick)
    finished = {id_: record for id_, record in again.items() if record["final"]}
    assert finished == {id_: record for id_, record in found.items() if record["final"]}
    assert f"{len(finished)} from the store" in " ".join(report.split())
    assert len(server.requests) - asked <= 2 * (len(found) - len(finished)) * 2  # the provisional ones


def test_windows_without_a_summary_can_become_dead_letters_and_are_summarised_later(
    server: ChatServer, chat: Path, plain: dict[str, Any], tmp_path: Path
) -> None:
    store, letters = tmp_path / "store", tmp_path / "dead.jsonl"
    server.behaviours = ["503"] * 2000
    quick = environment(BACKSCROLL_LLM_RETRIES="0")
    options = (
        "--llm",
        server.url,
        "--store",
        store,
        "--on-llm-failure",
        "dead-letter",
        "--dead-letters",
        letters,
    )
    found, report = replay(chat, *options, env=quick)
    assert found == {}
    failed = [json.loads(line) for line in letters.read_text().splitlines()]
    assert {letter["window"] for letter in failed} == set(plain)
    reasons = [letter["reason"] for letter in failed]
    assert all("the server failed (503)" in reason or "not asked" in reason for reason in reasons)
    assert f"{len(failed)}  windows without a summary" in report
    server.behaviours = []
    made_up_for, _ = replay(chat, *options, env=quick)
    assert set(made_up_for) == set(plain)
    assert all(record["kind"] == "abstractive" for record in made_up_for.values())


def test_paid_answers_survive_a_kill_between_answer_and_summary(
    server: ChatServer, chat: Path, tmp_path: Path
) -> None:
    """Summaries hang, so only gaps are answered; after the kill they are not asked for again."""
    store, out = tmp_path / "store", tmp_path / "out.jsonl"
    answers, server.answers = server.answers, {"gaps": {"gaps": []}}  # a summary request now fails inside
    command = [BACKSCROLL, "replay", chat, *PLAIN, "--llm", server.url, "--store", store, "--out", out]
    process = subprocess.Popen([str(part) for part in command], stderr=subprocess.DEVNULL)
    try:
        while sum(stage(request) == "summary" for request in server.requests) < 3:
            assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    answered = {window(request) for request in server.requests if stage(request) == "gaps"}
    server.answers = answers
    server.requests.clear()
    found, _ = replay(chat, "--llm", server.url, "--store", store)
    asked_again = {window(request) for request in server.requests if stage(request) == "gaps"}
    assert len(answered - asked_again) >= 3
    assert all(record["degraded"] is None for record in found.values())


def stage(request: dict[str, Any]) -> str:
    return str(request["response_format"]["json_schema"]["name"])


def window(request: dict[str, Any]) -> str:
    return str(request["messages"][1]["content"])


def test_a_recorded_run_can_be_repeated_without_a_server(
    server: ChatServer, chat: Path, tmp_path: Path
) -> None:
    cassette = tmp_path / "cassette.jsonl"
    live, _ = replay(chat, "--llm", server.url, "--record", cassette)
    calls = len(server.requests)
    repeated, _ = replay(chat, "--llm", f"cassette:{cassette}")
    assert repeated == live
    assert len(server.requests) == calls
    stages = [json.loads(line)["stage"] for line in cassette.read_text().splitlines()]
    assert sorted(set(stages)) == ["gaps", "summary"]


def test_past_the_days_tokens_summaries_are_extractive_and_say_so(
    server: ChatServer, chat: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    options = ("--llm", server.url, "--store", store, "--max-tokens-per-day", 3_900)
    found, _ = replay(chat, *options, env=environment(BACKSCROLL_LLM_CONCURRENCY="1"))
    reasons = {record["degraded"] for record in found.values()}
    assert reasons == {None, "budget"}
    spent = 110 * len(server.requests)
    assert spent <= 3_900
    table = run("costs", "--store", store, env=environment(COLUMNS="120")).stdout
    assert "default/a" in table
    assert "tiny" in table
    rows = [line.split("│") for line in table.splitlines() if "default/" in line]
    read = sum(int(row[-3].replace(",", "")) for row in rows)
    assert read == 100 * len(server.requests)


def test_two_processes_with_a_model_give_the_same_as_one(server: ChatServer, chat: Path) -> None:
    one, _ = replay(chat, "--llm", server.url)
    two, _ = replay(chat, "--llm", server.url, "--workers", 2)
    assert two == one


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--gap-model", "huge"], "has no model 'huge': it offers tiny"),
        (["--llm", "nonsense"], "llm 'nonsense': use the URL of a server, vllm:MODEL or cassette:FILE"),
        (["--llm", "cassette:missing.jsonl"], "missing.jsonl: cannot be read"),
        (["--llm", "vllm:some-model"], 'vllm is not installed: pip install "backscroll[vllm]"'),
    ],
)
def test_a_model_that_cannot_be_used_stops_the_start_in_one_line(
    server: ChatServer, chat: Path, options: list[str], line: str
) -> None:
    done = run("replay", chat, *PLAIN, "--llm", server.url, *options, check=False, cwd=chat.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_an_unreachable_server_stops_the_start_unless_the_models_are_named(chat: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    refused = run("replay", chat, *PLAIN, "--llm", url, check=False, cwd=chat.parent)
    assert refused.returncode == 2
    assert "no connection: start the server, or set --gap-model and --summary-model" in refused.stderr
    named = ("--llm", url, "--gap-model", "x", "--summary-model", "x")
    found, report = replay(chat, *named, env=environment(BACKSCROLL_LLM_RETRIES="0"))
    assert {record["kind"] for record in found.values()} == {"extractive"}
    assert all(record["degraded"] for record in found.values())
    assert "summaries are degraded until it answers" in report


def test_a_real_model_server_is_accounted_for_window_by_window(tmp_path: Path) -> None:
    """Such a small model only tests the contract: every window has a record, whatever the model wrote."""
    chat, gaps = tmp_path / "chat.jsonl", tmp_path / "gaps.jsonl"
    write_chat(chat, ["a"], 5)
    gaps.write_text("")  # recorded gaps, none: the model writes summaries alone
    with llama_server() as llama:
        small = ("--window", 128, "--summary-tokens", 32, "--detected", gaps)
        one = environment(BACKSCROLL_LLM_CONCURRENCY="1")
        found, _ = replay(chat, "--llm", llama.url, *small, env=one)
    assert windows(found) == [("a", 0, 2), ("a", 3, 4)]
    for record in found.values():
        assert record["tokens"]["prompt"] > 100
        assert record["kind"] == "abstractive" or record["degraded"]


def environment(**variables: str) -> dict[str, str]:
    """The environment of this process with some more variables."""
    return {**os.environ, **variables}
