"""Gaps that a detector found earlier, read from a file, for reproducible runs.

One JSON object per line: `{"dialogue", "window", "gaps": [{"utterance_index", "quote", "gap_reason",
"evidence_need_query", "keywords"}]}`; `dialogue` is the channel, `window` its ordinal from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from backscroll.connectors.files.base.format import FormatError, StrPath, file_name, open_file
from backscroll.operators.gaps.gap import Gap
from backscroll.operators.stream.windows import Window

__all__ = ["RecordedDetector"]

_LAYOUT = (
    'expected {"dialogue", "window", "gaps": [{"utterance_index", "quote", "gap_reason", '
    '"evidence_need_query", "keywords"}]}'
)


@dataclass(frozen=True, slots=True)
class _RecordedGap:
    utterance_index: int
    quote: str
    reason: str
    query: str
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordedDetector:
    """A detector that looks up a window's gaps by channel and ordinal. Windows not in the file have none."""

    gaps: Mapping[tuple[str, int], tuple[_RecordedGap, ...]]
    name: str = field(default="recorded", init=False)

    @classmethod
    def read(cls, path: StrPath) -> RecordedDetector:
        """Read a file of recorded gaps.

        Raises:
            FormatError: the file cannot be read, or one of its lines has another layout.
        """
        gaps = {}
        with open_file(path) as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    row = orjson.loads(line)
                    gaps[str(row["dialogue"]), int(row["window"])] = tuple(map(_gap, row["gaps"]))
                except (ValueError, KeyError, TypeError) as err:
                    msg = f"{file_name(path)}:{number}: not a recorded gap: {_LAYOUT}"
                    raise FormatError(msg) from err
        return cls(gaps)

    def detect(self, window: Window, *, max_gaps: int) -> tuple[Gap, ...]:
        """The window's recorded gaps; a gap whose quote and index are both not in the window is dropped."""
        found = []
        for recorded in self.gaps.get((window.ref.key.channel, window.ref.index), ()):
            index = _utterance(window, recorded)
            if index is not None:
                turn = window.turns[index]
                gap = Gap(turn.id, recorded.quote, recorded.reason, recorded.query, recorded.keywords)
                found.append((index, gap))
        return tuple(gap for _, gap in sorted(found[:max_gaps], key=lambda pair: pair[0]))


def _gap(row: Mapping[str, Any]) -> _RecordedGap:
    return _RecordedGap(
        int(row["utterance_index"]),
        str(row["quote"]),
        str(row["gap_reason"]),
        str(row["evidence_need_query"]),
        tuple(str(keyword) for keyword in row["keywords"]),
    )


def _utterance(window: Window, recorded: _RecordedGap) -> int | None:
    """The index of the turn with the quote: the recorded one, else the first, as detectors miscount."""
    named = recorded.utterance_index
    within = range(len(window.turns))
    if named in within and recorded.quote in window.turns[named].text:
        return named
    quoting = (index for index in within if recorded.quote in window.turns[index].text)
    return next(quoting, named if named in within else None)
