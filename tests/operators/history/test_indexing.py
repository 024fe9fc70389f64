from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from backscroll.operators.history.channel import RecordedWindow
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.history.indexing import prepare
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.messages import ChannelKey
from backscroll.operators.stream.changes import Change, Changes
from support.building import KEY, HashingEmbedder, turn, window, windows_of

OTHER = ChannelKey("default", "random")


class Counting(HashingEmbedder):
    """Notes how many texts each call holds."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(len(texts))
        return super().embed_passages(texts)


def test_windows_of_several_channels_are_embedded_by_two_calls_and_get_what_each_would_get_alone() -> None:
    embedder = Counting()
    histories = Histories(InMemoryStore(), embedder, Chunker(12, 4))
    tombstone = turn(0, "")
    windows = [
        *windows_of([["the pump leaks", "it is old and loud"], ["lunch"]]),
        window([turn(0, "the other channel has one long turn, long enough for two chunks")], key=OTHER),
        window([tombstone], key=OTHER),
    ]
    alone = [histories.prepare(one) for one in windows]
    embedder.calls.clear()
    together = prepare(histories, windows)
    assert embedder.calls == [5, sum(len(one.chunks) for one in alone)]
    for one, other in zip(alone, together, strict=True):
        assert isinstance(other, RecordedWindow)
        assert (one.window, one.chunks) == (other.window, other.chunks)
        assert one.chunk_vectors is not None
        assert one.turn_vectors is not None
        np.testing.assert_array_equal(one.chunk_vectors, other.chunk_vectors)
        np.testing.assert_array_equal(one.turn_vectors, other.turn_vectors)


def test_changes_keep_their_places_between_windows() -> None:
    histories = Histories(InMemoryStore(), HashingEmbedder(), Chunker())
    first, second = windows_of([["a pump"], ["lunch"]])
    changes = Changes(KEY, (Change("m0", datetime(2026, 3, 2, tzinfo=UTC), "a new pump"),))
    prepared = prepare(histories, [first, changes, second])
    assert prepared[1] is changes
    assert [one.window for one in prepared if isinstance(one, RecordedWindow)] == [first, second]


def test_without_an_embedder_there_are_chunks_alone() -> None:
    histories = Histories(InMemoryStore(), None, Chunker())
    for one in prepare(histories, windows_of([["a pump"], ["lunch"]])):
        assert isinstance(one, RecordedWindow)
        assert (len(one.chunks), one.chunk_vectors, one.turn_vectors) == (1, None, None)
