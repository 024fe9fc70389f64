"""Summary records to be measured, found for the annotated windows of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from backscroll.benchmarks.data.benchmark import Benchmark
from backscroll.benchmarks.data.gaps import BenchmarkError, WindowRow
from backscroll.connectors.files.base.format import FormatError, file_name, open_file
from backscroll.operators.summary.record import Summary

__all__ = ["Named", "match_records", "read_records"]

Named = Mapping[str, Mapping[WindowRow, Summary]]
"""The records of the annotated windows, by the name of what wrote them."""


def read_records(path: Path) -> list[Summary]:
    """Read records as `replay --out` writes them, one a line.

    Raises:
        FormatError: the file cannot be read, or a line of it is no summary record.
    """
    records = []
    with open_file(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                records.append(Summary.from_json(line))
            except ValidationError:  # its text quotes the record
                msg = f"{file_name(path)}:{number}: not a summary record as replay --out writes it"
                raise FormatError(msg) from None
            except ValueError as err:
                raise FormatError(f"{file_name(path)}:{number}: {err}") from err
    return records


def match_records(benchmark: Benchmark, files: Iterable[Path]) -> Named:
    """The records of each file for the annotated windows; of several for a window the newest.

    A name is the file's, with the strategy where a file holds several.

    Raises:
        BenchmarkError: a file has no record for any annotated window, or two files have one name.
        FormatError: a file cannot be read.
    """
    named: dict[str, dict[WindowRow, Summary]] = {}
    rows = {(benchmark.dialogues[row.dialogue].key, row.ids): row for row in benchmark.windows}
    for path in files:
        records = read_records(path)
        strategies = {record.strategy for record in records}
        found: dict[str, dict[WindowRow, Summary]] = {}
        for record in records:
            row = rows.get((record.key, tuple(record.window.turns)))
            if row is None:
                continue
            name = path.stem if len(strategies) == 1 else f"{path.stem}/{record.strategy}"
            kept = found.setdefault(name, {}).get(row)
            if kept is None or record.revision >= kept.revision:
                found[name][row] = record
        if not found:
            raise BenchmarkError(
                f"{path}: no summary of an annotated window of {benchmark.name}: replay its dialogues "
                "with windows of 1,024 tokens"
            )
        if taken := found.keys() & named.keys():
            raise BenchmarkError(f"{path}: a second file called {sorted(taken)[0]!r}: rename it")
        named |= found
    return named
