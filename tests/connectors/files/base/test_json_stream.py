from __future__ import annotations

import doctest
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.connectors.chat.slack import text as slack_text
from backscroll.connectors.files.base import html_text, json_stream
from backscroll.connectors.files.base.json_stream import (
    MAX_ELEMENT_BYTES,
    parse_element,
    stream_json,
    stream_rows,
)
from backscroll.connectors.files.exports import whatsapp_dates
from backscroll.operators.messages import MessageError

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
WRITTEN = ({"indent": None}, {"indent": 0}, {"indent": 1}, {"indent": 4}, {"indent": "\t"})


@pytest.mark.parametrize("module", [html_text, json_stream, slack_text, whatsapp_dates])
def test_the_examples_in_docstrings_work(module: Any) -> None:
    found = doctest.testmod(module)
    assert (found.failed, found.attempted > 0) == (0, True)


@settings(database=None, deadline=None, max_examples=150)
@given(
    messages=st.lists(VALUES, max_size=5),
    name=VALUES,
    written=st.sampled_from(WRITTEN),
    plain=st.booleans(),
    end=st.sampled_from(["", "\n", "\r\n"]),
)
def test_streaming_a_document_yields_the_elements_it_was_written_from(
    messages: list[Any], name: Any, written: dict[str, Any], plain: bool, end: str
) -> None:
    text = json.dumps({"name": name, "messages": messages, "count": 3}, ensure_ascii=plain, **written) + end
    content = text.replace("\n", end or "\n").encode("utf-8", "surrogatepass")
    elements = list(stream_json(BytesIO(content), [("messages", "*")]))
    assert [json.loads(e.raw) for e in elements if e.path == ("messages", "*")] == messages
    assert [json.loads(e.raw) for e in elements if e.path == ("name",)] == [name]
    assert [e.raw for e in elements if e.path == ("count",)] == [b"3"]
    assert all(content[e.offset : e.offset + len(e.raw)] == e.raw for e in elements)


@settings(database=None, deadline=None, max_examples=200)
@given(content=st.binary() | st.text('{}[]",: \n\\a1').map(str.encode))
def test_any_bytes_yield_elements_in_order_without_overlap(content: bytes) -> None:
    behind = 0
    for element in stream_json(BytesIO(content), [("messages", "*"), ("*",)]):
        assert element.offset >= behind
        assert content.startswith(element.raw, element.offset)
        behind = element.offset + len(element.raw)


def test_nested_lists_are_read_with_the_fields_before_them() -> None:
    document = {
        "chats": {"list": [{"name": "a", "messages": [1, {"b": [2]}]}, {"name": "c", "messages": []}]}
    }
    elements = stream_json(BytesIO(json.dumps(document).encode()), [("chats", "list", "*", "messages", "*")])
    assert [(element.path[-2:], element.raw) for element in elements] == [
        (("*", "name"), b'"a"'),
        (("messages", "*"), b"1"),
        (("messages", "*"), b'{"b": [2]}'),
        (("*", "name"), b'"c"'),
    ]


def test_an_overlong_element_is_reported_without_memory_use_or_loss_of_others() -> None:
    class Endless:
        """A list of a short, a very long and a short element, generated while it is read."""

        def __init__(self) -> None:
            long = (b'"' + b"x" * ((1 << 20) - 3) + b'", ' for _ in range((MAX_ELEMENT_BYTES >> 20) + 4))
            self._parts = iter([b'[{"a": 1}, {"long": [', *long, b'""]}, {"b": 2}]'])

        def read(self, size: int) -> bytes:
            del size
            return next(self._parts, b"")

    short, long, last = stream_json(Endless(), [("*",)])  # type: ignore[arg-type]
    assert (short.raw, last.raw) == (b'{"a": 1}', b'{"b": 2}')
    assert (long.too_long, len(long.raw)) == (True, 64 * 1024)
    with pytest.raises(MessageError, match=r"^the entry is longer than 16,777,216 bytes$"):
        parse_element(long)


@pytest.mark.parametrize(
    "content",
    [
        b'{"value": [{"a": 1}, {"a": 2}]}',
        b'{"value": [\n{"a": 1},\n{"a": 2}\n]}',
        b'{"a": 1}\n{"a": 2}\n',
        b'{"a": \n{"a": 1}\n{"a": 2}\n',
    ],
)
def test_rows_are_read_from_a_document_or_from_lines(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(content)
    rows = [element.raw for element in stream_rows(path, [("value", "*")])]
    assert rows[-2:] == [b'{"a": 1}', b'{"a": 2}']
