from __future__ import annotations

from pathlib import Path

from support.commands import records, run, write_chat
from support.object_store import address, endpoint

__all__ = ["address", "endpoint"]

FAST = ("--embedding-model", "none", "--strategy", "sparse", "--window", "256")


def test_a_history_in_an_object_store_is_continued(address: str, tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    write_chat(chat, ["a", "b"], 60)
    run("ingest", chat, "--store", address, *FAST[:2], *FAST[4:])
    first = run("replay", chat, "--store", address, "--workers", 2, *FAST)
    assert " 0 of them new to the store" in first.stderr
    local = run("replay", chat, "--store", tmp_path / "store", *FAST)
    assert records(first.stdout.splitlines()) == records(local.stdout.splitlines())
    again = run("replay", chat, "--store", address, *FAST)
    assert "from the store" in again.stderr
    final = [line for line in first.stdout.splitlines() if '"final":true' in line]
    assert sorted(line for line in again.stdout.splitlines() if '"final":true' in line) == sorted(final)
