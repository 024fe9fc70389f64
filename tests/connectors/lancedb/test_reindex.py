from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import lancedb
import numpy as np
import pytest

from backscroll.connectors.lancedb.reindex import reindex
from backscroll.connectors.lancedb.schema import StoreError
from backscroll.connectors.lancedb.store import Fingerprint, LanceStore
from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.messages import Author, ChannelKey, Turn
from backscroll.operators.stream.windows import Window, WindowRef
from support.building import START, HashingEmbedder, cosines, turn
from support.building import recorded as computed


class SmallEmbedder(HashingEmbedder):
    """Another embedder, with 32 dimensions, that records its batches."""

    name = "small"
    fingerprint = "small-32"
    dimensions = 32

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.batches.append(list(texts))
        return super().embed_passages(texts)


OLD = HashingEmbedder()
BEFORE = Fingerprint("cl100k_base", 1024, 16, 4, "words", OLD.fingerprint)
AFTER = replace(BEFORE, embedder=SmallEmbedder.fingerprint)
GENERAL, OPS, QUIET = ChannelKey("acme's", "general"), ChannelKey("acme's", "ops"), ChannelKey("b", "quiet")
WINDOWS = {GENERAL: 3, OPS: 40, QUIET: 1}  # 40 windows are more than one append
TOTAL = 44


class _Remembering(HashingEmbedder):
    """The old embedder, recording its batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.batches.append(list(texts))
        return super().embed_passages(texts)


class StoppedError(Exception):
    """Interrupts a run."""


def window(key: ChannelKey, index: int) -> Window:
    first = 2 * index
    texts = [f"turn {seq} of {key.channel} 'quoted' {'wort ' * (seq % 9)}" for seq in (first, first + 1)]
    turns = tuple(turn(first + place, text) for place, text in enumerate(texts))
    return Window(WindowRef(key, index, first, first + 1), turns)


def record(path: Path, embedder: HashingEmbedder | None, fingerprint: Fingerprint) -> None:
    store = LanceStore(path, fingerprint, embedder.dimensions if embedder else None)
    for key, count in WINDOWS.items():
        store.append([computed(window(key, index), embedder, Chunker(16, 4)) for index in range(count)])
    store.close()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "store"
    record(path, OLD, BEFORE)
    return path


@pytest.fixture
def path(recorded: Path, tmp_path: Path) -> Path:
    """A store with three channels, created with the old embedder."""
    copy = tmp_path / "store"
    shutil.copytree(recorded, copy)
    return copy


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the same windows, created with the new embedder from the start."""
    path = tmp_path_factory.mktemp("fresh") / "store"
    record(path, SmallEmbedder(), AFTER)
    return path


def indexed(store: LanceStore, key: ChannelKey, embedder: HashingEmbedder) -> ChannelHistory:
    history = ChannelHistory(key, embedder.dimensions)
    for one in store.load(key).windows:
        history.append(one)
    return history


def assert_same_history(path: Path, other: Path, fingerprint: Fingerprint, embedder: HashingEmbedder) -> None:
    ours, theirs = (LanceStore(place, fingerprint, embedder.dimensions) for place in (path, other))
    one, two = ({key: indexed(store, key, embedder) for key in WINDOWS} for store in (ours, theirs))
    query = embedder.embed_queries(["turn 3 wort", "quoted ops"])
    for key, count in WINDOWS.items():
        seqs = list(range(2 * count))
        assert one[key].windows == two[key].windows
        for before in (0, 2, 2 * count):
            np.testing.assert_array_equal(
                cosines(one[key].as_of(before), query), cosines(two[key].as_of(before), query)
            )
        np.testing.assert_array_equal(
            one[key].as_of(2 * count).turn_vectors(seqs), two[key].as_of(2 * count).turn_vectors(seqs)
        )
    assert one[OPS].as_of(80).chunks > 40
    ours.close()
    theirs.close()


