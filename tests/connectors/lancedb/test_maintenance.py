from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from backscroll.connectors.lancedb.maintenance import Maintained, maintain
from backscroll.connectors.lancedb.store import Fingerprint, LanceStore
from backscroll.operators.history.chunks import Chunk, Chunker
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.store import StoredSummary
from backscroll.operators.llm.budget import CachedAnswer
from backscroll.operators.llm.protocol import Usage
from backscroll.operators.messages import Author, ChannelKey, Turn
from backscroll.operators.stream.windows import Window, WindowRef
from support.building import START, HashingEmbedder, recorded, turn

KEY = ChannelKey("acme's", "ops")
EMBEDDER = HashingEmbedder()
CHUNKER = Chunker(128, 32)
FINGERPRINT = Fingerprint("cl100k_base", 1024, 128, 32, "words", EMBEDDER.fingerprint)
AT_ONCE = timedelta(0)
TABLES = 13  # eight, two of vectors, their two of an embedder of before, and the lease


def deleted(seq: int) -> Turn:
    return Turn(seq, f"m{seq}", START, Author("", ""), "", 0, 0, edited=START, deleted=True)


def window(index: int, secret: str = "", gone: Sequence[int] = ()) -> Window:
    """Five turns, the middle one with a secret; some of them may be deleted."""
    first = 5 * index
    texts = [f"turn {seq} {secret if seq == first + 2 else 'wort'}" for seq in range(first, first + 5)]
    turns = [turn(first + place, text) for place, text in enumerate(texts)]
    turns = [deleted(one.seq) if one.seq in gone else one for one in turns]
    return Window(WindowRef(KEY, index, first, first + 4, revision=len(gone)), tuple(turns))


@pytest.fixture
def store(tmp_path: Path) -> LanceStore:
    return LanceStore(tmp_path / "store", FINGERPRINT, EMBEDDER.dimensions, shared=True)


def fill(store: LanceStore, secret: str) -> None:
    """Six windows, a group each; the third with a secret, on which a summary and an answer rest."""
    for index in range(6):
        one = window(index, secret if index == 2 else "")
        store.append([recorded(one, EMBEDDER, CHUNKER)])
    for kind in ("chunk", "turn"):
        rows = store.tables.database.open_table(f"{kind}_vectors_hashing-64").to_arrow()
        store.tables.database.create_table(f"{kind}_vectors_before", data=rows)
    for index in range(6):
        body = f"summary of {secret if index == 5 else index}".encode()
        recalled = (12,) if index == 5 else ()
        store.put_summaries([StoredSummary(KEY, f"s{index}", 5 * index, 5 * index + 4, recalled, 0, body)])
        raw = secret if index == 2 else "{}"
        paid = CachedAnswer(
            KEY, 5 * index, 5 * index + 4, (), "gaps", f"d{index}", "m", DAY, Usage(1, 1), raw
        )
        store.answers.put_answer(paid)


DAY = date(2026, 3, 2)


def delete_secret(store: LanceStore) -> None:
    store.begin_change(KEY, [deleted(12)], [2])
    store.finish_change(recorded(window(2, gone=[12]), EMBEDDER, CHUNKER))


def tables_with(path: Path, secret: str) -> set[str]:
    """The tables with the secret in a file; LanceDB compresses with FSST, which escapes rare bytes."""
    found = set[str]()
    for file in path.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        if secret.encode() in content or secret.encode() in content.replace(b"\xff", b""):
            found.add(file.relative_to(path).parts[0])
    return found


def files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def a_secret() -> str:
    return f"#{uuid4().int}#"


def test_maintenance_merges_fragments_and_changes_no_row(store: LanceStore, tmp_path: Path) -> None:
    fill(store, "told")
    before = store.load(KEY)
    assert len(list((tmp_path / "store" / "turns.lance" / "data").iterdir())) == 6
    assert maintain(store, retention=AT_ONCE, exclusive=True) == Maintained(TABLES, 0)
    assert len(list((tmp_path / "store" / "turns.lance" / "data").iterdir())) == 1
    after = store.load(KEY)
    assert [one.window for one in after.windows] == [one.window for one in before.windows]
    assert [one.chunks for one in after.windows] == [one.chunks for one in before.windows]
    assert after.summary_ids == before.summary_ids == {f"s{index}" for index in range(6)}


