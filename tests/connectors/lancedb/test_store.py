from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import lancedb
import numpy as np
import pytest

from backscroll.connectors.lancedb.schema import StoreError, occupy
from backscroll.connectors.lancedb.store import Fingerprint, LanceStore
from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.store import StoredSummary
from backscroll.operators.messages import Author, ChannelKey, Turn
from backscroll.operators.stream.windows import Window, WindowRef
from support.building import START, HashingEmbedder, cosines, turn
from support.building import recorded as computed

KEY = ChannelKey("acme's", 'ops/night "shift"')
EMBEDDER = HashingEmbedder()
FINGERPRINT = Fingerprint("cl100k_base", 1024, 128, 32, "words", EMBEDDER.fingerprint)


Opener = Callable[[Path], LanceStore]


@pytest.fixture
def open_store() -> Iterator[Opener]:
    with ExitStack() as opened:

        def opener(path: Path) -> LanceStore:
            store = LanceStore(path, FINGERPRINT, EMBEDDER.dimensions)
            opened.callback(store.close)
            return store

        yield opener


def window(index: int, key: ChannelKey = KEY) -> Window:
    first = 3 * index
    turns = tuple(
        turn(seq, f"turn {seq} 'quoted' und überhaupt {'wort ' * seq}") for seq in range(first, first + 3)
    )
    return Window(WindowRef(key, index, first, first + 2), turns)


def record(store: LanceStore, *windows: Window) -> None:
    store.append([computed(one, EMBEDDER, Chunker(16, 4)) for one in windows])


def indexed(store: LanceStore, key: ChannelKey = KEY) -> ChannelHistory:
    history = ChannelHistory(key, EMBEDDER.dimensions)
    for one in store.load(key).windows:
        history.append(one)
    return history


def summary(id_: str, body: bytes = b"1", *, key: ChannelKey = KEY, first: int = 0) -> StoredSummary:
    return StoredSummary(key, id_, first, first + 2, (first + 7, first + 9), 0, body)


def test_a_history_comes_back_as_it_was_recorded(tmp_path: Path, open_store: Opener) -> None:
    store = open_store(tmp_path)
    odd = dataclasses.replace(
        turn(6, "last", author="Ben"),
        author=Author("u2", "Ben", bot=True),
        reply_to="m1",
        permalink="x://y",
        late=True,
        edited=START,
    )
    gone = Turn(7, "m7", START, Author("", ""), "", 0, 0, edited=START, deleted=True)
    last = Window(WindowRef(KEY, 2, 6, 7, revision=3), (odd, gone))
    written = ChannelHistory(KEY, EMBEDDER.dimensions)
    for one in (window(0), window(1), last):
        written.append(computed(one, EMBEDDER, Chunker(16, 4)))
    record(store, window(0), window(1))
    record(store, last)
    store.close()
    reopened = open_store(tmp_path)
    loaded = reopened.load(KEY)
    assert [item.window for item in loaded.windows] == [window(0), window(1), last]
    assert (loaded.unfinished, loaded.summary_ids, loaded.erased_ids) == (set(), set(), set())
    read = indexed(reopened)
    query = EMBEDDER.embed_queries(["turn 4 wort"])
    for before in (0, 3, 6, 8):
        ours, theirs = read.as_of(before), written.as_of(before)
        assert ours.chunks == theirs.chunks
        np.testing.assert_array_equal(ours.sparse("turn wort 4"), theirs.sparse("turn wort 4"))
        np.testing.assert_array_equal(cosines(ours, query), cosines(theirs, query))
        seqs = list(range(before))
        np.testing.assert_array_equal(ours.turn_vectors(seqs), theirs.turn_vectors(seqs))
        assert [ours.chunk_turns(i) for i in range(ours.chunks)] == [
            theirs.chunk_turns(i) for i in range(theirs.chunks)
        ]


def test_channels_do_not_see_each_other(tmp_path: Path, open_store: Opener) -> None:
    other = ChannelKey("acme's", "ops")
    store = open_store(tmp_path)
    record(store, window(0), window(0, other), window(1, other))
    store.put_summaries([summary("a")])
    store.put_erased(other, ["m99"])
    ours, theirs = store.load(KEY), store.load(other)
    assert [item.window.ref for item in ours.windows] == [window(0).ref]
    assert [item.window.ref for item in theirs.windows] == [window(0, other).ref, window(1, other).ref]
    assert (ours.summary_ids, theirs.summary_ids) == ({"a"}, set())
    assert (ours.erased_ids, theirs.erased_ids) == (set(), {"m99"})
    assert store.depending_on(other, [0, 7]) == []


