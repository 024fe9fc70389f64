"""Read the gap file of a benchmark: annotated windows, their gaps, and the evidence that resolves them."""

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
    """A benchmark cannot be used; the message says which file and what is wrong."""


@dataclass(frozen=True, slots=True)
class GapRow:
    """An annotated gap. Each item of `evidence` is an alternative: all its ids together resolve the gap."""

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
        """The alternative with the fewest turns; ties are broken by id."""
        return min(self.evidence, key=lambda ids: (len(ids), sorted(ids)))

    def resolved(self, memory: Collection[str]) -> bool:
        """Whether a memory with these ids contains the evidence."""
        return self.found(memory) is not None

    def found(self, memory: Collection[str]) -> frozenset[str] | None:
        """The first alternative that a memory with these ids contains completely, or None."""
        return next((alternative for alternative in self.evidence if alternative <= set(memory)), None)


@dataclass(frozen=True, slots=True)
class WindowRow:
    """An annotated window: its dialogue, ordinal and turn ids.

    `salient` has the ids of turns that a summary must cover; None if they were not annotated.
    """

    dialogue: str
    window: int
    ids: tuple[str, ...]
    gaps: tuple[GapRow, ...]
    salient: tuple[str, ...] | None = None


def read_gaps(path: Path) -> tuple[WindowRow, ...]:
    """Read a file with one window per line.

    Raises:
        BenchmarkError: the file cannot be read, or one of its lines has another layout.
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
            raise BenchmarkError(f"{path}:{number}: not a window with annotated gaps: {err!r}") from err


def _gap(row: Mapping[str, Any]) -> GapRow:
    return GapRow(
        row["utterance"],
        row["quote"],
        row["type"],
        tuple(frozenset(alternative) for alternative in row["evidence"]),
        row.get("resolution") or "",
        int(row["distance_tokens"]),
    )
