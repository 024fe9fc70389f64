"""Keeps a summary record well below a Kafka broker's size limit, whatever the messages contain.

A text whose JSON exceeds its limit is cut between two characters and ends in `…`. If the whole record
is still too large, the limit is halved until the record fits. If very many memory entries still make it
too large, the lower-ranked ones are left out. Message ids are never cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

import orjson

from backscroll.operators.summary.record import GapEntry, MemoryEntry, Summary

__all__ = ["MOST_BYTES", "fitted"]

MOST_BYTES = 900_000
"""Most bytes of a record; brokers accept 1,048,576 by default."""
_MARK = "…"
_LONGEST, _SHORTEST = 16_384, 64  # bytes of a text as JSON
_SUMMARY = 4  # the summary's text may be this many times longer
_KEYWORDS, _UNSUPPORTED = 16, 64  # most entries of a gap, of a summary


def fitted(summary: Summary) -> Summary:
    """The record, shortened to at most `MOST_BYTES` of JSON; unchanged if it already fits."""
    limit = _LONGEST
    record = _cut(summary, limit)
    while (too_large := _is_too_large(record)) and limit > _SHORTEST:
        limit //= 2
        record = _cut(summary, limit)
    while too_large and record.memory:
        record = replace(record, memory=_better_half(record.memory))
        too_large = _is_too_large(record)
    return record


def _is_too_large(record: Summary) -> bool:
    return len(record.to_json()) > MOST_BYTES


def _cut(summary: Summary, limit: int) -> Summary:
    return replace(
        summary,
        summary=_text(summary.summary, _SUMMARY * limit),
        gaps=[_gap(gap, limit) for gap in summary.gaps],
        memory=[_memory(entry, limit) for entry in summary.memory],
        unsupported=_texts(summary.unsupported, _UNSUPPORTED, limit),
    )


def _gap(gap: GapEntry, limit: int) -> GapEntry:
    return replace(
        gap,
        quote=_text(gap.quote, limit),
        reason=_text(gap.reason, limit),
        query=_text(gap.query, limit),
        keywords=_texts(gap.keywords, _KEYWORDS, limit),
    )


def _memory(entry: MemoryEntry, limit: int) -> MemoryEntry:
    link = entry.permalink
    return replace(
        entry,
        author=_text(entry.author, limit),
        text=_text(entry.text, limit),
        permalink=None if link is None or _size(link) > limit else link,  # a truncated link is useless
    )


def _texts(texts: Sequence[str], most: int, limit: int) -> list[str]:
    left_out = [_MARK] if len(texts) > most else []
    return [_text(text, limit) for text in texts[: most - len(left_out)]] + left_out


def _text(text: str, limit: int) -> str:
    if len(text) <= limit and _size(text) <= limit:
        return text
    ends = range(min(len(text), limit) + 1)
    room = limit - len(_MARK.encode())
    return text[: bisect_right(ends, room, key=lambda end: _size(text[:end])) - 1] + _MARK


def _size(text: str) -> int:
    """Size of a text as JSON in bytes, without its quotation marks."""
    return len(orjson.dumps(text)) - 2


def _better_half(memory: Sequence[MemoryEntry]) -> list[MemoryEntry]:
    """The better-ranked half, in channel order; of equal ranks, the later entry is kept."""
    ranked = sorted(range(len(memory)), key=lambda place: (memory[place].rank, -place))
    return [memory[place] for place in sorted(ranked[: len(memory) // 2])]