def test_a_reindexed_store_equals_one_created_with_the_new_embedder(path: Path, fresh: Path) -> None:
    calls = list[tuple[int, int]]()
    windows = reindex(path, SmallEmbedder(), AFTER, progress=lambda done, total: calls.append((done, total)))
    assert windows == TOTAL
    assert calls[-1] == (TOTAL, TOTAL)
    assert sorted(set(calls)) == [(done, TOTAL) for done in range(TOTAL + 1)]
    assert_same_history(path, fresh, AFTER, SmallEmbedder())


def test_windows_are_embedded_in_the_same_batches_as_when_recorded(path: Path, tmp_path: Path) -> None:
    ours, theirs = SmallEmbedder(), SmallEmbedder()
    reindex(path, ours, AFTER, progress=_silent)
    record(tmp_path / "fresh", theirs, AFTER)
    assert ours.batches == theirs.batches


def test_the_error_for_another_embedder_names_the_reindex_command(path: Path) -> None:
    text = f"use that embedding model, or run: backscroll reindex --store {path}"
    with pytest.raises(StoreError) as caught:
        LanceStore(path, AFTER, 32)
    assert str(caught.value).endswith(f"was made with embedder 'hashing-64', not 'small-32': {text}")
    reindex(path, SmallEmbedder(), AFTER, progress=_silent)
    LanceStore(path, AFTER, 32).close()
    with pytest.raises(StoreError, match="was made with embedder 'small-32', not 'hashing-64'"):
        LanceStore(path, BEFORE, 64)


def test_the_reindex_command_is_not_suggested_if_it_would_not_help(path: Path) -> None:
    with pytest.raises(StoreError, match="made with window_tokens 1024, not 512: use that setting"):
        LanceStore(path, replace(AFTER, window_tokens=512), 32)
    with pytest.raises(StoreError, match="made with schema 2, not 3: use that setting"):
        LanceStore(path, replace(AFTER, schema=3), 32)
    with pytest.raises(StoreError, match="made with embedder 'hashing-64', not None: use that setting"):
        LanceStore(path, replace(BEFORE, embedder=None), None)


def test_the_suggested_command_quotes_a_path_with_spaces(tmp_path: Path) -> None:
    LanceStore(tmp_path / "my store", BEFORE, 64).close()
    with pytest.raises(StoreError, match=r"reindex --store '/.*/my store'$"):
        LanceStore(tmp_path / "my store", AFTER, 32)


@pytest.mark.parametrize("after", [1, 3, 20, 43, 44])
def test_an_interrupted_run_keeps_the_old_vectors_and_resumes_without_embedding_twice(
    path: Path, recorded: Path, fresh: Path, after: int
) -> None:
    """Stopped in the first channel, at its end, within the second, before the last, and before the switch."""

    def stop(done: int, _: int) -> None:
        if done == after:
            raise StoppedError

    first, second = SmallEmbedder(), SmallEmbedder()
    with pytest.raises(StoppedError):
        reindex(path, first, AFTER, progress=stop)
    assert_same_history(path, recorded, BEFORE, OLD)
    assert reindex(path, second, AFTER, progress=_silent) == TOTAL
    assert len(first.batches) == 2 * after, "two batches a window"
    batches = first.batches + second.batches
    for key, count in WINDOWS.items():
        for index in range(count):
            rendered = [one.rendered for one in window(key, index).turns]
            assert batches.count(rendered) == 1
    assert len(batches) == 2 * TOTAL
    assert_same_history(path, fresh, AFTER, SmallEmbedder())


@pytest.mark.parametrize("kind", ["chunk", "turn"])
def test_a_window_with_only_some_of_its_vectors_is_embedded_again(path: Path, fresh: Path, kind: str) -> None:
    """As left by a crash between the appends of chunk and turn vectors, or worse."""
    reindex(path, SmallEmbedder(), AFTER, progress=_silent)
    place = "namespace = 'acme''s' AND channel = 'ops'"
    beyond = {"chunk": 30 << 32, "turn": 60}[kind]
    table = lancedb.connect(path).open_table(f"{kind}_vectors_small-32")
    table.delete(f"{place} AND position > {beyond}")
    again = SmallEmbedder()
    assert reindex(path, again, AFTER, progress=_silent) == TOTAL
    first = 30 if kind == "turn" or len(Chunker(16, 4).chunk(window(OPS, 30).turns)) > 1 else 31
    assert len(again.batches) == 2 * (40 - first)
    assert_same_history(path, fresh, AFTER, SmallEmbedder())


