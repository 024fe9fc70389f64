"""The summary record, one JSON object per window, and its version.

`docs/summary-record.md` explains every field. Times are ISO 8601 in UTC; token counts are
`cl100k_base`; `timings_ms` are milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import orjson

from backscroll.operators.messages import ChannelKey, format_time
from backscroll.operators.stream.windows import WindowRef

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["Emission", "GapEntry", "MemoryEntry", "Summary", "WindowEntry", "summary_id"]

VERSION = 1


def summary_id(ref: WindowRef, strategy: str) -> str:
    """`namespace/channel:first_seq-last_seq:strategy`; every run over the same input gives the same id."""
    return f"{ref.key}:{ref.first_seq}-{ref.last_seq}:{strategy}"


@dataclass(frozen=True, slots=True)
class Emission:
    """The dataflow's output for a window: a record as JSON, or a tombstone, which has no `body`.

    A tombstone means that every message of the window was deleted.
    """

    key: ChannelKey
    summary_id: str
    revision: int
    body: bytes | None

    @property
    def summary(self) -> Summary | None:
        """The record; None for a tombstone."""
        return None if self.body is None else Summary.from_json(self.body)


@dataclass(frozen=True, slots=True)
class WindowEntry:
    """The window: its ordinal, inclusive turn range, message ids, earliest and latest time, tokens."""

    index: int
    first_seq: int
    last_seq: int
    turns: list[str]
    start: datetime
    end: datetime
    tokens: int


@dataclass(frozen=True, slots=True)
class GapEntry:
    """A gap; `evidence` lists the ids of the memory turns that explain it, the likelier one first."""

    utterance: str
    quote: str
    reason: str
    query: str
    keywords: list[str]
    evidence: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """A turn in memory; `text` is verbatim, and `span` the characters of the message if it was cut."""

    id: str
    seq: int
    author: str
    ts: datetime
    text: str
    span: tuple[int, int] | None
    tokens: int
    gap: int | None
    rank: int
    score: float
    permalink: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """The record that readers get for a window. `final` is false while the window is open."""

    summary_id: str
    revision: int
    final: bool
    namespace: str
    channel: str
    kind: Literal["extractive", "abstractive"]
    strategy: str
    window: WindowEntry
    summary: str
    gaps: list[GapEntry]
    memory: list[MemoryEntry]
    tokens: dict[str, int]
    timings_ms: dict[str, float]
    models: dict[str, str]
    degraded: str | None = None
    unsupported: list[str] = field(default_factory=list)
    version: int = VERSION

    @property
    def key(self) -> ChannelKey:
        """The channel that the window belongs to."""
        return ChannelKey(self.namespace, self.channel)

    def to_json(self) -> bytes:
        """The record as one line of JSON, without the line break."""
        return orjson.dumps(self._fields())

    @classmethod
    def from_json(cls, body: bytes) -> Summary:
        """Parse the output of `to_json`.

        Raises:
            ValueError: the body is not a summary record of this version.
        """
        try:
            fields = orjson.loads(body)
        except orjson.JSONDecodeError as err:
            raise ValueError(f"not a summary record: {err}") from err
        version = fields.get("version") if isinstance(fields, dict) else None
        if version != VERSION:
            msg = f"summary record has version {version}, but this program reads only version {VERSION}"
            raise ValueError(msg)
        return _adapter().validate_python(fields)

    def _fields(self) -> Mapping[str, Any]:
        names = ("summary_id", "revision", "final", "namespace", "channel", "kind", "strategy")
        window = self.window
        return {
            "version": self.version,
            **{name: getattr(self, name) for name in names},
            "window": {
                "index": window.index,
                "first_seq": window.first_seq,
                "last_seq": window.last_seq,
                "turns": window.turns,
                "start": format_time(window.start),
                "end": format_time(window.end),
                "tokens": window.tokens,
            },
            "summary": self.summary,
            "gaps": self.gaps,
            "memory": [_memory_fields(entry) for entry in self.memory],
            "tokens": self.tokens,
            "timings_ms": self.timings_ms,
            "models": self.models,
            "degraded": self.degraded,
            "unsupported": self.unsupported,
        }


def _memory_fields(entry: MemoryEntry) -> dict[str, Any]:
    names = ("id", "seq", "author", "ts", "text", "span", "tokens", "gap", "rank", "score", "permalink")
    fields = {name: getattr(entry, name) for name in names}
    fields["ts"] = format_time(entry.ts)
    if entry.permalink is None:
        del fields["permalink"]
    return fields


@cache
def _adapter() -> TypeAdapter[Summary]:
    from pydantic import TypeAdapter

    return TypeAdapter(Summary)
