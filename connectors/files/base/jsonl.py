"""Format `messages`: one JSON message per line (JSON Lines), read as a stream.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
...     _ = file.write(b'{"channel": "general", "id": "m1"}\\n\\nnot JSON\\n')
...     file.flush()
...     [(item.value, item.origin[1]) for item in read(file.name)]
[(b'{"channel": "general", "id": "m1"}', ('line', 1)), (b'not JSON', ('line', 3))]

The reader only splits lines; `messages.parse_message` validates their content.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import IO

from backscroll.connectors.files.base.format import BOM, FormatError, StrPath, file_name, open_file
from backscroll.operators.messages import MessageError, Received

__all__ = ["MAX_LINE_BYTES", "read", "read_lines"]

MAX_LINE_BYTES = 8 * 1024 * 1024
_KEPT_BYTES = 64 * 1024  # of an overlong line: enough to recognise it in a dead letter


def read(path: StrPath) -> Iterator[Received]:
    """Yield one `Received` per non-blank line, in file order.

    `value` and `raw` are the line's bytes without the line break (`\\n` or `\\r\\n`) and without
    a byte order mark at the start of the file; `origin` names the file and the line number, from 1.
    The value of a line that is not UTF-8, or is longer than `MAX_LINE_BYTES`, is a `MessageError`;
    `raw` of an overlong line holds its first 64 KiB. At most one line is held in memory.

    Raises:
        FormatError: the file cannot be read.
    """
    with open_file(path) as file:
        yield from read_lines(file, file_name(path))


def read_lines(file: IO[bytes], name: str) -> Iterator[Received]:
    """Like `read`, for an open file; `name` is used in origins and errors."""
    for number in count(1):
        try:
            line = file.readline(MAX_LINE_BYTES + 1)
            if not line:
                return
            too_long = len(line) > MAX_LINE_BYTES and not line.endswith(b"\n")
            if too_long:
                line = line[:_KEPT_BYTES]
                _skip_line(file)
        except OSError as err:
            raise FormatError(f"{name}: cannot read line {number}: {err.strerror}") from err
        if number == 1:
            line = line.removeprefix(BOM)
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        origin = (("file", name), ("line", number))
        if too_long:
            msg = f"the line is longer than {MAX_LINE_BYTES:,} bytes: expected one JSON message per line"
            yield Received(MessageError(msg), origin, line)
        elif line.strip():
            yield Received(_checked(line), origin, line)


def _checked(line: bytes) -> bytes | MessageError:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as err:
        return MessageError(f"not UTF-8: {err.reason} at byte {err.start} of the line")
    return line


def _skip_line(file: IO[bytes]) -> None:
    while (rest := file.readline(_KEPT_BYTES)) and not rest.endswith(b"\n"):
        pass