def test_if_the_embedder_fails_the_old_vectors_stay_in_use_and_the_new_ones_are_kept(
    path: Path, recorded: Path
) -> None:
    class Failing(SmallEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            if len(self.batches) == 21:
                raise StoppedError
            return super().embed_passages(texts)

    with pytest.raises(StoppedError):
        reindex(path, Failing(), AFTER, progress=_silent)
    assert_same_history(path, recorded, BEFORE, OLD)
    second = SmallEmbedder()
    reindex(path, second, AFTER, progress=_silent)
    assert len(second.batches) == 2 * (TOTAL - 10)


def test_windows_recorded_between_two_runs_are_embedded_by_the_second(path: Path) -> None:
    reindex(path, SmallEmbedder(), AFTER, progress=_silent)
    reindex(path, OLD, BEFORE, progress=_silent)
    store = LanceStore(path, BEFORE, 64)
    store.append([computed(window(QUIET, 1), OLD, Chunker(16, 4))])
    store.close()
    embedder = SmallEmbedder()
    assert reindex(path, embedder, AFTER, progress=_silent) == TOTAL + 1
    assert embedder.batches[-1] == [one.rendered for one in window(QUIET, 1).turns]
    assert len(embedder.batches) == 2
    store = LanceStore(path, AFTER, 32)
    assert len(store.load(QUIET).windows) == 2
    store.close()


def deleted(seq: int) -> Turn:
    return Turn(seq, f"m{seq}", START, Author("", ""), "", 0, 0, edited=START, deleted=True)


def delete(store: LanceStore, key: ChannelKey, index: int, *seqs: int) -> RecordedWindow:
    """Start deleting turns of a window; returns the window needed to finish."""
    turns = tuple(deleted(one.seq) if one.seq in seqs else one for one in window(key, index).turns)
    store.begin_change(key, [one for one in turns if one.deleted], [index])
    closed = Window(replace(window(key, index).ref, revision=1), turns)
    if closed.live.turns:
        return computed(closed, SmallEmbedder(), Chunker(16, 4))
    vectors = SmallEmbedder().embed_passages([one.rendered for one in turns])
    return RecordedWindow(closed, (), np.zeros((0, 32), np.float32), vectors)


def test_windows_changed_under_another_embedder_are_embedded_when_switching_back(path: Path) -> None:
    reindex(path, SmallEmbedder(), AFTER, progress=_silent)
    store = LanceStore(path, AFTER, 32)
    finished = {index: delete(store, OPS, index, *seqs) for index, seqs in ((5, [11]), (7, [14, 15]))}
    for one in finished.values():
        store.finish_change(one)
    store.close()
    remembering = _Remembering()
    assert reindex(path, remembering, BEFORE, progress=_silent) == TOTAL
    batches = [[chunk.text for chunk in finished[5].chunks]]
    batches += [[one.rendered for one in finished[index].window.turns] for index in (5, 7)]
    assert sorted(remembering.batches) == sorted(batches), "no chunks where every turn is deleted"
    store = LanceStore(path, BEFORE, 64)
    loaded = store.load(OPS).windows
    for index, one in finished.items():
        assert (loaded[index].window, loaded[index].chunks) == (one.window, one.chunks)
        np.testing.assert_array_equal(
            loaded[index].turn_vectors, OLD.embed_passages([each.rendered for each in one.window.turns])
        )
    np.testing.assert_array_equal(
        loaded[5].chunk_vectors, OLD.embed_passages([chunk.text for chunk in finished[5].chunks])
    )
    assert [one.window for one in loaded if one.window.ref.index not in finished] == [
        window(OPS, index) for index in range(40) if index not in finished
    ]
    store.close()


def test_a_window_with_an_unfinished_change_is_left_to_the_engine(path: Path) -> None:
    store = LanceStore(path, BEFORE, 64)
    finished = delete(store, OPS, 5, 11)
    store.close()
    embedder = SmallEmbedder()
    assert reindex(path, embedder, AFTER, progress=_silent) == TOTAL
    assert len(embedder.batches) == 2 * (TOTAL - 1)
    store = LanceStore(path, AFTER, 32)
    assert store.load(OPS).unfinished == {5}
    store.finish_change(finished)
    loaded = store.load(OPS)
    assert loaded.unfinished == frozenset()
    np.testing.assert_array_equal(loaded.windows[5].turn_vectors, finished.turn_vectors)
    store.close()


def test_rows_without_a_committed_window_get_no_vectors(path: Path) -> None:
    lancedb.connect(path).open_table("windows").delete("channel = 'quiet'")
    lancedb.connect(path).open_table("windows").delete("channel = 'ops' AND window = 39")
    embedder = SmallEmbedder()
    assert reindex(path, embedder, AFTER, progress=_silent) == 42
    assert len(embedder.batches) == 84
    store = LanceStore(path, AFTER, 32)
    assert len(store.load(OPS).windows) == 39
    assert list(store.load(QUIET).windows) == []
    store.close()


def test_the_old_vectors_are_kept_unless_dropped(path: Path, fresh: Path) -> None:
    assert reindex(path, SmallEmbedder(), AFTER, progress=_silent) == TOTAL
    both = {f"{kind}_vectors_{name}" for kind in ("chunk", "turn") for name in ("hashing-64", "small-32")}
    assert _vector_tables(path) == both
    again = SmallEmbedder()
    assert reindex(path, again, AFTER, progress=_silent, drop=True) == TOTAL
    assert again.batches == []
    assert _vector_tables(path) == {"chunk_vectors_small-32", "turn_vectors_small-32"}
    assert_same_history(path, fresh, AFTER, SmallEmbedder())


def test_a_history_without_vectors_can_be_indexed(tmp_path: Path, fresh: Path) -> None:
    record(tmp_path / "store", None, replace(BEFORE, embedder=None))
    assert reindex(tmp_path / "store", SmallEmbedder(), AFTER, progress=_silent) == TOTAL
    assert_same_history(tmp_path / "store", fresh, AFTER, SmallEmbedder())


def test_a_store_that_differs_in_more_than_the_embedder_is_refused(path: Path) -> None:
    text = "made with chunk_tokens 16, not 128: reindex changes only the embedding model"
    with pytest.raises(StoreError, match=text):
        reindex(path, SmallEmbedder(), replace(AFTER, chunk_tokens=128), progress=_silent)
    assert _vector_tables(path) == {"chunk_vectors_hashing-64", "turn_vectors_hashing-64"}


def test_a_missing_store_or_one_in_use_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"there is no store at {tmp_path}/none: give the directory"):
        reindex(tmp_path / "none", SmallEmbedder(), AFTER, progress=_silent)
    assert not (tmp_path / "none").exists()
    store = LanceStore(path, BEFORE, 64)
    with pytest.raises(StoreError, match="in use by another backscroll process"):
        reindex(path, SmallEmbedder(), AFTER, progress=_silent)
    store.close()


def test_missing_rows_are_reported_and_the_store_is_not_switched(path: Path) -> None:
    lancedb.connect(path).open_table("turns").delete("seq = 3 AND channel = 'ops'")
    with pytest.raises(StoreError, match=r"rows of acme.*/ops are missing: restore it from a backup"):
        reindex(path, SmallEmbedder(), AFTER, progress=_silent)
    LanceStore(path, BEFORE, 64).close()


def _silent(done: int, total: int) -> None:
    assert 0 <= done <= total


def _vector_tables(path: Path) -> set[str]:
    return {table.stem for table in path.glob("*_vectors_*.lance")}
