"""The gap file of a benchmark: annotated windows, their gaps and the evidence that resolves them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from backscroll.operators.errors import BackscrollError

__all__ = ["BenchmarkError", "GapRow", "WindowRow", "read_gaps"]

NEAR, MID = 1024, 4096


class BenchmarkError(BackscrollError):
    """A benchmark folder cannot be used; the text says which file, and what is wrong."""


@dataclass(frozen=True, slots=True)
class GapRow:
    """An annotated gap: any one of `evidence`, all its ids together, resolves it."""

    utterance: str
    quote: str
    type: str
    evidence: tuple[frozenset[str], ...]
    resolution: str
    distance_tokens: int

    @property
    def place(self) -> Literal["near", "mid", "far"]:
        """How far back the nearest evidence is."""
        return "near" if self.distance_tokens <= NEAR else "mid" if self.distance_tokens <= MID else "far"

    @property
    def shortest(self) -> frozenset[str]:
        """The alternative of fewest turns; of several, the first by id."""
        return min(self.evidence, key=lambda ids: (len(ids), sorted(ids)))

    def resolved(self, memory: Collection[str]) -> bool:
        """Whether a memory of these ids holds the evidence."""
        return self.found(memory) is not None

    def found(self, memory: Collection[str]) -> frozenset[str] | None:
        """The first alternative that a memory of these ids holds as a whole."""
        return next((alternative for alternative in self.evidence if alternative <= set(memory)), None)


@dataclass(frozen=True, slots=True)
class WindowRow:
    """An annotated window: its dialogue, ordinal and turn ids.

    `salient` are the ids of what a summary has to cover, None where nobody marked them.
    """

    dialogue: str
    window: int
    ids: tuple[str, ...]
    gaps: tuple[GapRow, ...]
    salient: tuple[str, ...] | None = None


def read_gaps(path: Path) -> tuple[WindowRow, ...]:
    """Read a file of one window a line.

    Raises:
        BenchmarkError: the file cannot be read, or a line of it has another layout.
    """
    return tuple(_rows(path))


def _rows(path: Path) -> Iterator[WindowRow]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as err:
        raise BenchmarkError(f"{path}: {err.strerror}") from err
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
            gaps = tuple(map(_gap, row["gaps"]))
            salient = row.get("salient")
            yield WindowRow(
                str(row["dialogue"]),
                int(row["window"]),
                tuple(row["ids"]),
                gaps,
                None if salient is None else tuple(salient),
            )
        except (ValueError, KeyError, TypeError) as err:
            raise BenchmarkError(f"{path}:{number}: not a window of annotated gaps: {err!r}") from err


def _gap(row: Mapping[str, Any]) -> GapRow:
    return GapRow(
        row["utterance"],
        row["quote"],
        row["type"],
        tuple(frozenset(alternative) for alternative in row["evidence"]),
        row.get("resolution") or "",
        int(row["distance_tokens"]),
    )
