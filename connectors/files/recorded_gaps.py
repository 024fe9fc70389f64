"""Gaps that a detector found earlier, read from a file: the same input gives the same gaps.

One JSON object a line: `{"dialogue", "window", "gaps": [{"utterance_index", "quote", "gap_reason",
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
    'a line is {"dialogue", "window", "gaps": [{"utterance_index", "quote", "gap_reason", '
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
    """Looks a window's gaps up by channel and ordinal; a window that is not in the file has none."""

    gaps: Mapping[tuple[str, int], tuple[_RecordedGap, ...]]
    name: str = field(default="recorded", init=False)

    @classmethod
    def read(cls, path: StrPath) -> RecordedDetector:
        """Read a file of recorded gaps.

        Raises:
            FormatError: the file cannot be read, or a line of it has another layout.
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
                    msg = f"{file_name(path)}:{number}: not a line of recorded gaps: {_LAYOUT}"
                    raise FormatError(msg) from err
        return cls(gaps)

    def detect(self, window: Window, *, max_gaps: int) -> tuple[Gap, ...]:
        """The recorded gaps whose quote, or at least whose index, is in the window."""
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
    """The turn that holds the quote: the named one, else the first; detectors miscount."""
    named = recorded.utterance_index
    within = range(len(window.turns))
    if named in within and recorded.quote in window.turns[named].text:
        return named
    quoting = (index for index in within if recorded.quote in window.turns[index].text)
    return next(quoting, named if named in within else None)
