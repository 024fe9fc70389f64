from __future__ import annotations

import tracemalloc
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.connectors.files.base.format import FormatError
from backscroll.connectors.files.base.jsonl import MAX_LINE_BYTES, read
from backscroll.operators.messages import MessageError, Received, parse_message

ANA = b'{"channel": "general", "id": "m1", "ts": "2026-03-02T09:00:00Z", "author": "Ana", "text": "hi"}'
BEN = (
    '{"channel": "general", "id": "m2", "ts": "2026-03-02T09:01:00Z", "author": "Bén", "text": "ja"}'.encode()
)


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "chat.jsonl"
    path.write_bytes(content)
    return path


def test_each_non_blank_line_is_one_message(tmp_path: Path) -> None:
    path = write(tmp_path, ANA + b"\n\n  \t\r\n" + BEN + b"\n")
    file = ("file", str(path))
    assert list(read(path)) == [
        Received(ANA, (file, ("line", 1)), ANA),
        Received(BEN, (file, ("line", 4)), BEN),
    ]
    assert [parse_message(item.raw).id for item in read(path)] == ["m1", "m2"]


def test_the_last_line_needs_no_line_break(tmp_path: Path) -> None:
    assert [item.value for item in read(write(tmp_path, ANA + b"\r\n" + BEN))] == [ANA, BEN]


def test_a_byte_order_mark_at_the_start_is_dropped(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbf" + ANA + b"\n")
    assert [(item.value, item.raw) for item in read(path)] == [(ANA, ANA)]


def test_a_file_with_only_a_byte_order_mark_is_empty(tmp_path: Path) -> None:
    assert list(read(write(tmp_path, b"\xef\xbb\xbf\n"))) == []
    assert list(read(write(tmp_path, b""))) == []


def test_a_bad_line_does_not_affect_valid_messages(tmp_path: Path) -> None:
    items = list(read(write(tmp_path, ANA + b"\nG\xfcnter\nnot JSON\n" + BEN + b"\n")))
    assert [item.raw for item in items] == [ANA, b"G\xfcnter", b"not JSON", BEN]
    assert isinstance(items[1].value, MessageError)
    assert str(items[1].value) == "not UTF-8: invalid start byte at byte 1 of the line"
    assert items[1].origin[1] == ("line", 2)
    assert items[2].value == b"not JSON"
    assert items[3].value == BEN


def test_a_line_of_the_maximum_length_is_read(tmp_path: Path) -> None:
    longest = b"x" * MAX_LINE_BYTES
    assert [item.value for item in read(write(tmp_path, longest + b"\n" + ANA))] == [longest, ANA]
    assert [item.value for item in read(write(tmp_path, longest))] == [longest]


@pytest.mark.parametrize("end", [b"\n" + ANA, b""])
def test_an_overlong_line_does_not_affect_other_lines(tmp_path: Path, end: bytes) -> None:
    path = write(tmp_path, BEN + b"\n" + b"x" * (MAX_LINE_BYTES + 1) + end)
    items = list(read(path))
    assert [item.origin[1][1] for item in items] == [1, 2, 3][: 3 if end else 2]
    assert isinstance(items[1].value, MessageError)
    assert str(items[1].value) == (
        "the line is longer than 8,388,608 bytes: expected one JSON message per line"
    )
    assert items[1].raw == b"x" * 65_536
    assert [item.value for item in items[2:]] == ([ANA] if end else [])


def test_only_one_line_is_held_in_memory(tmp_path: Path) -> None:
    path = write(tmp_path, b"x" * (5 * MAX_LINE_BYTES) + b"\n" + (ANA + b"\n") * 50_000)
    tracemalloc.start()
    count = sum(1 for _ in read(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 50_001
    assert peak < 3 * MAX_LINE_BYTES


def test_a_missing_file_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"^\S+/none\.jsonl: cannot be read: No such file or directory$"):
        next(read(tmp_path / "none.jsonl"))


@settings(database=None, deadline=None, max_examples=200)
@given(
    content=st.binary(max_size=200)
    | st.lists(st.sampled_from([b"\n", b"\r", ANA, b"\xff", b"{"])).map(b"".join)
)
def test_any_bytes_are_split_into_their_lines(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(content)
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    kept = [(n, line.removesuffix(b"\r")) for n, line in enumerate(lines, start=1) if line.strip()]
    items = list(read(path))
    assert [(item.origin[1][1], item.raw) for item in items] == kept
    for item in items:
        assert item.value == item.raw or isinstance(item.value, MessageError)
        assert orjson.loads(orjson.dumps(dict(item.origin))) == {"file": str(path), "line": item.origin[1][1]}
