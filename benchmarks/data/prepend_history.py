"""Put the dialogues of a benchmark into long channels, by prepending the messages of other dialogues.

The prepended messages are real chat but contain no evidence. So the benchmark shows how well a memory finds
evidence in a history many times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from backscroll.benchmarks.data.benchmark import Benchmark
from backscroll.benchmarks.data.dialogues import Dialogue, dialogue_files, record_dialogue
from backscroll.benchmarks.progress import progress
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.history.indexing import Indexer
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.messages import ChannelKey, Turn
from backscroll.operators.stream.windows import Window, WindowRef

__all__ = ["behind"]

_KEY = ChannelKey("bench", "before")
_PAUSE = timedelta(days=1)


def behind(benchmark: Benchmark, paths: Iterable[Path], embedder: Embedder | None) -> Benchmark:
    """The benchmark with all messages of other dialogues, one after another, before each of its dialogues.

    Raises:
        BenchmarkError: a file contains no messages.
        FormatError: a file cannot be read.
    """
    files = dialogue_files(paths)
    before, dialogues = list[RecordedWindow](), {}
    indexer = Indexer(Chunker(), embedder)
    with progress("what comes before", len(files) + len(benchmark.dialogues)) as step:
        for number, file in enumerate(files):
            for window in record_dialogue(file, None).windows:
                turns = [replace(turn, id=f"{number}-{turn.id}") for turn in window.turns]
                before += indexer.index([_next(_KEY, [one.window for one in before[-1:]], turns)])
            step()
        for name, dialogue in benchmark.dialogues.items():
            dialogues[name] = _joined(before, dialogue, embedder)
            step()
    return replace(benchmark, dialogues=dialogues)


def _joined(before: Sequence[RecordedWindow], dialogue: Dialogue, embedder: Embedder | None) -> Dialogue:
    key, windows = dialogue.key, list[Window]()
    histories = Histories(InMemoryStore(), embedder, Chunker())
    earlier = dialogue.windows[0].start - max(one.window.end for one in before) - _PAUSE
    for one in before:
        turns = [replace(turn, ts=turn.ts + earlier) for turn in one.window.turns]
        windows.append(_next(key, windows[-1:], turns))
        histories.commit([replace(one, window=windows[-1])])
    for window in dialogue.windows:
        windows.append(_next(key, windows[-1:], window.turns))
        histories.record(windows[-1])
    return Dialogue(key, histories, tuple(windows[len(before) :]))


def _next(key: ChannelKey, last: Sequence[Window], turns: Iterable[Turn]) -> Window:
    """The channel's next window, with these turns."""
    index, first = next(((one.ref.index + 1, one.ref.last_seq + 1) for one in last), (0, 0))
    placed = tuple(replace(turn, seq=seq) for seq, turn in enumerate(turns, first))
    return Window(WindowRef(key, index, first, first + len(placed) - 1), placed)