def test_a_group_of_windows_is_one_commit_a_table(tmp_path: Path, open_store: Opener) -> None:
    other = ChannelKey("acme's", "ops")
    store = open_store(tmp_path)
    before = versions(tmp_path)
    record(store, window(0), window(0, other), window(1), window(2), window(1, other))
    store.put_summaries([summary("a"), summary("b", key=other), summary("c")])
    written = {"turns", "chunks", "windows", "summaries"}
    written |= {f"{kind}_vectors_{EMBEDDER.fingerprint}" for kind in ("chunk", "turn")}
    after = versions(tmp_path)
    assert {name: after[name] - before[name] for name in after} == {
        name: int(name in written) for name in after
    }
    assert [item.window for item in store.load(KEY).windows] == [window(0), window(1), window(2)]
    assert [item.window for item in store.load(other).windows] == [window(0, other), window(1, other)]


@pytest.mark.parametrize("written", [["turns"], ["turns", "chunks"], ["turns", "chunks", "chunk_vectors"]])
def test_rows_without_a_commit_marker_are_dropped_on_load(
    tmp_path: Path, open_store: Opener, written: list[str]
) -> None:
    """What a crash between two appends of one window leaves behind."""
    store = open_store(tmp_path)
    record(store, window(0), window(1))
    store.close()
    database = lancedb.connect(tmp_path)
    kept = [name for name in _tables(database) if not any(name.startswith(prefix) for prefix in written)]
    beyond = {"turns": "seq >= 3", "chunks": "window >= 1", "windows": "window >= 1"}
    beyond[f"chunk_vectors_{EMBEDDER.fingerprint}"] = f"position >= {1 << 32}"
    beyond[f"turn_vectors_{EMBEDDER.fingerprint}"] = "position >= 3"
    for name in set(kept) & set(beyond):
        database.open_table(name).delete(beyond[name])
    store = open_store(tmp_path)
    assert [item.window for item in store.load(KEY).windows] == [window(0)]
    for name, rows in (("turns", 3), ("windows", 1), (f"turn_vectors_{EMBEDDER.fingerprint}", 3)):
        assert database.open_table(name).count_rows() == rows
    record(store, window(1))
    assert [item.window for item in store.load(KEY).windows] == [window(0), window(1)]


def test_rows_of_other_embedders_without_a_commit_marker_are_dropped_too(
    tmp_path: Path, open_store: Opener
) -> None:
    store = open_store(tmp_path)
    record(store, window(0), window(1))
    store.close()
    for kind in ("chunk", "turn"):
        table = tmp_path / f"{kind}_vectors_hashing-64.lance"
        shutil.copytree(table, tmp_path / f"{kind}_vectors_old.lance")
    database = lancedb.connect(tmp_path)
    database.open_table("windows").delete("window = 1")
    store = open_store(tmp_path)
    assert len(store.load(KEY).windows) == 1
    for name in ("turn_vectors_old", "turn_vectors_hashing-64"):
        assert database.open_table(name).count_rows() == 3
    for name in ("chunk_vectors_old", "chunk_vectors_hashing-64"):
        positions = database.open_table(name).to_arrow()["position"].to_pylist()
        assert positions
        assert max(positions) < 1 << 32


@pytest.mark.parametrize(
    ("table", "condition"),
    [
        ("turns", "seq = 1"),
        ("windows", "window = 0"),
        ("chunks", "window = 1 AND start = 0"),
        ("chunk_vectors_hashing-64", "position = 0"),
        ("turn_vectors_hashing-64", "position = 4"),
    ],
)
def test_committed_rows_that_are_missing_are_reported(
    tmp_path: Path, open_store: Opener, table: str, condition: str
) -> None:
    store = open_store(tmp_path)
    record(store, window(0), window(1))
    assert lancedb.connect(tmp_path).open_table(table).count_rows(condition) == 1
    lancedb.connect(tmp_path).open_table(table).delete(condition)
    store.close()
    with pytest.raises(StoreError, match=r"rows of acme.* are missing: restore it from a backup"):
        open_store(tmp_path).load(KEY)


def test_summaries_come_back_byte_for_byte(tmp_path: Path, open_store: Opener) -> None:
    store = open_store(tmp_path)
    body = '{"text": "ünï \U0001f6a2"}'.encode()
    store.put_summaries([summary("acme%27s/x:0-2:remember", body)])
    store.close()
    store = open_store(tmp_path)
    assert store.summary("acme%27s/x:0-2:remember") == body
    with pytest.raises(StoreError, match="summary nope cannot be read: there is no such summary"):
        store.summary("nope")


def test_the_last_summary_of_an_id_takes_the_place_of_the_others(tmp_path: Path, open_store: Opener) -> None:
    store = open_store(tmp_path)
    store.put_summaries([summary("a", b"1"), summary("b's", b"1")])
    again = dataclasses.replace(summary("b's", b"3"), revision=4, recalled=(), reissued=True)
    store.put_summaries([dataclasses.replace(again, body=b"2"), summary("c", b"1"), again])
    assert [store.summary(id_) for id_ in ("a", "b's", "c")] == [b"1", b"3", b"1"]
    assert store.depending_on(KEY, [1]) == [summary("a", b"1"), again, summary("c", b"1")]
    assert store.load(KEY).summary_ids == {"a", "b's", "c"}
    store.put_summaries([])
    assert store.depending_on(KEY, []) == []


