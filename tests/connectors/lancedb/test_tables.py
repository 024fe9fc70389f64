"""Processes that share a store. When run as a program, this module is one of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest

from backscroll.connectors.lancedb import maintenance as lancedb_maintenance
from backscroll.connectors.lancedb.maintenance import leased, maintain
from backscroll.connectors.lancedb.schema import SCHEMAS, StoreError
from backscroll.connectors.lancedb.store import Fingerprint, LanceStore
from backscroll.connectors.lancedb.tables import SharedTable, attempt, connect
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.store import StoredSummary
from backscroll.operators.messages import Author, ChannelKey, Turn
from backscroll.operators.stream.windows import Window, WindowRef
from support.building import START, HashingEmbedder, recorded, turn

EMBEDDER = HashingEmbedder()
CHUNKER = Chunker(16, 4)
FINGERPRINT = Fingerprint("cl100k_base", 1024, 16, 4, "words", EMBEDDER.fingerprint)
WRITERS = [ChannelKey("default", f"c{number}") for number in range(4)]
CHANGED = ChannelKey("default", "changed")
WINDOWS, GROUP, CHANGES = 24, 3, 12
RETENTION = timedelta(seconds=5)
ROOT = Path(__file__).resolve().parents[3]


def window(key: ChannelKey, index: int) -> Window:
    first = 4 * index
    texts = [f"turn {first + place} of {key.channel} {'wort ' * (index % 7)}" for place in range(4)]
    turns = tuple(turn(first + place, text) for place, text in enumerate(texts))
    return Window(WindowRef(key, index, first, first + 3), turns)


def changed_window(index: int) -> Window:
    """The window after its change: its second turn deleted, its third edited."""
    before = window(CHANGED, index)
    _, gone, edited, _ = before.turns
    gone = Turn(gone.seq, gone.id, gone.ts, Author("", ""), "", 0, 0, edited=START, deleted=True)
    edited = replace(turn(edited.seq, f"edited {edited.seq}"), edited=START + timedelta(hours=1))
    turns = (before.turns[0], gone, edited, before.turns[3])
    return Window(replace(before.ref, revision=index + 1), turns)


def summary(of: Window) -> StoredSummary:
    ref = of.ref
    id_ = f"{ref.key}:{ref.first_seq}"
    return StoredSummary(ref.key, id_, ref.first_seq, ref.last_seq, (), ref.revision, id_.encode())


def open_store(path: Path, *, reader: bool = False) -> LanceStore:
    return LanceStore(path, FINGERPRINT, EMBEDDER.dimensions, shared=True, reader=reader)


def write(path: Path, channel: str) -> None:
    store, key = open_store(path), ChannelKey("default", channel)
    for first in range(0, WINDOWS, GROUP):
        windows = [window(key, index) for index in range(first, first + GROUP)]
        store.append([recorded(one, EMBEDDER, CHUNKER) for one in windows])
        store.put_summaries([summary(one) for one in windows])


def change(path: Path, _: str) -> None:
    store = open_store(path)
    for index in range(CHANGES):
        after = changed_window(index)
        store.begin_change(CHANGED, after.turns[1:3], [index])
        store.finish_change(recorded(after, EMBEDDER, CHUNKER))


def keep_clean(path: Path, stop: str) -> None:
    lancedb_maintenance._SHORTEST = RETENTION  # a minute is too long for a test
    store, rounds = open_store(path), 0
    while not Path(stop).exists():
        rounds += maintain(store, retention=RETENTION) is not None
    print(rounds)


def read(path: Path, stop: str) -> None:
    store, loads, longest = open_store(path, reader=True), 0, 0
    while not Path(stop).exists():
        for key in WRITERS:
            loaded = store.load(key).windows
            assert [one.window for one in loaded] == [window(key, index) for index in range(len(loaded))]
            assert len(loaded) % GROUP == 0, "a group is there as a whole or not at all"
            assert all(one.chunks == CHUNKER.chunk(one.window.turns) for one in loaded)
        channel = store.load(CHANGED)
        for one in channel.windows:
            index = one.window.ref.index
            before, after = window(CHANGED, index).turns, changed_window(index).turns
            assert one.window.turns in (before, after) if index < CHANGES else one.window.turns == before
            assert bool(one.chunks) is (index not in channel.unfinished)
        loads, longest = loads + 1, max(longest, len(loaded))
    print(loads, longest)


def hold(path: Path, _: str) -> None:
    with leased(open_store(path), timedelta(minutes=10)) as renew:
        print("held" if renew else "refused", flush=True)
        sys.stdin.read()


Starter = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Starter]:
    """Starts processes with a role, a store and an argument; kills those still running at the end."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    started = list[subprocess.Popen[str]]()

    def starter(role: Callable[[Path, str], None], path: Path, argument: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, __file__, role.__name__, str(path), argument]
        pipe = subprocess.PIPE
        started.append(
            subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)
        )
        return started[-1]

    yield starter
    for process in started:
        if process.returncode is None:
            process.kill()
            process.communicate()


def output_of(process: subprocess.Popen[str]) -> list[str]:
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors[-2000:]
    return output.split()


def content(path: Path) -> dict[str, list[str]]:
    database = lancedb.connect(path)
    return {
        name: sorted(map(repr, database.open_table(name).to_arrow().to_pylist()))
        for name in database.list_tables().tables
        if name != "lease"
    }


def manifests(path: Path) -> set[Path]:
    """The versions of `turns`."""
    return set((path / "turns.lance" / "_versions").glob("*.manifest"))


