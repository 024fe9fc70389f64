from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pytest

from backscroll.connectors.lancedb.store import Fingerprint, LanceStore
from backscroll.connectors.lancedb.tables import SharedTable
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.store import StoredSummary
from backscroll.operators.llm.budget import CachedAnswer
from backscroll.operators.llm.protocol import Usage
from backscroll.operators.messages import Author, ChannelKey, Turn
from backscroll.operators.stream.windows import Window, WindowRef
from support.building import START, HashingEmbedder, turn
from support.building import recorded as computed

KEY, OTHER = ChannelKey("acme's", "ops"), ChannelKey("acme's", "lunch")
EMBEDDER = HashingEmbedder()
CHUNKER = Chunker(16, 4)
FINGERPRINT = Fingerprint("cl100k_base", 1024, 16, 4, "words", EMBEDDER.fingerprint)
SECRET = "the vault opens with 71"
WRITES = ("add", "put", "replace", "update", "delete", "overwrite")


class CrashError(BaseException):
    """A crash of the process between two commits."""


def window(index: int, key: ChannelKey = KEY, secret: str = "") -> Window:
    """Turns 3i to 3i + 2; the middle one may contain a secret."""
    first = 3 * index
    texts = [f"turn {first} {'wort ' * 9}", f"turn {first + 1} {secret}", f"turn {first + 2} {'wort ' * 5}"]
    turns = tuple(turn(first + place, text) for place, text in enumerate(texts))
    return Window(WindowRef(key, index, first, first + 2), turns)


def deleted(seq: int) -> Turn:
    return Turn(seq, f"m{seq}", START, Author("", ""), "", 0, 0, edited=START, deleted=True)


def changed(closed: Window, *turns: Turn, revision: int) -> Window:
    by_seq = {one.seq: one for one in turns}
    ref = dataclasses.replace(closed.ref, revision=revision)
    return Window(ref, tuple(by_seq.get(one.seq, one) for one in closed.turns))


def whole(closed: Window) -> RecordedWindow:
    """A window with chunks and vectors; a window with only deleted turns has no chunks."""
    if closed.live.turns:
        return computed(closed, EMBEDDER, CHUNKER)
    turns = EMBEDDER.embed_passages([one.rendered for one in closed.turns])
    return RecordedWindow(closed, (), np.zeros((0, EMBEDDER.dimensions), np.float32), turns)


def summary(id_: str, first: int, recalled: tuple[int, ...] = (), key: ChannelKey = KEY) -> StoredSummary:
    return StoredSummary(key, id_, first, first + 2, recalled, 0, f"{id_} {SECRET}".encode())


def paid(digest: str, first: int, recalled: tuple[int, ...] = (), key: ChannelKey = KEY) -> CachedAnswer:
    day = date(2026, 3, 2)
    return CachedAnswer(key, first, first + 2, recalled, "gaps", digest, "tiny", day, Usage(7, 3), SECRET)


def open_store(path: Path, embedder: HashingEmbedder | None = EMBEDDER) -> LanceStore:
    name = None if embedder is None else embedder.fingerprint
    fingerprint = dataclasses.replace(FINGERPRINT, embedder=name)
    return LanceStore(path, fingerprint, None if embedder is None else embedder.dimensions, shared=True)


def fill(path: Path) -> LanceStore:
    """Four windows, the second with a secret in turn 4, and the vectors of a previous embedder."""
    store = open_store(path)
    windows = [window(index, secret=SECRET if index == 1 else "") for index in range(4)]
    store.append([whole(one) for one in [*windows, window(0, OTHER), window(1, OTHER, SECRET)]])
    for kind in ("chunk", "turn"):
        rows = SharedTable(store.tables.database, f"{kind}_vectors_hashing-64").read("")
        store.tables.database.create_table(f"{kind}_vectors_before", data=rows)
    store.put_summaries([summary("w0", 0), summary("w1", 3), summary("w2", 6, (4,)), summary("w3", 9, (3,))])
    store.put_summaries([summary("other", 3, (4,), OTHER)])
    for digest, first, recalled, key in (("a", 3, (), KEY), ("b", 6, (4,), KEY), ("c", 9, (3,), KEY)):
        store.answers.put_answer(paid(digest, first, recalled, key))
    store.answers.put_answer(paid("a", 3, (4,), OTHER))
    return store


