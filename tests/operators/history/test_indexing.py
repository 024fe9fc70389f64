from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.indexing import Indexer
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.messages import NOBODY, ChannelKey, Turn
from backscroll.operators.stream.changes import Change, Changes
from support.building import KEY, HashingEmbedder, turn, window, windows_of

OTHER = ChannelKey("default", "random")
DELETED = Turn(0, "m0", datetime(2026, 3, 2, tzinfo=UTC), NOBODY, "", 0, 0, deleted=True)


class Counting(HashingEmbedder):
    """Records how many texts each call contains."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(len(texts))
        return super().embed_passages(texts)


def test_windows_of_several_channels_are_embedded_in_two_calls_and_equal_those_embedded_alone() -> None:
    embedder = Counting()
    indexer = Indexer(Chunker(12, 4), embedder)
    windows = [
        *windows_of([["the pump leaks", "it is old and loud"], ["lunch"]]),
        window([turn(0, "the other channel has one long turn, long enough for two chunks")], key=OTHER),
        window([DELETED], key=OTHER),
    ]
    alone = indexer.index(windows)
    assert embedder.calls == [2, len(alone[0].chunks), 1, 1, 1, len(alone[2].chunks), 1]
    embedder.calls.clear()
    together = indexer.index_together(windows)
    assert embedder.calls == [5, sum(len(one.chunks) for one in alone)]
    for one, other in zip(alone, together, strict=True):
        assert isinstance(other, RecordedWindow)
        assert (one.window, one.chunks) == (other.window, other.chunks)
        assert one.chunk_vectors is not None
        assert one.turn_vectors is not None
        np.testing.assert_array_equal(one.chunk_vectors, other.chunk_vectors)
        np.testing.assert_array_equal(one.turn_vectors, other.turn_vectors)


def test_changes_keep_their_place_between_windows() -> None:
    first, second = windows_of([["a pump"], ["lunch"]])
    changes = Changes(KEY, (Change("m0", datetime(2026, 3, 2, tzinfo=UTC), "a new pump"),))
    indexed = Indexer(Chunker(), HashingEmbedder()).index_together([first, changes, second])
    assert indexed[1] is changes
    assert [one.window for one in indexed if isinstance(one, RecordedWindow)] == [first, second]


def test_without_an_embedder_there_are_only_chunks() -> None:
    for one in Indexer(Chunker(), None).index_together(windows_of([["a pump"], ["lunch"]])):
        assert isinstance(one, RecordedWindow)
        assert (len(one.chunks), one.chunk_vectors, one.turn_vectors) == (1, None, None)


def test_only_changed_turns_and_the_chunks_of_a_changed_window_are_embedded() -> None:
    embedder = Counting()
    indexer = Indexer(Chunker(), embedder)
    before, after = windows_of([["the pump leaks", "lunch?"]]), windows_of([["the pump is fine", "lunch?"]])
    (was,), (fresh,) = indexer.index(before), indexer.index(after)
    assert was.turn_vectors is not None
    assert fresh.turn_vectors is not None
    embedder.calls.clear()
    again = indexer.index_again(after[0], was.turn_vectors.copy(), [0, 7])
    assert embedder.calls == [1, 1]
    assert (again.window, again.chunks) == (fresh.window, fresh.chunks)
    np.testing.assert_array_equal(again.turn_vectors, fresh.turn_vectors)
    np.testing.assert_array_equal(again.chunk_vectors, fresh.chunk_vectors)


def test_a_window_whose_turns_are_all_deleted_has_no_chunks() -> None:
    (recorded,) = Indexer(Chunker(), HashingEmbedder()).index([window([DELETED])])
    assert recorded.chunks == ()
    assert recorded.chunk_vectors is not None
    assert recorded.chunk_vectors.shape == (0, 64)