def wait_until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} seconds"
        time.sleep(0.05)


def prepare(path: Path) -> None:
    store = open_store(path)
    store.append([recorded(window(CHANGED, index), EMBEDDER, CHUNKER) for index in range(CHANGES + 3)])
    store.put_summaries([summary(window(CHANGED, index)) for index in range(CHANGES + 3)])


def test_writers_a_changer_a_maintainer_and_a_reader_can_share_a_store(
    tmp_path: Path, start: Starter
) -> None:
    path, alone, stop = tmp_path / "store", tmp_path / "alone", tmp_path / "stop"
    prepare(path)
    first = manifests(path)
    writers = [start(write, path, key.channel) for key in WRITERS] + [start(change, path)]
    others = [start(keep_clean, path, str(stop)), start(read, path, str(stop))]
    try:
        for process in writers:
            output_of(process)
        wait_until(lambda: len(first & manifests(path)) == 0)
    finally:
        stop.touch()
    (rounds,), (loads, _) = (output_of(process) for process in others)
    assert int(rounds) > 0
    assert int(loads) > 0
    prepare(alone)
    for key in WRITERS:
        write(alone, key.channel)
    change(alone, "")
    assert content(path) == content(alone)
    store = open_store(path)
    for key in WRITERS:
        assert [one.window for one in store.load(key).windows] == [window(key, i) for i in range(WINDOWS)]
    assert store.load(CHANGED).unfinished == frozenset()


def test_only_one_of_several_processes_gets_the_lease(tmp_path: Path, start: Starter) -> None:
    open_store(tmp_path)
    processes = [start(hold, tmp_path) for _ in range(4)]
    answers = [process.stdout.readline().strip() for process in processes if process.stdout]
    for process in processes:
        output_of(process)
    assert sorted(answers) == ["held", "refused", "refused", "refused"]
    assert maintain(open_store(tmp_path)) is not None, "it was given back"


def test_processes_can_create_a_store_at_the_same_time(tmp_path: Path, start: Starter) -> None:
    processes = [start(write, tmp_path, key.channel) for key in WRITERS]
    for process in processes:
        output_of(process)
    store = open_store(tmp_path)
    for key in WRITERS:
        assert [one.window for one in store.load(key).windows] == [window(key, i) for i in range(WINDOWS)]


def test_a_handle_on_a_removed_version_continues_with_the_latest(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("seq", pa.int64(), False)])
    table = SharedTable(connect(tmp_path), "t", schema)
    table.add([{"seq": number} for number in range(100)])
    stale = SharedTable(lancedb.connect(tmp_path), "t")  # sees what was there when it was opened
    old = lancedb.connect(tmp_path).open_table("t")
    table.delete("seq < 50")
    for _ in range(2):
        table.rewrite(0)
        table.optimize(timedelta(0), delete_unverified=False)
    with pytest.raises(RuntimeError, match="Not found"):
        old.count_rows("seq < 60")
    assert stale.count("seq < 60") == 10
    assert sorted(stale.read("seq < 52")["seq"].to_pylist()) == [50, 51]


@pytest.mark.parametrize("committed", [False, True])
def test_an_append_with_unknown_outcome_is_applied_exactly_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    erased = SharedTable(connect(tmp_path), "erased", SCHEMAS["erased"])
    rows = [{"namespace": "default", "channel": "c", "id": id_} for id_ in ("a", "b")]
    inner = erased._table.add

    def add(table: pa.Table) -> None:
        if committed:
            inner(table)
        raise RuntimeError("lance error: Not found: erased.lance/_versions/7.manifest, x.rs")

    monkeypatch.setattr(erased._table, "add", add)
    erased.add(rows)
    assert sorted(erased.rows(""), key=lambda row: row["id"]) == rows


def test_conflicts_are_retried_and_finally_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = list[float]()
    monkeypatch.setattr(time, "sleep", pauses.append)
    text = "lance error: Retryable commit conflict for version 5: This Rewrite transaction was preempted by"
    failures = [RuntimeError(text), OSError("lance error: Not found: x/1.manifest, y.rs")]

    def passing() -> str:
        if failures:
            raise failures.pop()
        return "done"

    refreshed = list[str]()
    assert attempt(passing, lambda: refreshed.append("again")) == "done"
    assert refreshed == ["again", "again"]

    def failing() -> Any:
        raise RuntimeError(text)

    with pytest.raises(
        StoreError, match=r"^conflict with other processes in 12 attempts: lance error: Retryable"
    ):
        attempt(failing)
    assert all(0 <= pause <= 2 for pause in pauses)
    assert len(pauses) == 2 + 11


def test_a_lost_data_file_is_reported_as_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", list[float]().append)
    prepare(tmp_path)
    shutil.rmtree(tmp_path / "turns.lance" / "data")
    with pytest.raises(StoreError) as caught:
        open_store(tmp_path, reader=True).load(CHANGED)
    wanted = f"table turns of store {tmp_path} is damaged: a file is missing: restore a backup"
    assert str(caught.value) == wanted


def test_other_errors_are_not_retried() -> None:
    tried = list[str]()

    def failing() -> None:
        tried.append("once")
        raise ValueError("Table 'x' was not found")

    with pytest.raises(ValueError, match="was not found"):
        attempt(failing)
    assert tried == ["once"]


if __name__ == "__main__":
    {one.__name__: one for one in (write, change, keep_clean, read, hold)}[sys.argv[1]](
        Path(sys.argv[2]), sys.argv[3]
    )
