"""Paid answers of language models, stored in LanceDB, and their costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from backscroll.connectors.lancedb.schema import StoreError, depending_on, first_line, literal, place, where
from backscroll.connectors.lancedb.tables import SharedTable, connect, is_remote
from backscroll.operators.llm.budget import CachedAnswer
from backscroll.operators.llm.protocol import Usage
from backscroll.operators.messages import ChannelKey

__all__ = ["LanceAnswers", "PaidTokens", "paid_tokens"]


class LanceAnswers:
    """The table `answers` of an open store."""

    def __init__(self, table: SharedTable) -> None:
        self._table = table

    def answer(self, key: ChannelKey, digest: str) -> str | None:
        """The stored raw answer to a prompt, by the prompt's digest, or None."""
        condition = f"{where(key)} AND digest = {literal(digest)} AND raw != ''"
        rows = self._table.rows(condition, ["raw"])
        return rows[0]["raw"] if rows else None

    def put_answer(self, paid: CachedAnswer) -> None:
        """Store an answer and its cost."""
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
        self._table.add([{**place(paid.key), **row}])

    def erase(self, key: ChannelKey, seq: int) -> None:
        """Erase every answer based on a turn, whether in its window or in its memory."""
        self.erase_all(key, [seq])

    def erase_all(self, key: ChannelKey, seqs: Sequence[int]) -> None:
        """Like `erase`, for several turns in one commit. The costs of erased answers are kept."""
        self._table.update(f"{where(key)} AND {depending_on(seqs)} AND raw != ''", {"raw": ""})

    def spent(self, day: date) -> Mapping[ChannelKey, int]:
        """Tokens paid for on a day (UTC), by channel."""
        columns = ["namespace", "channel", "prompt_tokens", "completion_tokens"]
        spent: Counter[ChannelKey] = Counter()
        for row in self._table.rows(f"day = date '{day.isoformat()}'", columns):
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


def paid_tokens(path: Path | str) -> list[PaidTokens]:
    """The costs of a store's answers by day, channel, model and stage.

    Raises:
        StoreError: the store does not exist.
    """
    names = ["day", "namespace", "channel", "model", "stage"]
    tokens = ["prompt_tokens", "completion_tokens"]
    try:
        if not is_remote(path) and not Path(path).is_dir():
            raise StoreError(f"store {path} does not exist")
        rows = SharedTable(connect(path), "answers").read("", [*names, *tokens])
    except (OSError, ValueError, RuntimeError) as err:
        raise StoreError(f"{path} is not a Backscroll store: {first_line(err)}") from err
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
