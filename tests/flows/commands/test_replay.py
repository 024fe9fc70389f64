"""The command end to end: real processes, a real store, real signals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from backscroll.connectors.embedding.packaged import torch_is_installed
from backscroll.connectors.lancedb.schema import occupy
from support.commands import BACKSCROLL, records, run, write_chat
from support.pace import slowness

NOWHERE = (
    "cannot load embedding model './nowhere'"
    if torch_is_installed()
    else "embedding model './nowhere' does not run on ONNX"
)
PLAIN = ("--strategy", "sparse", "--embedding-model", "none")


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chat") / "chat.jsonl"
    write_chat(path, ["a", "b", "c"], 1800)
    return path


@pytest.fixture(scope="module")
def whole(chat: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The records of an uninterrupted run."""
    out = tmp_path_factory.mktemp("whole") / "out.jsonl"
    run("replay", chat, *PLAIN, "--out", out)
    return records(out.read_text().splitlines())


def finished(out: Path) -> int:
    return out.read_bytes().count(b"\n") if out.exists() else 0


def start(chat: Path, out: Path, store: Path, *options: str) -> subprocess.Popen[str]:
    command = [BACKSCROLL, "replay", chat, *PLAIN, "--out", out, "--store", store, *options]
    slow_source = {**os.environ, "BACKSCROLL_PENDING_WINDOWS": "8"}  # the end of the file is far away
    return subprocess.Popen(
        [str(part) for part in command], stderr=subprocess.PIPE, text=True, env=slow_source
    )


def wait_for(process: subprocess.Popen[str], out: Path, lines: int) -> None:
    """Wait until the run has written some lines; it must still be running then."""
    deadline = time.monotonic() + 120
    while finished(out) < lines:
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_every_message_is_in_exactly_one_window_in_order(chat: Path, whole: dict[str, Any]) -> None:
    sent: dict[str, list[str]] = {}
    for line in chat.read_text().splitlines():
        message = json.loads(line)
        sent.setdefault(message["channel"], []).append(message["id"])
    for channel, ids in sent.items():
        windows = sorted(
            (r["window"] for r in whole.values() if r["channel"] == channel), key=lambda w: w["first_seq"]
        )
        assert [id_ for window in windows for id_ in window["turns"]] == ids
        assert [window["index"] for window in windows] == list(range(len(windows)))
        assert all(window["tokens"] <= 1024 for window in windows)


def test_only_the_last_window_of_a_channel_is_provisional(whole: dict[str, Any]) -> None:
    open_windows = {r["channel"]: r["window"]["last_seq"] for r in whole.values() if not r["final"]}
    assert set(open_windows) == {"a", "b", "c"}
    for record in whole.values():
        assert record["final"] == (record["window"]["last_seq"] < open_windows[record["channel"]])


def test_a_run_killed_again_and_again_ends_with_the_same_summaries(
    chat: Path, whole: dict[str, Any], tmp_path: Path
) -> None:
    store, seen = tmp_path / "store", dict[str, str]()
    for attempt, lines in enumerate((1, 15, 30)):
        out = tmp_path / f"out-{attempt}.jsonl"
        process = start(chat, out, store)
        wait_for(process, out, lines)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
        for line in out.read_text().splitlines(keepends=True):
            record = json.loads(line) if line.endswith("\n") else {"final": False}
            if record["final"]:  # emitted once, emitted the same ever after
                assert seen.setdefault(record["summary_id"], line) == line
    out = tmp_path / "out.jsonl"
    done = run("replay", chat, *PLAIN, "--out", out, "--store", store)
    lines_out = out.read_text().splitlines(keepends=True)
    assert records(lines_out) == whole
    assert seen.items() <= {json.loads(line)["summary_id"]: line for line in lines_out}.items()
    assert f"{len(seen)} from the store" not in done.stderr or len(seen) > 0
    (made,) = re.findall(r"summaries: ([\d,]+) new", done.stderr)
    assert int(made.replace(",", "")) <= len(whole) - len(seen)


