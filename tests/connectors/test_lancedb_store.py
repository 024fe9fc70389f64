from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import lancedb
import numpy as np
import pytest
from building import HashingEmbedder, turn

from connectors.lancedb_store import Fingerprint, LanceStore
from connectors.lancedb_tables import StoreError
from operators.chunks import Chunker
from operators.history import Histories
from operators.messages import Author, ChannelKey
from operators.windows import Window, WindowRef

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


def record(store: LanceStore, *windows: Window) -> Histories:
    histories = Histories(store, EMBEDDER, Chunker(16, 4))
    for one in windows:
        assert histories.record(one)
    return histories


def test_a_history_comes_back_as_it_was_recorded(tmp_path: Path, open_store: Opener) -> None:
    store = open_store(tmp_path)
    odd = dataclasses.replace(
        turn(6, "last", author="Ben"),
        author=Author("u2", "Ben", bot=True),
        reply_to="m1",
        permalink="x://y",
        late=True,
    )
    last = Window(WindowRef(KEY, 2, 6, 6, revision=0), (odd,))
    written = record(store, window(0), window(1), last)[KEY]
    store.close()
    reopened = open_store(tmp_path)
    loaded = list(reopened.load(KEY))
    assert [item.window for item in loaded] == [window(0), window(1), last]
    read = Histories(reopened, EMBEDDER, Chunker(16, 4))[KEY]
    query = EMBEDDER.embed_queries(["turn 4 wort"])
    for before in (0, 3, 6, 7):
        ours, theirs = read.as_of(before), written.as_of(before)
        assert ours.chunks == theirs.chunks
        np.testing.assert_array_equal(ours.sparse("turn wort 4"), theirs.sparse("turn wort 4"))
        np.testing.assert_array_equal(ours.dense(query), theirs.dense(query))
        seqs = list(range(before))
        np.testing.assert_array_equal(ours.turn_vectors(seqs), theirs.turn_vectors(seqs))
        assert [ours.chunk_turns(i) for i in range(ours.chunks)] == [
            theirs.chunk_turns(i) for i in range(theirs.chunks)
        ]


def test_channels_do_not_see_each_other(tmp_path: Path, open_store: Opener) -> None:
    other = ChannelKey("acme's", "ops")
    store = open_store(tmp_path)
    histories = record(store, window(0), window(0, other), window(1, other))
    histories.put_summary(KEY, "a", b"1")
    assert [item.window.ref.key for item in store.load(other)] == [other, other]
    assert store.summary_ids(KEY) == {"a"}
    assert store.summary_ids(other) == set()


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
    for name in kept:
        column = {"turns": "seq", "chunks": "window", "windows": "window"}.get(name, "position")
        beyond = {"chunks": 1, "windows": 1, f"chunk_vectors_{EMBEDDER.fingerprint}": 1 << 32}.get(name, 3)
        if name not in ("meta", "summaries", "answers"):
            database.open_table(name).delete(f"{column} >= {beyond}")
    store = open_store(tmp_path)
    assert [item.window for item in store.load(KEY)] == [window(0)]
    for name, rows in (("turns", 3), ("windows", 1), (f"turn_vectors_{EMBEDDER.fingerprint}", 3)):
        assert database.open_table(name).count_rows() == rows
    histories = record(store, window(1))
    assert [item.window for item in store.load(KEY)] == [window(0), window(1)]
    assert histories[KEY].recorded_until == 6


def test_committed_rows_that_are_missing_are_reported(tmp_path: Path, open_store: Opener) -> None:
    store = open_store(tmp_path)
    record(store, window(0), window(1))
    lancedb.connect(tmp_path).open_table("turns").delete("seq = 1")
    store.close()
    with pytest.raises(StoreError, match=r"rows of acme.* are missing: restore it from a backup"):
        list(open_store(tmp_path).load(KEY))


def test_summaries_come_back_byte_for_byte(tmp_path: Path, open_store: Opener) -> None:
    store = open_store(tmp_path)
    body = '{"text": "ünï \U0001f6a2"}'.encode()
    store.put_summary(KEY, "acme%27s/x:0-2:remember", body)
    store.close()
    store = open_store(tmp_path)
    assert store.summary("acme%27s/x:0-2:remember") == body
    with pytest.raises(StoreError, match="there is no summary nope"):
        store.summary("nope")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"embedder": "other-1"}, "made with embedder 'hashing-64', not 'other-1'"),
        ({"window_tokens": 512}, "made with window_tokens 1024, not 512"),
        ({"chunk_overlap": 16}, "made with chunk_overlap 32, not 16"),
        ({"schema": 2}, "made with schema 1, not 2"),
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
    with pytest.raises(StoreError, match="file cannot be opened: File exists"):
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


def _tables(database: lancedb.DBConnection) -> list[str]:
    return sorted(path.name.removesuffix(".lance") for path in Path(database.uri).glob("*.lance"))
