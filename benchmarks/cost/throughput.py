"""Measure the throughput of the whole flow: the cases compared, the chat, and the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import orjson
from rich.table import Table

from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.connectors.files.formats import read_file
from backscroll.operators.messages import MessageError, parse_message

__all__ = ["WAYS", "Figures", "ThroughputCase", "throughput_table", "write_chat"]

_BETWEEN = timedelta(seconds=20)
_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ThroughputCase:
    """A case to run: its name and its settings."""

    name: str
    settings: Mapping[str, Any]


_WITHOUT = {"embedding_model": "none"}
WAYS = (
    ThroughputCase("recent, no gaps", {"strategy": "recent", "max_gaps": 0, **_WITHOUT}),
    ThroughputCase("sparse", {"strategy": "sparse", **_WITHOUT}),
    ThroughputCase("backscroll without vectors", {"strategy": "backscroll", **_WITHOUT}),
    ThroughputCase("backscroll, ONNX", {"embedding_backend": "onnx"}),
    ThroughputCase("backscroll, ONNX int8", {"embedding_backend": "onnx", "embedding_precision": "int8"}),
    ThroughputCase("backscroll, torch", {"embedding_backend": "torch"}),
)
"""From the bare engine to everything that runs without a language model."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One run, without starting the process and loading the model.

    Attributes:
        seconds: from the start of the flow to its last summary.
        processor: processor seconds of all processes.
        work: seconds of the working thread by kind of work; empty with several processes.
        embedding: how many of those seconds were spent in the embedder.
    """

    messages: int
    windows: int
    processes: int
    seconds: float
    processor: float
    work: Mapping[str, float]
    embedding: float

    def to_json(self) -> dict[str, Any]:
        """The figures and rates."""
        return {
            "processes": self.processes,
            "messages": self.messages,
            "windows": self.windows,
            "messages_per_s": round(self.messages / self.seconds, 1),
            "messages_per_processor_s": round(self.messages / self.processor, 1),
            "seconds": round(self.seconds, 2),
            "processor_seconds": round(self.processor, 2),
            "work_seconds": {name: round(spent, 2) for name, spent in self.work.items()},
            "embedding_seconds": round(self.embedding, 2),
        }


def write_chat(sources: Sequence[Path], messages: int, channels: int, out: Path) -> None:
    """Write a number of messages, repeating the texts of the sources, to a number of channels in turn.

    Raises:
        FormatError: a source cannot be read.
        BenchmarkError: there is no message in any.
    """
    said = list(_said(sources))
    if not said:
        raise BenchmarkError(f"{', '.join(map(str, sources))}: no messages to measure with")
    with out.open("wb") as file:
        for n, (author, text) in enumerate(islice(cycle(said), messages)):
            # Keep runs of a conversation together, so that windows resemble real ones.
            channel = n // 50 % channels
            row = {"channel": f"c{channel}", "id": f"m{n}", "ts": _START + n * _BETWEEN}
            file.write(orjson.dumps({**row, "author": author, "text": text}) + b"\n")


def _said(sources: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for source in sources:
        for received in read_file(source):
            if isinstance(received.value, MessageError):
                continue
            try:
                message = parse_message(received.value)
            except MessageError:
                continue
            if message.text:
                yield message.author.name, message.text


def throughput_table(rows: Sequence[tuple[str, Figures]]) -> Table:
    """One row per run; shares are of the working thread's time."""
    kinds = list(dict.fromkeys(kind for _, figures in rows for kind in figures.work))
    table = Table("way", "processes", "messages/s", "a processor's", "embedding", *kinds)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, figures in rows:
        total = sum(figures.work.values())

        def share(spent: float, total: float = total) -> str:
            return f"{spent / total:.0%}" if total else ""

        table.add_row(
            name,
            str(figures.processes),
            f"{figures.messages / figures.seconds:,.0f}",
            f"{figures.messages / figures.processor:,.0f}",
            share(figures.embedding),
            *(share(figures.work.get(kind, 0.0)) for kind in kinds),
        )
    return table
