"""The command in the error message adds vectors to a store without them."""

from __future__ import annotations

from pathlib import Path

from support.commands import records, run, write_chat


def test_the_command_in_the_error_makes_the_store_usable(tmp_path: Path) -> None:
    chat, store = tmp_path / "chat.jsonl", tmp_path / "store"
    write_chat(chat, ["a"], 100)
    run("ingest", chat, "--store", store, "--embedding-model", "none")
    refused = run("replay", chat, "--store", store, check=False)
    assert refused.returncode == 2
    assert refused.stderr.rstrip().endswith(f"or run: backscroll reindex --store {store}")
    done = run("reindex", "--store", store)
    assert "3 windows" in done.stderr
    found = records(run("replay", chat, "--store", store).stdout.splitlines())
    fresh = records(run("replay", chat).stdout.splitlines())
    assert found == fresh
    assert {record["models"]["embedding"] for record in found.values()} == {"all-MiniLM-L6-v2"}


def test_a_directory_that_is_not_a_store_gives_a_one_line_error(tmp_path: Path) -> None:
    model = tmp_path / "no-model"  # the store is checked before the model is loaded
    done = run("reindex", "--store", tmp_path / "nowhere", "--embedding-model", model, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "nowhere" in done.stderr.splitlines()[-1]
