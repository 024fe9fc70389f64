"""Writes a job's results to a file, a pipe or the terminal, and dead letters to a file."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, tzinfo
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

import click
import orjson
from rich.console import Console

from backscroll.flows.terminal.cards import print_card

__all__ = ["FileResults"]

_PARTICULARS = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\d[\d,.]*""")


class FileResults:
    """Writes summaries to `out` or standard output, and dead letters to a file created when needed.

    Args:
        out: a JSON Lines file, which is overwritten; None for standard output.
        dead_letters: a JSON Lines file for rejected input.
        form: `jsonl` or `cards` for standard output.
        append: append to the files instead of overwriting them.
        zone: the time zone of times on cards.
        zone_name: the name of that zone.
    """

    def __init__(
        self,
        out: Path | None,
        dead_letters: Path,
        form: Literal["jsonl", "cards"],
        *,
        append: bool = False,
        zone: tzinfo = UTC,
        zone_name: str = "UTC",
    ) -> None:
        self._mode: Literal["ab", "wb"] = "ab" if append else "wb"
        self.dead_letters_path = dead_letters
        self.left_open: list[Mapping[str, Any]] = []
        self.reasons: Counter[str] = Counter()
        self._console = Console(highlight=False)
        self._zone, self._zone_name = zone, zone_name
        self._cards = form == "cards" and out is None
        self._files = ExitStack()
        self._rejects: IO[bytes] | None = None
        self._out_name = "standard output" if out is None else str(out)
        self._out: IO[bytes] = sys.stdout.buffer if out is None else self._open(out)
        if not dead_letters.absolute().parent.is_dir():
            raise click.UsageError(f"{dead_letters}: cannot be written: its directory does not exist")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # an earlier write failed and was reported
            self._files.close()

    def summaries(self, bodies: Sequence[bytes]) -> None:
        """Write summary records."""
        if self._cards:
            for body in bodies:
                print_card(self._console, body, self._zone, self._zone_name)
            return
        _write(self._out, self._out_name, bodies)

    def dead_letters(self, letters: Sequence[bytes]) -> None:
        """Write rejected input, and count the reasons."""
        self.reasons.update(_kind_of_reason(orjson.loads(letter)["reason"]) for letter in letters)
        if self._rejects is None:
            self._rejects = self._open(self.dead_letters_path)
        _write(self._rejects, str(self.dead_letters_path), letters)

    def open_windows(self, windows: Sequence[Mapping[str, Any]]) -> None:
        """Remember the windows that an ingest left open, for the report."""
        self.left_open += windows

    def _open(self, path: Path) -> IO[bytes]:
        try:
            return self._files.enter_context(path.open(self._mode))
        except OSError as err:
            raise click.UsageError(f"{path}: cannot be written: {err.strerror}") from err


def _kind_of_reason(reason: str) -> str:
    """A reason without quoted values, so that equal reasons can be counted together."""
    return _PARTICULARS.sub("…", reason)


def _write(file: IO[bytes], name: str, lines: Sequence[bytes]) -> None:
    try:
        file.write(b"".join(line + b"\n" for line in lines))
        file.flush()
    except OSError as err:
        raise click.UsageError(f"{name}: cannot be written: {err.strerror}") from err