@pytest.mark.parametrize("compacted", [False, True])
def test_deleted_text_is_in_no_file_after_maintenance(
    store: LanceStore, tmp_path: Path, compacted: bool
) -> None:
    secret = a_secret()
    fill(store, secret)
    if compacted:
        maintain(store, retention=AT_ONCE, exclusive=True)
    told = {"turns.lance", "chunks.lance", "summaries.lance", "answers.lance"}
    assert tables_with(tmp_path / "store", secret) == told
    delete_secret(store)
    assert tables_with(tmp_path / "store", secret) == told, "deleted rows stay in their files until then"
    assert maintain(store, retention=AT_ONCE, exclusive=True) is not None
    assert tables_with(tmp_path / "store", secret) == set()
    assert [one.window for one in store.load(KEY).windows] == [
        window(index, gone=[12] if index == 2 else []) for index in range(6)
    ]


def test_the_old_text_of_an_edit_is_gone_after_maintenance(store: LanceStore, tmp_path: Path) -> None:
    secret, fresh = a_secret(), a_secret()
    fill(store, secret)
    after = window(2, fresh)
    store.begin_change(KEY, [after.turns[2]], [2])
    store.finish_change(recorded(after, EMBEDDER, CHUNKER))
    maintain(store, retention=AT_ONCE, exclusive=True)
    assert tables_with(tmp_path / "store", secret) == set()
    assert tables_with(tmp_path / "store", fresh) == {"turns.lance", "chunks.lance"}


def some_secrets() -> list[str]:
    """Four secrets without a letter in common.

    Among many texts LanceDB compresses by byte pairs of a sample of them. A secret that got into the
    sample would not be found in the file; that all four do will not happen.
    """
    alphabets = ("0123456789", "QZXJKVWY", "BCDFGHLM", "#$%&*+=@")
    return ["".join(random.choices(alphabet, k=40)) for alphabet in alphabets]


def tables_with_any(path: Path, secrets: Sequence[str]) -> set[str]:
    return set().union(*(tables_with(path, secret) for secret in secrets))


def large(store: LanceStore, secrets: Sequence[str]) -> None:
    """20,000 turns, of which 10,007 and those after it tell secrets, in one fragment of each table."""
    group = list[RecordedWindow]()
    for index in range(80):
        first = 250 * index
        turns = [turn(seq, "wort") for seq in range(first, first + 250)]
        if index == 40:
            for place, secret in enumerate(secrets, start=7):
                turns[place] = turn(first + place, secret)
        closed = Window(WindowRef(KEY, index, first, first + 249), tuple(turns))
        chunks = tuple(
            Chunk(place, place + 1, one.seq, one.seq, one.rendered) for place, one in enumerate(turns)
        )
        group.append(RecordedWindow(closed, chunks, None, None))
    store.append(group)


def test_compaction_alone_keeps_deleted_rows_of_a_large_fragment(tmp_path: Path) -> None:
    """The reason why maintenance rewrites fragments; no longer needed once LanceDB does it."""
    store = LanceStore(tmp_path, FINGERPRINT, None, shared=True)
    secrets = some_secrets()
    large(store, secrets)
    table = store.tables["turns"]
    table.delete("seq >= 10007 AND seq <= 10010")
    table.optimize(AT_ONCE, delete_unverified=False)
    assert table.count("") == 19_996
    assert "turns.lance" in tables_with_any(tmp_path, secrets)
    assert maintain(store, retention=AT_ONCE, exclusive=True) == Maintained(9, 19_996)
    assert "turns.lance" not in tables_with_any(tmp_path, secrets)


