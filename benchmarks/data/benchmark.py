"""Read a benchmark folder: dialogues, recorded as in a replay, and the annotations of their windows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from backscroll.benchmarks.data.dialogues import Dialogue, record_dialogue
from backscroll.benchmarks.data.gaps import BenchmarkError, GapRow, WindowRow, read_gaps
from backscroll.benchmarks.progress import progress
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import Window

__all__ = ["Benchmark", "read_benchmark"]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark folder (`dialogues/` and `gaps.jsonl`), recorded once for all measurements."""

    name: str
    dialogues: Mapping[str, Dialogue]
    windows: tuple[WindowRow, ...]

    def window(self, row: WindowRow) -> Window:
        """The window that an annotation is about."""
        return self.dialogues[row.dialogue].windows[row.window]

    def evidence(self, row: WindowRow, gap: GapRow, memory: Collection[str] = ()) -> list[Turn]:
        """The turns that resolve a gap, in order: the alternative in `memory` (ids), else the shortest.

        Raises:
            BenchmarkError: the dialogue lacks a message named as evidence.
        """
        ids = gap.found(memory) or gap.shortest
        turns = [turn for turn in self.dialogues[row.dialogue].turns if turn.id in ids]
        if len(turns) < len(ids):
            missing = sorted(ids - {turn.id for turn in turns})[0]
            raise BenchmarkError(
                f"{self.name}: {row.dialogue} has no message {missing!r}, which gaps.jsonl names as evidence"
            )
        return turns


def read_benchmark(folder: Path, embedder: Embedder | None) -> Benchmark:
    """Read the gap file and record its dialogues.

    Raises:
        BenchmarkError: a file is missing, or the windows of a dialogue differ from the annotated ones.
        FormatError: a dialogue cannot be read.
    """
    windows = read_gaps(folder / "gaps.jsonl")
    names, dialogues = sorted({row.dialogue for row in windows}), {}
    with progress("dialogues", len(names)) as step:
        for name in names:
            dialogues[name] = record_dialogue(folder / "dialogues" / f"{name}.jsonl", embedder)
            step()
    for row in windows:
        cut = dialogues[row.dialogue].windows
        turns = cut[row.window].turns if row.window < len(cut) else ()
        if tuple(turn.id for turn in turns) != row.ids:
            raise BenchmarkError(
                f"{folder}: window {row.window} of {row.dialogue} has other messages than gaps.jsonl says"
            )
    return Benchmark(folder.name, dialogues, windows)
