"""Paid answers of language models in a LanceDB store, and what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa

from connectors.lancedb_tables import SCHEMAS, StoreError, first_line, literal, place, where
from operators.llm import Usage
from operators.messages import ChannelKey
from operators.paid import PaidAnswer

__all__ = ["LanceAnswers", "PaidTokens", "paid_tokens"]


class LanceAnswers:
    """The table `answers` of an open store."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def answer(self, key: ChannelKey, digest: str) -> str | None:
        """The raw usable answer to a question, by its digest."""
        query = self._table.search()
        query = query.where(f"{where(key)} AND digest = {literal(digest)} AND raw != ''")
        rows = query.select(["raw"]).limit(1).to_list()
        return rows[0]["raw"] if rows else None

    def put_answer(self, paid: PaidAnswer) -> None:
        """Keep an answer and what it cost."""
        row = {
            "first_seq": paid.first_seq,
            "last_seq": paid.last_seq,
            "recalled": paid.recalled,
            "stage": paid.stage,
            "digest": paid.digest,
            "model": paid.model,
            "day": paid.day,
            "prompt_tokens": paid.usage.prompt,
            "completion_tokens": paid.usage.completion,
            "raw": paid.raw,
        }
        self._table.add(pa.Table.from_pylist([{**place(paid.key), **row}], schema=SCHEMAS["answers"]))

    def erase(self, key: ChannelKey, seq: int) -> None:
        """Forget every answer that rests on a turn of the window or of the memory."""
        about = f"first_seq <= {int(seq)} AND last_seq >= {int(seq)}"
        self._table.delete(f"{where(key)} AND (({about}) OR array_has(recalled, {int(seq)}))")

    def spent(self, day: date) -> Mapping[ChannelKey, int]:
        """Tokens paid for on a day (UTC), by channel."""
        columns = ["namespace", "channel", "prompt_tokens", "completion_tokens"]
        query = self._table.search().where(f"day = date '{day.isoformat()}'")
        spent: Counter[ChannelKey] = Counter()
        for row in query.select(columns).limit(None).to_list():
            key = ChannelKey(row["namespace"], row["channel"])
            spent[key] += row["prompt_tokens"] + row["completion_tokens"]
        return spent


@dataclass(frozen=True, slots=True)
class PaidTokens:
    """Calls and tokens of one model in one stage for one channel on one day (UTC)."""

    day: date
    key: ChannelKey
    model: str
    stage: str
    calls: int
    usage: Usage


def paid_tokens(path: Path) -> list[PaidTokens]:
    """What the answers of a store cost, by day, channel, model and stage.

    Raises:
        StoreError: the directory is not a store.
    """
    names = ["day", "namespace", "channel", "model", "stage"]
    tokens = ["prompt_tokens", "completion_tokens"]
    try:
        table = lancedb.connect(str(path)).open_table("answers") if path.is_dir() else None
        if table is None:
            raise StoreError(f"store {path} does not exist")
        rows = table.search().select([*names, *tokens]).limit(None).to_arrow()
    except (OSError, ValueError, RuntimeError) as err:
        if isinstance(err, StoreError):
            raise
        raise StoreError(f"{path} holds no Backscroll history: {first_line(err)}") from err
    sums = [(name, "sum") for name in tokens]
    grouped = rows.group_by(names).aggregate([([], "count_all"), *sums]).to_pylist()
    return sorted(
        (
            PaidTokens(
                row["day"],
                ChannelKey(row["namespace"], row["channel"]),
                row["model"],
                row["stage"],
                row["count_all"],
                Usage(row["prompt_tokens_sum"], row["completion_tokens_sum"]),
            )
            for row in grouped
        ),
        key=lambda row: (row.day, row.key, row.stage, row.model),
    )