def content(path: Path) -> dict[str, list[str]]:
    """The rows of every table, in a fixed order."""
    database = lancedb.connect(path)
    return {
        name: sorted(map(repr, database.open_table(name).to_arrow().to_pylist()))
        for name in database.list_tables().tables
    }


@contextmanager
def crash_after(writes: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Crash after a number of writes; yields the tables that were written."""
    done = list[str]()

    def dying(name: str) -> Any:
        inner = getattr(SharedTable, name)

        def write(self: SharedTable, *args: Any, **kwargs: Any) -> Any:
            if len(done) == writes:
                raise CrashError
            done.append(self.name)
            return inner(self, *args, **kwargs)

        return write

    with monkeypatch.context() as patch:
        for name in WRITES:
            patch.setattr(SharedTable, name, dying(name))
        with suppress(CrashError):
            yield done


def delete_turn_four(store: LanceStore) -> Window:
    after = changed(window(1, secret=SECRET), deleted(4), revision=1)
    store.begin_change(KEY, [deleted(4)], [1])
    store.finish_change(whole(after))
    return after


def test_a_deleted_turn_and_everything_derived_from_it_is_gone_from_every_table(tmp_path: Path) -> None:
    store = fill(tmp_path)
    after = delete_turn_four(store)
    loaded = open_store(tmp_path).load(KEY)
    assert loaded.unfinished == frozenset()
    assert [one.window for one in loaded.windows] == [window(0), after, window(2), window(3)]
    for ours, theirs in zip(loaded.windows, map(whole, [window(0), after]), strict=False):
        assert ours.chunks == theirs.chunks
        np.testing.assert_array_equal(ours.chunk_vectors, theirs.chunk_vectors)
        np.testing.assert_array_equal(ours.turn_vectors, theirs.turn_vectors)
    assert loaded.summary_ids == {"w0", "w3"}
    assert {one.summary_id: one.body for one in store.depending_on(KEY, [4])} == {"w1": b"", "w2": b""}
    assert [store.answers.answer(KEY, digest) for digest in "abc"] == [None, None, SECRET]
    told = [repr(row) for name in ("turns", "chunks") for row in content(tmp_path)[name] if SECRET in row]
    assert told
    assert all("lunch" in row for row in told)
    assert store.load(OTHER).summary_ids == {"other"}
    assert [one.window for one in store.load(OTHER).windows] == [window(0, OTHER), window(1, OTHER, SECRET)]
    assert store.answers.answer(OTHER, "a") == SECRET


def test_vectors_of_a_previous_embedder_are_deleted_and_not_recomputed(tmp_path: Path) -> None:
    store = fill(tmp_path)
    of_window = len(whole(window(1, secret=SECRET)).chunks)
    chunks, turns = (
        SharedTable(store.tables.database, f"{kind}_vectors_before") for kind in ("chunk", "turn")
    )
    rows = chunks.count(""), turns.count("")
    delete_turn_four(store)
    here = "channel = 'ops'"
    assert (chunks.count(""), turns.count("")) == (rows[0] - of_window, rows[1] - 1)
    assert chunks.count(f"{here} AND position >= {1 << 32} AND position < {2 << 32}") == 0
    assert turns.count(f"{here} AND position = 4") == 0


def test_the_cost_of_an_erased_answer_is_kept(tmp_path: Path) -> None:
    store = fill(tmp_path)
    before = store.answers.spent(date(2026, 3, 2))
    delete_turn_four(store)
    assert store.answers.spent(date(2026, 3, 2)) == before == {KEY: 30, OTHER: 10}


def test_a_window_with_only_deleted_turns_has_no_chunks(tmp_path: Path) -> None:
    store = fill(tmp_path)
    turns = [deleted(3), deleted(4), deleted(5)]
    after = changed(window(1), *turns, revision=3)
    store.begin_change(KEY, turns, [1])
    store.finish_change(whole(after))
    loaded = open_store(tmp_path).load(KEY).windows[1]
    assert (loaded.window, loaded.chunks) == (after, ())
    assert loaded.chunk_vectors is not None
    assert loaded.chunk_vectors.shape == (0, 64)
    np.testing.assert_array_equal(loaded.turn_vectors, whole(after).turn_vectors)


def test_a_change_to_several_windows_is_finished_window_by_window(tmp_path: Path) -> None:
    store = fill(tmp_path)
    edited = dataclasses.replace(window(2).turns[1], text="now", tokens=4, edited=START + timedelta(hours=1))
    store.begin_change(KEY, [deleted(4), edited], [1, 2])
    one = changed(window(1), deleted(4), revision=2)
    two = changed(window(2), edited, revision=2)
    loaded = open_store(tmp_path).load(KEY)
    assert loaded.unfinished == {1, 2}
    assert [len(each.chunks) > 0 for each in loaded.windows] == [True, False, False, True]
    assert [each.turn_vectors is None for each in loaded.windows] == [False, True, True, False]
    assert [each.window.turns for each in loaded.windows[1:3]] == [one.turns, two.turns]
    store.finish_change(whole(two))
    assert open_store(tmp_path).load(KEY).unfinished == {1}
    store.finish_change(whole(one))
    loaded = open_store(tmp_path).load(KEY)
    assert loaded.unfinished == frozenset()
    assert [each.window for each in loaded.windows] == [window(0), one, two, window(3)]


def test_a_history_without_vectors_can_be_changed_too(tmp_path: Path) -> None:
    store = open_store(tmp_path, None)
    store.append([computed(window(index), None, CHUNKER) for index in range(2)])
    after = changed(window(1), deleted(4), revision=1)
    store.begin_change(KEY, [deleted(4)], [1])
    store.finish_change(computed(after, None, CHUNKER))
    loaded = store.load(KEY)
    assert [one.window for one in loaded.windows] == [window(0), after]
    assert loaded.windows[1].chunks == CHUNKER.chunk(after.turns)


def test_applying_a_change_twice_has_no_further_effect(tmp_path: Path) -> None:
    store = fill(tmp_path)
    delete_turn_four(store)
    once = content(tmp_path)
    delete_turn_four(store)
    assert content(tmp_path) == once


@pytest.mark.parametrize("writes", range(17))
def test_a_crash_at_any_write_of_a_change_leaves_a_store_that_loads_and_can_be_changed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Once the turn is deleted, nothing derived from it is left."""
    expected = fill(tmp_path / "expected")
    after = delete_turn_four(expected)
    path = tmp_path / "store"
    store = fill(path)
    with crash_after(writes, monkeypatch) as done:
        delete_turn_four(store)
    assert len(done) <= writes
    reopened = open_store(path)
    loaded = reopened.load(KEY)
    assert loaded.unfinished <= {1}
    turns = loaded.windows[1].window.turns
    assert turns in (after.turns, window(1, secret=SECRET).turns)
    if turns == after.turns:
        rest = content(path)
        for name in ("chunk_vectors_before", "turn_vectors_before", "answers"):
            assert rest[name] == content(tmp_path / "expected")[name]
        assert loaded.summary_ids == {"w0", "w3"}
    for index in loaded.unfinished:  # as an engine does when it loads the channel
        reopened.finish_change(whole(loaded.windows[index].window))
    assert reopened.load(KEY).unfinished == frozenset()
    delete_turn_four(reopened)
    assert content(path) == content(tmp_path / "expected")


def test_the_crashes_above_cover_every_write_of_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fill(tmp_path)
    with crash_after(1000, monkeypatch) as done:
        delete_turn_four(store)
    assert len(done) == 16
    assert done[0] == done[-1] == "changes"