@pytest.mark.timing
def test_sigterm_stops_in_an_orderly_way_and_the_next_run_continues(
    chat: Path, whole: dict[str, Any], tmp_path: Path
) -> None:
    store, out = tmp_path / "store", tmp_path / "out.jsonl"
    process = start(chat, out, store)
    wait_for(process, out, 10)
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert time.monotonic() - asked < 5 * slowness()
    assert process.returncode == 128 + signal.SIGTERM
    assert "stopped before the end: run it again to continue" in errors
    before = records(out.read_text().splitlines())
    assert all(record["final"] for record in before.values())
    run("replay", chat, *PLAIN, "--out", out, "--store", store)
    assert records(out.read_text().splitlines()) == whole


def test_two_processes_give_the_same_as_one(chat: Path, whole: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    run("replay", chat, *PLAIN, "--out", out, "--workers", 2)
    assert records(out.read_text().splitlines()) == whole


def test_a_store_written_by_one_process_is_resumed_by_two(
    chat: Path, whole: dict[str, Any], tmp_path: Path
) -> None:
    store, out = tmp_path / "store", tmp_path / "out.jsonl"
    process = start(chat, out, store)
    wait_for(process, out, 20)
    process.kill()
    process.communicate()
    done = run("replay", chat, *PLAIN, "--out", out, "--store", store, "--workers", 2)
    assert records(out.read_text().splitlines()) == whole
    assert " 0 from the store" not in done.stderr


def test_a_killed_parent_leaves_no_worker_behind(chat: Path, tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out.jsonl"
    process = start(chat, out, store, "--workers", "2")
    wait_for(process, out, 1)
    workers = [
        int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ]
    assert len(workers) == 2
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while any(_alive(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except FileNotFoundError:
        return False


def test_channels_in_several_files_give_the_same_as_in_one(
    chat: Path, whole: dict[str, Any], tmp_path: Path
) -> None:
    files = [tmp_path / f"{channel}.jsonl" for channel in "abc"]
    lines = chat.read_text().splitlines(keepends=True)
    for path in files:
        path.write_text("".join(line for line in lines if json.loads(line)["channel"] == path.stem))
    out = tmp_path / "out.jsonl"
    run("replay", *files, *PLAIN, "--out", out)
    assert records(out.read_text().splitlines()) == whole


def test_a_backfilled_history_is_summarised_without_being_recorded_again(
    chat: Path, whole: dict[str, Any], tmp_path: Path
) -> None:
    store, out = tmp_path / "store", tmp_path / "out.jsonl"
    backfill = run("ingest", chat, "--embedding-model", "none", "--store", store)
    closed = sum(record["final"] for record in whole.values())
    assert f"{closed} windows closed, {closed} of them new to the store" in " ".join(backfill.stderr.split())
    assert "default/a: the last" in backfill.stderr
    done = run("replay", chat, *PLAIN, "--out", out, "--store", store)
    assert f"{closed} windows closed, 0 of them new to the store" in " ".join(done.stderr.split())
    assert records(out.read_text().splitlines()) == whole


def test_a_second_file_continues_the_channels_of_the_first(tmp_path: Path) -> None:
    first, second, store = tmp_path / "1.jsonl", tmp_path / "2.jsonl", tmp_path / "store"
    write_chat(first, ["a"], 200, seed=1)
    write_chat(second, ["a"], 200, seed=2)
    run("replay", first, second, *PLAIN, "--out", tmp_path / "both.jsonl", "--store", tmp_path / "other")
    run("replay", first, *PLAIN, "--out", tmp_path / "o1.jsonl", "--store", store)
    run("replay", first, second, *PLAIN, "--out", tmp_path / "o2.jsonl", "--store", store)
    whole = records((tmp_path / "both.jsonl").read_text().splitlines())
    assert records((tmp_path / "o2.jsonl").read_text().splitlines()) == whole


def test_invalid_lines_go_to_dead_letters_and_valid_ones_are_unaffected(tmp_path: Path) -> None:
    path, letters = tmp_path / "chat.jsonl", tmp_path / "rejected.jsonl"
    good = {
        "channel": "a",
        "id": "m1",
        "ts": "2026-03-02T09:00:00Z",
        "author": "Ana",
        "text": "Ship it on Monday.",
    }
    lines = [
        json.dumps(good).encode(),
        b"not JSON",
        json.dumps({**good, "id": "m2", "ts": "2026-03-02T09:00:00"}).encode(),
        json.dumps({**good, "text": "Ship it on Friday."}).encode(),
        b"\xff\xfe",
        json.dumps({**good, "id": "m3", "ts": "2026-02-30T09:00:00Z"}).encode(),
        json.dumps({**good, "id": "m4", "text": "nul \0"}).encode(),
        json.dumps({**good, "id": "m5", "text": 7}).encode(),
        json.dumps({"channel": "a"}).encode(),
        json.dumps(good).encode(),
        json.dumps({**good, "id": "m6", "text": "Monday it is."}).encode(),
    ]
    path.write_bytes(b"\n".join(lines) + b"\n")
    done = run("replay", path, *PLAIN, "--dead-letters", letters)
    (record,) = records(done.stdout.splitlines()).values()
    assert record["window"]["turns"] == ["m1", "m6"]
    rejected = [json.loads(line) for line in letters.read_text().splitlines()]
    assert sorted((letter["line"], letter["reason"].split(":")[0]) for letter in rejected) == [
        (2, "not JSON"),
        (3, "ts '2026-03-02T09"),
        (4, "id 'm1' was already used with different content"),
        (5, "not UTF-8"),
        (6, "ts '2026-02-30T09"),
        (7, "text contains a NUL character"),
        (8, "text must be a string, not int"),
        (9, "ts is missing"),
    ]
    assert {letter["file"] for letter in rejected} == {str(path)}
    assert "8  dead letters" in done.stderr
    assert "1  duplicates skipped" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["replay", "missing.jsonl"], "Error: missing.jsonl: no such file"),
        (["replay", "chat.txt"], "Error: chat.txt: format not recognised"),
        (["replay", "chat.jsonl", "--store", "chat.txt"], "Error: store chat.txt cannot be opened"),
        (["replay", "chat.jsonl", "--out", "chat.jsonl"], "Error: chat.jsonl is also an input"),
        (
            ["replay", "chat.jsonl", "--budget", "0"],
            "Error: Invalid value for '--budget' (env var: 'BACKSCROLL_BUDGET'): 0 is not in the range x>=1.",
        ),
        (
            ["replay", "chat.jsonl", "--detected", "chat.txt"],
            "Error: chat.txt:1: not a recorded gap",
        ),
        (
            ["replay", "chat.jsonl", "--embedding-model", "none", "--strategy", "remember"],
            "Error: settings: strategy remember needs",
        ),
        (
            ["replay", "chat.jsonl", "--embedding-model", "./nowhere"],
            f"Error: {NOWHERE}",
        ),
        (["ingest", "chat.jsonl"], "Error: ingest needs --store, the history to write to"),
    ],
)
def test_a_users_mistake_is_one_clear_line_and_exit_code_2(
    arguments: list[str], line: str, tmp_path: Path
) -> None:
    write_chat(tmp_path / "chat.jsonl", ["a"], 3)
    (tmp_path / "chat.txt").write_text("hello\n")
    done = run(*arguments, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(line)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_store_in_use_is_refused(chat: Path, tmp_path: Path) -> None:
    with occupy(tmp_path / "store"):
        options = (*PLAIN, "--store", tmp_path / "store", "--out", tmp_path / "o.jsonl")
        done = run("replay", chat, *options, check=False)
    assert (done.returncode, "in use by another backscroll process" in done.stderr) == (2, True)


@pytest.mark.timing
def test_speed_replays_at_a_multiple_of_real_time(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    write_chat(path, ["a"], 121)  # two minutes of chat
    started = time.monotonic()
    run("replay", path, *PLAIN, "--speed", 40)
    assert 3.0 <= time.monotonic() - started < 20 * slowness()


def test_a_time_zone_holds_in_cards_and_digests_and_leaves_json_fields_in_utc(tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    said = [("m1", "2026-03-02T23:30:00Z", "The pump at berth seven leaks oil.")]
    said += [("m2", "2026-03-02T23:40:00Z", "We ordered a new valve from Bergen.")]
    chat.write_text(
        "".join(
            json.dumps({"channel": "dock", "id": id_, "ts": ts, "author": "Ana", "text": text}) + "\n"
            for id_, ts, text in said
        )
    )
    plain = ("--strategy", "none", "--embedding-model", "none")
    (record,) = map(json.loads, run("replay", chat, *plain, "--tz", "Europe/Oslo").stdout.splitlines())
    assert record["summary"] == (
        "00:30 Ana: The pump at berth seven leaks oil.\n00:40 Ana: We ordered a new valve from Bergen."
    )
    assert record["window"]["start"] == "2026-03-02T23:30:00Z"
    environment = {**os.environ, "COLUMNS": "100", "BACKSCROLL_TZ": "+02:00"}
    cards = run("replay", chat, *plain, "--as", "cards", env=environment).stdout
    assert "default/dock  2026-03-03 01:30 to 01:40 +02:00" in cards
    assert "01:40 Ana: We ordered a new valve from Bergen." in cards


def test_cards_show_the_summary_and_the_message_that_resolves_a_gap(sample: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "COLUMNS": "100"}
    done = run("replay", sample, "--as", "cards", "--store", tmp_path / "store", env=environment)
    assert "acme/harbor-launch  2026-03-02 08:01 to 09:30 UTC" in done.stdout
    assert done.stdout.count("← ") >= 10
    again = run("replay", sample, "--store", tmp_path / "store")
    summaries = list(records(again.stdout.splitlines()).values())
    for record in summaries:
        assert record["tokens"]["memory"] == sum(entry["tokens"] for entry in record["memory"]) <= 1024
        remembered = {entry["id"] for entry in record["memory"]}
        for entry in record["memory"]:
            assert entry["seq"] < record["window"]["first_seq"]
            assert entry["permalink"].endswith(entry["id"])
        for gap in record["gaps"]:
            assert gap["utterance"] in record["window"]["turns"]
            assert set(gap["evidence"]) <= remembered


def test_a_chat_can_come_from_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    write_chat(path, ["a"], 3)
    done = run("replay", "-", *PLAIN, input=path.read_text(), cwd=tmp_path)
    (record,) = records(done.stdout.splitlines()).values()
    assert record["window"]["turns"] == ["7-0", "7-1", "7-2"]
    refused = run("replay", "-", *PLAIN, "--workers", 2, input="", check=False, cwd=tmp_path)
    assert (refused.returncode, "only one process can read standard input" in refused.stderr) == (2, True)


def test_recorded_gaps_that_match_no_window_are_reported(tmp_path: Path) -> None:
    path, gaps = tmp_path / "chat.jsonl", tmp_path / "gaps.jsonl"
    write_chat(path, ["a"], 3)
    gaps.write_text('{"dialogue": "other", "window": 0, "gaps": []}\n')
    done = run("replay", path, *PLAIN, "--detected", gaps, cwd=tmp_path)
    assert "is in a window of these files: check its channels" in " ".join(done.stderr.split())


def test_an_orderly_stop_finishes_its_writes_before_it_releases_the_store(
    chat: Path, whole: dict[str, Any], tmp_path: Path
) -> None:
    """A run that starts at once must not meet writes of the one that is stopping."""
    store, out = tmp_path / "store", tmp_path / "out.jsonl"
    process = start(chat, out, store)
    wait_for(process, out, 5)
    process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 60
    while (done := run("replay", chat, *PLAIN, "--out", out, "--store", store, check=False)).returncode == 2:
        assert "in use by another backscroll process" in done.stderr
        assert time.monotonic() < deadline
    process.communicate(timeout=30)
    assert done.returncode == 0, done.stderr
    assert records(out.read_text().splitlines()) == whole


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_ends_the_run_in_one_line(chat: Path, workers: int, tmp_path: Path) -> None:
    done = run("replay", chat, *PLAIN, "--workers", workers, "--out", "/dev/full", check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "Error: /dev/full: cannot be written: No space left on device"
    assert "Traceback" not in done.stderr
