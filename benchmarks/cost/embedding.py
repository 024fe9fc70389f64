"""Measure the cost of embedding on this machine, for every backend and precision on the same texts.

They take turns and are compared by processor time: on a busy machine these ratios stay valid, while rates
and seconds do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from itertools import islice, zip_longest
from pathlib import Path
from statistics import median

import numpy as np
import orjson
from rich.table import Table

from backscroll.benchmarks.cost.embedding_process import EmbeddingCase, EmbeddingProcess, Round
from backscroll.benchmarks.data.dialogues import record_dialogue
from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.benchmarks.memory.report import wide_console
from backscroll.connectors.embedding.onnx import multiplies_int8_exactly
from backscroll.connectors.embedding.packaged import torch_is_installed
from backscroll.operators.history.chunks import Chunker

__all__ = ["EmbeddingCost", "Texts", "bench_embedding", "measure_embedding", "read_texts"]

Texts = Sequence[tuple[Sequence[str], Sequence[str]]]
"""Turns and chunks of closed windows."""

_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class EmbeddingCost:
    """The cost of one backend and precision; medians over the rounds.

    `speedup` is the processor time of the first case divided by that of this one, which is valid on a busy
    machine, too. `load_s` includes imports, `text_ms` is for a single turn, `memory_mb` is the peak of the
    process. Cosines and component differences are relative to the first case's vectors of the same texts.
    """

    turns_per_s: float
    chunks_per_s: float
    speedup: float
    load_s: float
    text_ms: float
    memory_mb: float
    cosine_mean: float
    cosine_min: float
    difference_max: float


def read_texts(folder: Path, windows: int) -> Texts:
    """A number of closed windows, taken from the dialogues of a folder in turn.

    Raises:
        BenchmarkError: the folder has no closed window.
        FormatError: a dialogue cannot be read.
    """
    dialogues = [record_dialogue(file, None).windows for file in sorted(folder.glob("dialogues/*.jsonl"))]
    in_turn = (window for row in zip_longest(*dialogues) for window in row if window and window.ref.final)
    chunker = Chunker()
    texts = [
        ([turn.rendered for turn in window.turns], [chunk.text for chunk in chunker.chunk(window.turns)])
        for window in islice(in_turn, windows)
    ]
    if not texts:
        raise BenchmarkError(f"{folder} has no dialogues/*.jsonl with a closed window")
    return texts


def measure_embedding(texts: Texts, ways: Sequence[EmbeddingCase]) -> list[EmbeddingCost]:
    """The cost of every case; the others are compared with the first.

    Raises:
        EmbedderError: a model cannot be loaded.
    """
    with ExitStack() as open_:
        processes = [open_.enter_context(closing(EmbeddingProcess(way))) for way in ways]
        rounds = [[process.embed(texts) for process in processes] for _ in range(_ROUNDS)]
    of_way = list(zip(*rounds, strict=True))
    return [
        _cost(texts, process.load_s, own, of_way[0]) for process, own in zip(processes, of_way, strict=True)
    ]


def _cost(texts: Texts, load_s: float, rounds: Sequence[Round], first: Sequence[Round]) -> EmbeddingCost:
    ratios = [one.processor_s / own.processor_s for one, own in zip(first, rounds, strict=True)]
    vectors, others = rounds[0].vectors.astype(np.float64), first[0].vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(others, axis=1)
    cosines = (vectors * others).sum(axis=1) / lengths
    return EmbeddingCost(
        turns_per_s=round(sum(len(turns) for turns, _ in texts) / median(own.turns_s for own in rounds), 1),
        chunks_per_s=round(
            sum(len(chunks) for _, chunks in texts) / median(own.chunks_s for own in rounds), 1
        ),
        speedup=round(median(ratios), 2),
        load_s=round(load_s, 2),
        text_ms=round(median(own.alone_ms for own in rounds), 1),
        memory_mb=round(max(own.memory_mb for own in rounds)),
        cosine_mean=round(float(cosines.mean()), 9),
        cosine_min=round(float(cosines.min()), 9),
        difference_max=float(f"{np.abs(vectors - others).max():.1e}"),
    )


def bench_embedding(
    folder: Path,
    names: Sequence[str],
    *,
    model: str,
    threads: int | None,
    windows: int,
    json: Path | None,
) -> None:
    """Measure, print the table, and write the figures.

    Without names, all cases that can run here are measured: torch if it is installed, onnx, and int8 if the
    processor supports it.

    Raises:
        BenchmarkError: the folder has no closed window.
        FormatError: one of its dialogues cannot be read.
        EmbedderError: a model cannot be loaded.
    """
    texts = read_texts(folder, windows)
    known = {
        "torch": EmbeddingCase("torch", model=model),
        "onnx": EmbeddingCase("onnx", model=model, threads=threads),
        "int8": EmbeddingCase("onnx", "int8", model, threads),
    }
    runs_here = {"torch": torch_is_installed(), "onnx": True, "int8": multiplies_int8_exactly()}
    ways = [known[name] for name in names or known if names or runs_here[name]]
    costs = measure_embedding(texts, ways)
    rows = {f"{way.backend} {way.precision}": cost for way, cost in zip(ways, costs, strict=True)}
    turns, chunks = (sum(len(window[kind]) for window in texts) for kind in (0, 1))
    wide_console().print(_table(rows, f"{folder.name}: {len(texts)} windows, {turns} turns, {chunks} chunks"))
    if json is not None:
        found = {
            "model": model,
            "windows": len(texts),
            "turns": turns,
            "chunks": chunks,
            "ways": {name: asdict(cost) for name, cost in rows.items()},
        }
        json.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2) + b"\n")


def _table(rows: Mapping[str, EmbeddingCost], title: str) -> Table:
    table = Table(title=title)
    table.add_column("embedding")
    for name in ("turns/s", "chunks/s", "speed-up", "load s", "one text ms", "MB", "cosine", "lowest"):
        table.add_column(name, justify="right")
    for name, cost in rows.items():
        table.add_row(
            name,
            f"{cost.turns_per_s:.0f}",
            f"{cost.chunks_per_s:.0f}",
            f"{cost.speedup:.1f}",
            f"{cost.load_s:.1f}",
            f"{cost.text_ms:.1f}",
            f"{cost.memory_mb:.0f}",
            f"{cost.cosine_mean:.6f}",
            f"{cost.cosine_min:.6f}",
        )
    return table