@pytest.mark.parametrize(
    ("seqs", "found"),
    [
        ([20], "a"),
        ([22, 5], "a"),
        ([27], "a"),
        ([29], "a"),
        ([28], ""),
        ([19], ""),
        ([30, 47], "b"),
        ([0, 49, 22], "ab"),
    ],
)
def test_summaries_rest_on_their_window_and_their_memory(
    tmp_path: Path, open_store: Opener, seqs: list[int], found: str
) -> None:
    """`a` is about turns 20 to 22 and recalls 27 and 29, `b` about 40 to 42 with 47 and 49."""
    store = open_store(tmp_path)
    store.put_summaries([summary("b", first=40), summary("a", first=20)])
    assert "".join(one.summary_id for one in store.depending_on(KEY, seqs)) == found


def test_messages_deleted_before_they_came_are_remembered_once(tmp_path: Path, open_store: Opener) -> None:
    store = open_store(tmp_path)
    store.put_erased(KEY, ["it's", "m2", "m2"])
    store.put_erased(KEY, ["m3", "m2"])
    store.put_erased(KEY, [])
    assert store.load(KEY).erased_ids == {"it's", "m2", "m3"}
    assert lancedb.connect(tmp_path).open_table("erased").count_rows() == 3


def test_a_reader_sees_a_channel_and_leaves_it_alone(tmp_path: Path, open_store: Opener) -> None:
    """What is not committed yet belongs to the process that writes the channel."""
    store = open_store(tmp_path)
    record(store, window(0))
    lancedb.connect(tmp_path).open_table("turns").add(
        [{**row, "seq": 3} for row in store.tables["turns"].rows("seq = 2")]
    )
    reader = LanceStore(tmp_path, FINGERPRINT, EMBEDDER.dimensions, reader=True)
    assert [item.window for item in reader.load(KEY).windows] == [window(0)]
    assert store.tables["turns"].count("seq = 3") == 1
    record(store, window(1))
    store.tables["turns"].delete("seq = 3 AND text LIKE 'turn 2%'")
    assert [item.window for item in reader.load(KEY).windows] == [window(0), window(1)]
    with pytest.raises(StoreError, match="cannot be read"):
        LanceStore(tmp_path / "nowhere", FINGERPRINT, EMBEDDER.dimensions, reader=True)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"embedder": "other-1"}, "made with embedder 'hashing-64', not 'other-1'"),
        ({"window_tokens": 512}, "made with window_tokens 1024, not 512"),
        ({"chunk_overlap": 16}, "made with chunk_overlap 32, not 16"),
        ({"schema": 3}, "made with schema 2, not 3"),
    ],
)
def test_a_store_made_differently_is_refused(
    tmp_path: Path, open_store: Opener, change: dict[str, object], text: str
) -> None:
    open_store(tmp_path).close()
    with pytest.raises(StoreError, match=text):
        LanceStore(tmp_path, dataclasses.replace(FINGERPRINT, **change), EMBEDDER.dimensions)  # type: ignore[arg-type]


def test_a_store_in_use_or_not_a_directory_is_refused(tmp_path: Path, open_store: Opener) -> None:
    store = open_store(tmp_path / "store")
    with pytest.raises(StoreError, match="in use by another backscroll process"):
        open_store(tmp_path / "store")
    store.close()
    open_store(tmp_path / "store").close()
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file cannot be opened: it is a file: give a directory"):
        open_store(tmp_path / "file")


def test_a_damaged_store_is_refused_in_one_line(tmp_path: Path, open_store: Opener) -> None:
    open_store(tmp_path).close()
    for manifest in (tmp_path / "meta.lance" / "_versions").iterdir():
        manifest.write_bytes(b"damaged")
    with pytest.raises(StoreError, match=r"^store .* cannot be read: [^\n]+$"):
        open_store(tmp_path)


def test_a_store_is_readable_by_its_owner_alone(tmp_path: Path, open_store: Opener) -> None:
    open_store(tmp_path / "store")
    assert (tmp_path / "store").stat().st_mode & 0o077 == 0


def test_a_directory_stays_occupied_until_the_children_that_hold_it_end(
    tmp_path: Path, open_store: Opener
) -> None:
    lock = occupy(tmp_path)
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[lock.fileno()]) as child:
        lock.close()
        with pytest.raises(StoreError, match="in use by another backscroll process"):
            open_store(tmp_path)
        child.communicate(timeout=30)
    open_store(tmp_path)


def versions(path: Path) -> dict[str, int]:
    database = lancedb.connect(path)
    return {name: database.open_table(name).version for name in _tables(database)}


def _tables(database: lancedb.DBConnection) -> list[str]:
    return sorted(path.name.removesuffix(".lance") for path in Path(database.uri).glob("*.lance"))
