from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from backscroll.connectors.lancedb.maintenance import maintain
from backscroll.connectors.lancedb.store import Fingerprint, LanceStore
from backscroll.operators.history.channel import AsOf, ChannelHistory
from backscroll.operators.history.chunks import Chunk, Chunker
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.store import HistoryError
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.messages import ChannelKey
from backscroll.operators.stream.windows import Window, WindowRef
from support.building import HashingEmbedder, turn

OPS, SALES = ChannelKey("acme", "ops"), ChannelKey("acme", "sales")
EMBEDDER = HashingEmbedder()
FINGERPRINT = Fingerprint("cl100k_base", 1024, 128, 32, "words", EMBEDDER.fingerprint)
BEYOND, WINDOWS, CHUNKS = 1000, 200, 12
RANDOM = np.random.default_rng(0)


def vectors(number: int) -> Vectors:
    made = RANDOM.standard_normal((number, EMBEDDER.dimensions)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def window(key: ChannelKey, index: int, chunks: int = CHUNKS) -> RecordedWindow:
    """A window with one turn and chunks with random vectors."""
    cut = tuple(Chunk(96 * n, 96 * n + 128, index, index, f"part {n} of {index}") for n in range(chunks))
    ref = WindowRef(key, index, index, index)
    return RecordedWindow(Window(ref, (turn(index, f"turn {index}"),)), cut, vectors(chunks), vectors(1))


def open_store(path: Path, *, exact_chunks: int | None = BEYOND) -> LanceStore:
    return LanceStore(path, FINGERPRINT, EMBEDDER.dimensions, shared=True, exact_chunks=exact_chunks)


def exact(windows: list[RecordedWindow]) -> ChannelHistory:
    history = ChannelHistory(OPS, EMBEDDER.dimensions)
    history.extend(windows)
    return history


def recall(found: AsOf, truth: AsOf, queries: Vectors) -> float:
    """The share of the 30 nearest chunks that was found."""
    pairs = zip(found.nearest(queries, 30), truth.nearest(queries, 30), strict=True)
    return float(np.mean([len(dict(ours).keys() & dict(theirs).keys()) / 30 for ours, theirs in pairs]))


def test_a_long_channel_is_searched_with_the_index_of_the_store_as_of_any_window(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    windows = [window(OPS, index) for index in range(WINDOWS)]
    store.append([one for index, ours in enumerate(windows) for one in (ours, window(SALES, index))])
    maintain(store)
    histories = Histories(store, EMBEDDER, Chunker(), search=store.search)
    later = [window(OPS, index) for index in range(WINDOWS, WINDOWS + 3)]  # of which the index knows nothing
    histories.commit(later)
    kept, truth = histories[OPS], exact([*windows, *later])
    queries = np.concatenate([vectors(10), *(one.chunk_vectors[:1] for one in later)])

    assert store.tables.chunk_vectors is not None
    assert store.tables.chunk_vectors.indexed().keys() == {"namespace", "position", "vector"}
    for before in (WINDOWS + 3, WINDOWS // 2, 3):
        ours, theirs = kept.as_of(before), truth.as_of(before)
        assert recall(ours, theirs, queries) >= 0.98
        for row, of_query in enumerate(ours.nearest(queries, 30)):
            scores = theirs.chunk_vectors @ queries[row]
            assert of_query.scores == pytest.approx(
                [scores[position] for position in of_query.positions], abs=1e-5
            )
            assert list(of_query) == sorted(of_query, key=lambda pair: (-pair[1], pair[0]))
    assert [best.positions[0] for best in kept.as_of(WINDOWS + 3).nearest(queries[-3:], 30)] == [
        CHUNKS * index for index in range(WINDOWS, WINDOWS + 3)
    ]
    with pytest.raises(HistoryError, match=r": chunk vectors are not kept in memory$"):
        _ = kept.as_of(3).chunk_vectors


def test_a_changed_window_is_found_only_by_its_new_vectors(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    windows = [window(OPS, index) for index in range(WINDOWS)]
    store.append(windows)
    maintain(store)
    before, after = windows[5], window(OPS, 5, chunks=3)
    after = replace(after, window=replace(after.window, ref=replace(after.window.ref, revision=1)))
    store.begin_change(OPS, after.window.turns, [5])
    store.finish_change(after)
    past = Histories(store, EMBEDDER, Chunker(), search=store.search)[OPS].as_of(WINDOWS)

    assert after.chunk_vectors is not None
    assert before.chunk_vectors is not None
    assert past.chunks == CHUNKS * (WINDOWS - 1) + 3
    found = past.nearest(after.chunk_vectors, 1)
    assert [best.positions for best in found] == [(5 * CHUNKS + n,) for n in range(3)]
    assert all(best.scores[0] < 0.9 for best in past.nearest(before.chunk_vectors, 1))


def test_a_channel_that_grows_long_frees_its_vectors_and_is_loaded_without_them(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    histories = Histories(store, EMBEDDER, Chunker(), search=store.search)
    fits = BEYOND // CHUNKS
    histories.commit([window(OPS, index) for index in range(fits)])
    assert histories[OPS].sizes()["chunk_vectors"] > BEYOND * EMBEDDER.dimensions
    histories.commit([window(OPS, fits)])
    assert histories[OPS].sizes()["chunk_vectors"] == 0
    assert store.load(OPS).windows.chunk_vectors is None  # type: ignore[attr-defined]
    assert open_store(tmp_path / "store", exact_chunks=None).load(OPS).windows[fits].chunk_vectors is not None


def test_the_vector_index_is_rebuilt_after_a_day(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    table = store.tables.chunk_vectors
    assert table is not None
    store.append([window(OPS, index) for index in range(BEYOND // CHUNKS)])
    maintain(store)
    assert "vector" not in table.indexed()
    store.append([window(OPS, index) for index in range(BEYOND // CHUNKS, BEYOND // CHUNKS + 1)])
    maintain(store)
    made = table.indexed()["vector"]
    maintain(store)
    assert table.indexed()["vector"] == made
    maintain(store, now=lambda: datetime.now(UTC) + timedelta(days=1, seconds=1))
    assert table.indexed()["vector"] > made


def test_a_large_table_is_indexed_by_channel_and_reads_the_same_rows(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    store.append([window(key, index) for index in range(450) for key in (OPS, SALES)])
    store.append([window(ChannelKey("other", "ops"), index) for index in range(3)])
    before = store.load(OPS)
    maintain(store)
    assert "channel" in store.tables["chunks"].indexed()
    assert not store.tables["turns"].indexed()
    after = open_store(tmp_path / "store").load(OPS)
    assert len(after.windows) == 450
    assert [one.window for one in after.windows] == [one.window for one in before.windows]
