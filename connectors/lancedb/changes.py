"""Change recorded turns: delete everything derived from them, replace the turns, then rebuild.

The intent is written first and removed last, so a change that a crash interrupts is noticed when the
channel is loaded. Turns are replaced only after everything derived from their old text is deleted: if the
store has the new turns, nothing of the old ones is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from backscroll.connectors.lancedb.answers import LanceAnswers
from backscroll.connectors.lancedb.schema import (
    depending_on,
    place,
    turn_row,
    vector_positions,
    vector_rows,
    where,
)
from backscroll.connectors.lancedb.tables import SharedTable, Tables
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.messages import ChannelKey, Turn

__all__ = ["begin_change", "chunk_rows", "finish_change"]


def begin_change(
    tables: Tables, answers: LanceAnswers, key: ChannelKey, turns: Sequence[Turn], windows: Sequence[int]
) -> None:
    """Replace recorded turns and delete everything derived from them. Every write is one commit.

    Args:
        tables: the store's tables.
        answers: the store's paid answers.
        key: the channel.
        turns: the new turns.
        windows: indexes of the windows that contain them.
    """
    here, columns = where(key), place(key)
    seqs = sorted({turn.seq for turn in turns})
    if not seqs:
        return
    among = ", ".join(map(str, seqs))
    intents = [{**columns, "window": window} for window in sorted(set(windows))]
    tables["changes"].put(intents)
    tables["summaries"].update(f"{here} AND {depending_on(seqs)} AND body != X''", {"body": b""})
    answers.erase_all(key, seqs)
    tables["chunks"].delete(f"{here} AND window IN ({', '.join(str(row['window']) for row in intents)})")
    ranges = " OR ".join(_chunks_of(int(window)) for window in sorted(set(windows)))
    for table in tables.vectors("chunk"):
        table.delete(f"{here} AND ({ranges})")
    for table in tables.vectors("turn"):
        table.delete(f"{here} AND position IN ({among})")
    rows = {turn.seq: {**columns, **turn_row(turn)} for turn in turns}
    tables["turns"].replace(list(rows.values()))


def finish_change(tables: Tables, recorded: RecordedWindow) -> None:
    """Write the chunks, vectors, tokens and revision of a changed window, then remove the intent."""
    ref, window = recorded.window.ref, recorded.window
    here = where(ref.key)
    this = f"{here} AND window = {ref.index}"
    tables["chunks"].delete(this)
    tables["chunks"].add(chunk_rows(recorded))
    chunks, turns = vector_positions(recorded)
    if tables.chunk_vectors is not None and recorded.chunk_vectors is not None:
        tables.chunk_vectors.delete(f"{here} AND {_chunks_of(ref.index)}")
        _add(tables.chunk_vectors, ref.key, chunks, recorded.chunk_vectors)
    if tables.turn_vectors is not None and recorded.turn_vectors is not None:
        within = f"{here} AND position >= {ref.first_seq} AND position <= {ref.last_seq}"
        there = set(tables.turn_vectors.read(within, ["position"])["position"].to_pylist())
        lacking = [place_ for place_, seq in enumerate(turns) if seq not in there]
        positions = [turns[place_] for place_ in lacking]
        _add(tables.turn_vectors, ref.key, positions, recorded.turn_vectors[lacking])
    values = {"revision": ref.revision, "tokens": window.tokens}
    differing = " OR ".join(f"{name} != {value}" for name, value in values.items())
    tables["windows"].update(f"{this} AND ({differing})", values)
    tables["changes"].delete(this)


def chunk_rows(recorded: RecordedWindow) -> list[dict[str, object]]:
    """A window's chunks as rows of `chunks`."""
    ref = recorded.window.ref
    return [{**place(ref.key), "window": ref.index, **asdict(chunk)} for chunk in recorded.chunks]


def _chunks_of(window: int) -> str:
    """The condition that selects the chunk vectors of a window."""
    return f"(position >= {window << 32} AND position < {(window + 1) << 32})"


def _add(table: SharedTable, key: ChannelKey, positions: Sequence[int], vectors: Vectors) -> None:
    if positions:
        table.add(vector_rows([(key, positions)], [vectors]))
