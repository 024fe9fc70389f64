"""Read the elements of a list inside a large JSON document one at a time, without loading the document.

>>> import io
>>> file = io.BytesIO(b'{"name": "general", "messages": [{"id": 1}, {"id": }, {"id": 3}]}')
>>> for element in stream_json(file, [("messages", "*")]):
...     print(element.path, element.raw)
('name',) b'"general"'
('messages', '*') b'{"id": 1}'
('messages', '*') b'{"id": }'
('messages', '*') b'{"id": 3}'

This module only matches brackets; `orjson` parses the elements. So damage stays local: an unterminated
string ends at the end of its line, and a closing bracket without an opening one is ignored. If each
element starts on its own line, as in most exports, the next line with the same indentation starts the
next element, whatever the damaged one left open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, TypeAlias

import orjson

from backscroll.connectors.files.base import jsonl
from backscroll.connectors.files.base.format import FormatError, StrPath, entry_object, file_name, open_file
from backscroll.operators.messages import MessageError

__all__ = [
    "MAX_ELEMENT_BYTES",
    "Element",
    "JsonPath",
    "element_object",
    "parse_element",
    "stream_file",
    "stream_json",
    "stream_rows",
]

JsonPath: TypeAlias = tuple[str, ...]
MAX_ELEMENT_BYTES = 16 * 1024 * 1024
_BLOCK = 1 << 20
_LOOK_BACK = 256
_LONGEST_KEY = _KEPT_BYTES = 64 * 1024
# Whole strings, and everything else except brackets. Possessive, so that damage causes no backtracking.
_STRING = rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
_RUN = re.compile(rb'[^"{}\[\]]*+(?:' + _STRING + rb'[^"{}\[\]]*+)*+')
_BLANK = re.compile(rb"[\s,:]*+")
_KEY = re.compile(rb"(" + _STRING + rb")\s*+:")
_SCALAR = re.compile(_STRING + rb'|[^\s,"{}\[\]]++')
_BLANK_LINE = re.compile(rb"\n[ \t]*+")
_MARK = re.compile(rb'["{}\[\]]')
_CLOSING = {ord("{"): ord("}"), ord("["): ord("]")}
_OPENING = {ord("}"): ord("{"), ord("]"): ord("[")}


@dataclass(frozen=True, slots=True)
class Element:
    """A value in the document: its path, with `*` for a list item, its bytes and their offset.

    If the value is longer than `MAX_ELEMENT_BYTES`, `raw` holds only its beginning.
    """

    path: JsonPath
    raw: bytes
    offset: int
    too_long: bool = False


def parse_element(element: Element) -> Any:
    """The element as a Python object.

    Raises:
        MessageError: it is not JSON.
    """
    if element.too_long:
        raise MessageError(f"the entry is longer than {MAX_ELEMENT_BYTES:,} bytes")
    try:
        return orjson.loads(element.raw)
    except orjson.JSONDecodeError as err:
        raise MessageError(f"not JSON: {err}") from err


def element_object(element: Element) -> dict[str, Any]:
    """The element as a JSON object.

    Raises:
        MessageError: it is something else, or not JSON.
    """
    return entry_object(parse_element(element))


def stream_json(file: IO[bytes], wanted: Iterable[JsonPath]) -> Iterator[Element]:
    """Yield the values at the wanted paths, and all siblings of the containers that lead to them.

    Args:
        file: one JSON document, or several in a row.
        wanted: paths such as `("messages", "*")` for the elements of the list `messages`.
    """
    ways = {path[:length] for path in wanted for length in range(len(path))}
    yield from _Scanner(file, ways).elements()


def stream_file(path: StrPath, wanted: Iterable[JsonPath]) -> Iterator[Element]:
    """Like `stream_json`, for a file by path.

    Raises:
        FormatError: the file cannot be read.
    """
    with open_file(path) as file:
        try:
            yield from stream_json(file, wanted)
        except OSError as err:
            raise FormatError(f"{file_name(path)}: cannot be read: {err.strerror}") from err


def stream_rows(path: StrPath, places: Sequence[JsonPath]) -> Iterator[Element]:
    """Like `stream_file`, for a document with rows at one of the places, or a file with one row per line.

    In the second case, the path of every row is the first of the places.
    """
    if not _has_rows_on_lines(path, {place[0] for place in places}):
        yield from stream_file(path, places)
        return
    for line in jsonl.read(path):
        yield Element(places[0], line.raw, 0, len(line.raw) > jsonl.MAX_LINE_BYTES)


def _has_rows_on_lines(path: StrPath, lists: set[str]) -> bool:
    """Whether the first line is a row, or the first is a damaged row and the second is a row."""
    for line in islice(jsonl.read(path), 2):
        try:
            row = orjson.loads(line.raw)
        except orjson.JSONDecodeError:
            if line.raw.rstrip().endswith((b"[", b"{", b",")):
                return False
            continue
        return isinstance(row, dict) and not any(isinstance(row.get(name), list) for name in lists)
    return False


class _Scanner:
    """Scans a file; `_buffer[_at:]` is what it has read but not scanned yet."""

    def __init__(self, file: IO[bytes], ways: set[JsonPath]) -> None:
        self._file = file
        self._ways = ways
        self._buffer = b""
        self._at = 0
        self._passed = 0  # bytes of the file before the buffer
        self._ended = False
        self._was_indented = False  # whether the last element was spread over its own lines
        self._elements_margin = b""  # margin of the elements in the open list

    def elements(self) -> Iterator[Element]:
        open_: list[tuple[JsonPath, int, bytes]] = []  # open containers: path, bracket, margin
        while (byte := self._next()) is not None:
            path, bracket, margin = open_[-1] if open_ else ((), 0, b"")
            if byte in _OPENING:
                if bracket == _OPENING[byte] and self._closes(margin):
                    open_.pop()
                    self._elements_margin = b""
                self._at += 1
                continue
            if bracket == ord("{"):
                key = self._match(_KEY, _LONGEST_KEY)
                if key is None:  # damage: look for the next key
                    found = _MARK.search(self._buffer, self._at + 1)
                    self._at = found.start() if found else len(self._buffer)
                    continue
                path, value = (*path, key[1][1:-1].decode("utf-8", "replace")), self._next()
                if value is None:
                    return
                byte = value
            elif bracket == ord("["):
                path = (*path, "*")
            if byte in _CLOSING and path in self._ways:
                margin = self._margin()
                self._at += 1
                open_.append((path, byte, margin if self._ends_line() else b""))
                self._elements_margin = b""
            elif byte in _CLOSING:
                yield self._container(path, byte)
            elif byte not in _OPENING:
                yield self._scalar(path)

    def _scalar(self, path: JsonPath) -> Element:
        start = self._passed + self._at
        scalar = self._match(_SCALAR, MAX_ELEMENT_BYTES)
        if scalar is None:  # an unterminated string
            self._at += 1
        return Element(path, scalar[0] if scalar else b'"', start)

    def _container(self, path: JsonPath, byte: int) -> Element:
        margin, start = self._elements_margin or self._margin(), self._passed + self._at
        self._at += 1
        raw = self._indented(margin, byte) if len(margin) > 1 else None
        self._was_indented = raw is not None
        if raw is not None:
            self._elements_margin = margin if path[-1:] == ("*",) else b""
            return Element(path, raw, start)
        open_ = bytearray([byte])
        beginning = b""
        while open_:
            bracket = self._bracket()
            if bracket is None:
                break
            at_margin = len(margin) > 1 and self._is_behind(margin, 1)
            if at_margin and bracket in _CLOSING:
                self._at -= 1  # the next element starts before this one was closed
                break
            if bracket in _CLOSING:
                open_.append(bracket)
            elif at_margin and _OPENING[bracket] == byte:
                open_.clear()
            elif (opened := open_.rfind(_OPENING[bracket])) >= 0:
                del open_[opened:]
            if not beginning and self._passed + self._at - start > MAX_ELEMENT_BYTES:
                beginning = self._buffer[start - self._passed :][:_KEPT_BYTES]
            if beginning:
                self._forget()
        if beginning:
            return Element(path, beginning, start, too_long=True)
        raw = self._buffer[start - self._passed : self._at]
        return Element(path, raw.rstrip(b" \r\n\t,"), start)

    def _indented(self, margin: bytes, byte: int) -> bytes | None:
        """The element up to the line that closes it or starts the next; None if it is not indented."""
        start = self._at - 1
        if not self._ends_line():
            return None
        closing = margin + bytes([_CLOSING[byte]])
        looked = start
        while (end := self._buffer.find(closing, looked)) < 0:
            looked = max(start, len(self._buffer) - len(closing))
            if looked - start > MAX_ELEMENT_BYTES or not self._more():
                return None
        openings = (self._buffer.find(margin + opening, start + 1, end) for opening in (b"{", b"["))
        self._at = min((found for found in openings if found >= 0), default=end + len(closing))
        return self._buffer[start : self._at].rstrip(b" \r\n\t,")

    def _bracket(self) -> int | None:
        """Consume up to and including the next bracket outside a string, and return it."""
        while True:
            run = _RUN.match(self._buffer, self._at)
            self._at = run.end() if run else self._at  # never inside a string at the end of the buffer
            if self._at == len(self._buffer):
                if self._more():
                    continue
                return None
            byte = self._buffer[self._at]
            if byte != ord('"'):
                self._at += 1
                return byte
            line_end = self._buffer.find(b"\n", self._at)
            if line_end < 0 and len(self._buffer) - self._at < MAX_ELEMENT_BYTES and self._more():
                continue
            # Damage: a JSON string cannot contain a line break, so end it at the end of its line.
            self._at = len(self._buffer) if line_end < 0 else line_end

    def _margin(self) -> bytes:
        """The line break before the current line, and the line's indentation."""
        line = self._buffer.rfind(b"\n", max(0, self._at - _LOOK_BACK), self._at)
        if line < 0:
            return b"" if self._passed or self._at > _LOOK_BACK else b"\n"
        blank = _BLANK_LINE.match(self._buffer, line)
        return blank[0] if blank else b""

    def _closes(self, margin: bytes) -> bool:
        """Whether the closing bracket here is where a container with this margin would be closed."""
        if self._buffer[max(0, self._at - _LOOK_BACK) : self._at].rstrip().endswith(b","):
            return False  # another element should follow the comma
        begins_line = self._is_behind(self._margin())
        return self._is_behind(margin) or not (begins_line or self._was_indented)

    def _is_behind(self, margin: bytes, past: int = 0) -> bool:
        """Whether the position, less `past` bytes, comes right after the margin."""
        return self._buffer.endswith(margin, 0, self._at - past)

    def _ends_line(self) -> bool:
        return self._buffer[self._at : self._at + 2].lstrip(b"\r")[:1] == b"\n"

    def _next(self) -> int | None:
        """Move to the next byte that is not a blank, comma or colon and return it; None at the end."""
        while True:
            self._forget()
            blank = _BLANK.match(self._buffer, self._at)
            self._at = blank.end() if blank else self._at
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more():
                return None

    def _match(self, pattern: re.Pattern[bytes], longest: int) -> re.Match[bytes] | None:
        """Match the pattern here and consume the match; reads more while the match may be incomplete."""
        while True:
            match = pattern.match(self._buffer, self._at)
            if match is not None and match.end() < len(self._buffer):
                break
            if len(self._buffer) - self._at > longest or self._buffer.find(b"\n", self._at) >= 0:
                break
            if not self._more():
                break
        if match is not None:
            self._at = match.end()
        return match

    def _more(self) -> bool:
        block = b"" if self._ended else self._file.read(_BLOCK)
        self._ended = not block
        self._buffer += block
        return bool(block)

    def _forget(self) -> None:
        """Drop scanned bytes from the buffer, except those that may be an element's margin."""
        if self._at > _BLOCK:
            passed = self._at - _LOOK_BACK
            self._buffer, self._passed, self._at = self._buffer[passed:], self._passed + passed, _LOOK_BACK