@pytest.mark.parametrize("everything", [False, True])
def test_old_text_of_a_changed_window_is_gone_from_a_large_fragment(tmp_path: Path, everything: bool) -> None:
    """If every turn is deleted, there are no new chunks that would make LanceDB compact the old ones."""
    store = LanceStore(tmp_path, FINGERPRINT, None, shared=True)
    secrets = some_secrets()
    large(store, secrets)
    maintain(store, retention=AT_ONCE, exclusive=True)
    data = {name for name in files(tmp_path) if name.startswith(("turns.lance/data", "chunks.lance/data"))}
    assert len(data) == 2
    assert tables_with_any(tmp_path, secrets) == {"turns.lance", "chunks.lance"}
    before = store.load(KEY).windows
    closed = before[40].window
    turns = tuple(
        deleted(one.seq) if everything or 10_007 <= one.seq <= 10_010 else one for one in closed.turns
    )
    store.begin_change(KEY, [one for one in turns if one.deleted], [40])
    chunks = () if everything else before[40].chunks[:1]
    after = RecordedWindow(Window(closed.ref, turns), chunks, None, None)
    store.finish_change(after)
    # Turns and chunks: rows that have an index are not compacted with those that have none yet.
    rewritten = 39_500 if everything else 39_746
    assert maintain(store, retention=AT_ONCE, exclusive=True) == Maintained(9, rewritten)
    assert tables_with_any(tmp_path, secrets) == set()
    assert not data & files(tmp_path)
    assert not [name for name in files(tmp_path) if "_deletions" in name]
    loaded = store.load(KEY).windows
    assert loaded[40] == after
    assert [*loaded[:40], *loaded[41:]] == [*before[:40], *before[41:]]
    assert maintain(store, retention=AT_ONCE, exclusive=True) == Maintained(9, 0), "once is enough"


def test_files_of_older_versions_are_kept_for_the_retention(store: LanceStore, tmp_path: Path) -> None:
    secret = a_secret()
    fill(store, secret)
    delete_secret(store)
    maintain(store, retention=timedelta(hours=1))
    assert tables_with(tmp_path / "store", secret) != set()
    maintain(store, retention=AT_ONCE, exclusive=True)
    assert tables_with(tmp_path / "store", secret) == set()


def test_exclusive_maintenance_deletes_files_of_interrupted_writers(
    store: LanceStore, tmp_path: Path
) -> None:
    """A data file that belongs to no version of its table."""
    secret = a_secret()
    fill(store, secret)
    data = tmp_path / "store" / "turns.lance" / "data"
    (told,) = (file for file in data.iterdir() if secret.encode() in file.read_bytes())
    left = told.with_stem("0" * len(told.stem))
    shutil.copy(told, left)
    delete_secret(store)
    maintain(store, retention=timedelta(minutes=1))
    assert left.exists(), "it may belong to a writer that has not committed yet"
    maintain(store, retention=AT_ONCE, exclusive=True)
    assert tables_with(tmp_path / "store", secret) == set()
    assert len(store.load(KEY).windows) == 6


def test_a_short_retention_with_other_processes_is_refused(store: LanceStore) -> None:
    """Writers that pause in the middle of a commit would lose it."""
    with pytest.raises(
        ValueError, match="retention is 0:00:59: with other processes it must be at least 0:01:00"
    ):
        maintain(store, retention=timedelta(seconds=59))


def nothing() -> None:
    pass


def clock(*actions: Callable[[], object]) -> Callable[[], datetime]:
    """The current time; the n-th look at it does the n-th action."""
    left = list(actions)

    def now() -> datetime:
        if left:
            left.pop(0)()
        return datetime.now(UTC)

    return now


def test_only_one_process_maintains_a_store_at_a_time(store: LanceStore, tmp_path: Path) -> None:
    fill(store, "told")
    other = LanceStore(tmp_path / "store", FINGERPRINT, EMBEDDER.dimensions, shared=True)
    refused = list[object]()

    def second() -> None:
        refused.append(maintain(other))

    assert maintain(store, now=clock(nothing, nothing, second, nothing, second)) == Maintained(TABLES, 0)
    assert refused == [None, None]
    assert maintain(other) == Maintained(TABLES, 0)


def test_an_expired_lease_is_taken_over(store: LanceStore) -> None:
    fill(store, "told")
    maintain(store)
    dead = {"holder": "dead", "expires": datetime.now(UTC) + timedelta(minutes=3)}
    store.tables.database.open_table("lease").update(values=dead)
    assert maintain(store) is None
    later = datetime.now(UTC) + timedelta(minutes=4)
    assert maintain(store, now=lambda: later) == Maintained(TABLES, 0)
    assert maintain(store) == Maintained(TABLES, 0), "it was given back"


def test_a_maintainer_that_lost_its_lease_stops(store: LanceStore) -> None:
    fill(store, "told")
    maintain(store)
    table = store.tables.database.open_table("lease")
    mine = {"holder": "mine", "expires": datetime.now(UTC) + timedelta(minutes=3)}
    looks = [nothing, nothing, nothing, nothing, nothing, lambda: table.update(values=mine)]
    done = maintain(store, now=clock(*looks))
    assert done is not None
    assert done.tables == 2
    assert table.to_arrow()["holder"].to_pylist() == ["mine"]
