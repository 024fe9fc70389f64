"""A store in an object store, against a local S3 server."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from backscroll.connectors.lancedb.answers import paid_tokens
from backscroll.connectors.lancedb.maintenance import Maintained, maintain
from backscroll.connectors.lancedb.reindex import reindex
from backscroll.connectors.lancedb.schema import StoreError
from backscroll.connectors.lancedb.store import Fingerprint, LanceStore
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.store import StoredSummary
from backscroll.operators.messages import Author, ChannelKey, Turn
from backscroll.operators.stream.windows import Window, WindowRef
from support.building import START, HashingEmbedder, recorded, turn
from support.object_store import address, endpoint

__all__ = ["address", "endpoint"]

boto3 = pytest.importorskip("boto3", reason="needs boto3, to look into a bucket")

KEY = ChannelKey("acme's", 'ops/night "shift"')
EMBEDDER = HashingEmbedder()
CHUNKER = Chunker(16, 4)
FINGERPRINT = Fingerprint("cl100k_base", 1024, 16, 4, "words", EMBEDDER.fingerprint)


def window(index: int, gone: int | None = None) -> Window:
    first = 3 * index
    turns = [turn(seq, f"turn {seq} {'wort ' * seq}") for seq in range(first, first + 3)]
    if gone is not None:
        turns[gone - first] = deleted(gone)
    return Window(WindowRef(KEY, index, first, first + 2, revision=int(gone is not None)), tuple(turns))


def deleted(seq: int) -> Turn:
    return Turn(seq, f"m{seq}", START, Author("", ""), "", 0, 0, edited=START, deleted=True)


def open_store(address: str) -> LanceStore:
    return LanceStore(address, FINGERPRINT, EMBEDDER.dimensions)


def objects(address: str) -> dict[str, bytes]:
    client = boto3.client("s3")
    prefix = address.removeprefix("s3://backscroll/")
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="backscroll", Prefix=prefix)
    names = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
    found = {name: client.get_object(Bucket="backscroll", Key=name)["Body"].read() for name in names}
    client.close()
    return found


def test_a_history_can_be_kept_in_an_object_store(address: str) -> None:
    """It is recorded, changed and maintained, and another process reads it after each step."""
    store = open_store(address)
    store.append([recorded(window(index), EMBEDDER, CHUNKER) for index in range(2)])
    store.append([recorded(window(2), EMBEDDER, CHUNKER)])
    store.put_summaries(
        [StoredSummary(KEY, "a", 3, 5, (), 0, b"of turn 4"), StoredSummary(KEY, "b", 6, 8, (), 0, b"b")]
    )
    store.put_erased(KEY, ["m99"])
    loaded = open_store(address).load(KEY)
    assert [one.window for one in loaded.windows] == [window(0), window(1), window(2)]
    assert (loaded.summary_ids, loaded.erased_ids) == ({"a", "b"}, {"m99"})
    assert any(b"turn 4" in content for content in objects(address).values())
    store.begin_change(KEY, [deleted(4)], [1])
    assert open_store(address).load(KEY).unfinished == {1}
    after = recorded(window(1, gone=4), EMBEDDER, CHUNKER)
    store.finish_change(after)
    done = maintain(store, retention=timedelta(0), exclusive=True)
    assert done is not None
    assert done.tables == 11
    assert not done.skipped
    kept = objects(address)
    assert not any(b"turn 4" in content for content in kept.values())
    assert not any("_deletions" in name for name in kept)
    loaded = open_store(address).load(KEY)
    assert [one.window for one in loaded.windows] == [window(0), window(1, gone=4), window(2)]
    assert (loaded.summary_ids, loaded.unfinished) == ({"b"}, frozenset())
    assert loaded.windows[1].chunks == after.chunks
    np.testing.assert_array_equal(loaded.windows[1].turn_vectors, after.turn_vectors)
    assert maintain(open_store(address), retention=timedelta(0), exclusive=True) == Maintained(11, 0)
    assert paid_tokens(address) == []


def test_a_store_in_an_object_store_can_be_reindexed(address: str) -> None:
    class Other(HashingEmbedder):
        fingerprint = "other-64"

    store = open_store(address)
    store.append([recorded(window(index), EMBEDDER, CHUNKER) for index in range(2)])
    assert reindex(address, Other(), FINGERPRINT, progress=lambda *_: None) == 2
    with pytest.raises(StoreError, match="was made with embedder 'other-64', not 'hashing-64'"):
        open_store(address)
    with pytest.raises(StoreError, match=r"there is no store at s3://backscroll/nowhere"):
        reindex("s3://backscroll/nowhere", Other(), FINGERPRINT, progress=lambda *_: None)


def test_no_directory_is_created_for_an_object_store(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    open_store(address).close()
    assert list(tmp_path.iterdir()) == []
