"""Damages golden exports at random and reads them: no input may crash a reader.

    PYTHONPATH=tests python -m support.reader_fuzz --inputs 2000

prints, for each format, how many golden files and damaged inputs were read, and how many crashed.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from backscroll.connectors.files.base.format import FormatError
from backscroll.operators.messages import MessageError, parse_message
from support.golden import inputs, packed, read

_MOST_SECONDS = 20
TOKENS = [
    *b'{ } [ ] , : " \\ null true -1 1e999 {} [] "ts" "id" "text" "\\ud800" 99999999999999999999'.split(),
    *(b"\n", b"\r\n", b"\t", b" ", b"\0", b"\xff", b"\xe2\x80\x8e", b"\xe2\x80\xaf", b": ", b" - "),
    *(b"<@U1>", b"<!date^", b"&lt;", b"From a 09:00 2026\n", b'"2026-03-02T09:00:00"', b"31/12/9999, 23:59"),
]


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The content with a few bytes changed, pieces cut out, doubled, moved, or the end missing."""
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at = chance.randrange(len(content) + 1)
        until = min(len(content), at + chance.choice((1, 1, 4, 40, 400)))
        piece = content[at:until]
        kind = chance.randrange(7)
        if kind == 0:
            content = content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
        elif kind == 1:
            content = content[:at] + content[until:]
        elif kind == 2:
            content = content[:at] + chance.choice(TOKENS) + content[at:]
        elif kind == 3:
            content = content[:until] + piece + content[until:]
        elif kind == 4:
            content = content[:at] + chance.choice(TOKENS) + content[until:]
        elif kind == 5:
            to = chance.randrange(len(content) + 1)
            content = content[:to] + piece + content[to:]
        elif chance.random() < 0.2:
            content = content[:at]
    return content


def damaged_export(path: Path, folder: Path, chance: random.Random) -> Path:
    """A damaged copy of a golden file; of an export of many files, one is damaged, or the archive is."""
    if not path.is_dir():
        copy = folder / path.name
        copy.write_bytes(damaged(path.read_bytes(), chance))
        return copy
    copy = folder / path.name
    files = sorted(file for file in path.rglob("*") if file.is_file())
    victim = chance.choice(files)
    for file in files:
        target = copy / file.relative_to(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = file.read_bytes()
        target.write_bytes(damaged(content, chance) if file == victim else content)
    kind = chance.randrange(4)
    if kind > 1:
        return copy
    archive = packed(copy, folder / ("export.zip" if path.name == "slack" else "export.tar.gz"))
    if kind == 0:
        archive.write_bytes(damaged(archive.read_bytes(), chance))
    return archive


def check(path: Path, format: str) -> None:
    """Read a file as what it was, and as what it looks like; refusing it is no crash."""
    for name in (format, "auto"):
        try:
            items, _ = read(path, name)
        except FormatError:
            continue
        for item in items:
            orjson.dumps(dict(item.origin))
            try:
                if not isinstance(item.value, MessageError):
                    parse_message(item.value)
            except MessageError:
                pass  # a dead letter


def fuzz(format: str, path: Path, count: int, seed: int) -> int:
    """How many of so many damaged inputs crashed; the first of them is shown."""
    crashes = 0
    signal.signal(signal.SIGALRM, _took_too_long)
    for number in range(count):
        chance = random.Random(f"{seed}-{format}-{path.name}-{number}")
        with TemporaryDirectory() as folder:
            signal.alarm(_MOST_SECONDS)
            try:
                check(damaged_export(path, Path(folder), chance), format)
            except Exception:
                crashes += 1
                if crashes == 1:
                    sys.stderr.write(
                        f"{format} {path.name} seed {seed} number {number}\n{traceback.format_exc()}"
                    )
            finally:
                signal.alarm(0)
    return crashes


def _took_too_long(*_: object) -> None:
    raise TimeoutError(f"a reader needed more than {_MOST_SECONDS} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=200, help="damaged inputs of each golden file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", action="append", help="only this one; may be repeated")
    options = parser.parse_args()
    files, tried, crashes = Counter[str](), Counter[str](), Counter[str]()
    for format, path in inputs():
        if not options.format or format in options.format:
            files[format] += 1
            tried[format] += options.inputs
            crashes[format] += fuzz(format, path, options.inputs, options.seed)
    sys.stdout.write("| format | golden files | damaged inputs | crashes |\n|---|---|---|---|\n")
    for format in files:
        sys.stdout.write(f"| {format} | {files[format]} | {tried[format]:,} | {crashes[format]} |\n")
    return 1 if crashes.total() else 0


if __name__ == "__main__":
    sys.exit(main())
