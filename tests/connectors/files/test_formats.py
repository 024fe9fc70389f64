from __future__ import annotations

import os
from datetime import UTC
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.connectors.files import formats
from backscroll.connectors.files.formats import FORMATS, FormatError, check_file, detect_format, read_file
from backscroll.operators.messages import Received

SHARED = Path(__file__).resolve().parents[3].parent / "shared"
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the folder shared/ is not beside this checkout"
)

NAMES = [
    *("messages", "slack", "discord", "mattermost", "zulip", "matrix", "telegram", "whatsapp", "teams"),
    *("mbox", "irc", "locomo", "realtalk", "evermembench"),
]
MESSAGE = {"channel": "general", "id": "m1", "ts": "2026-03-02T09:00:00Z", "author": "Ana", "text": "hi"}
TURN = {"speaker": "Ana", "dia_id": "D1:1", "text": "hi"}
SESSIONS = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": [TURN]}
QUESTION = {"question": "What?", "answer": "That", "evidence": ["D1:1"], "category": 2}
LOCOMO = {"qa": [QUESTION], "conversation": SESSIONS, "sample_id": "conv-7"}
CHAT = {
    "name": {},
    "session_1": [{"clean_text": "hi", "speaker": "Ana", "date_time": "29.12.2023, 17:05:12"}],
}
DAY = {"topic_id": "01", "date": "2025-01-03", "dialogues": {"Group 1": None}}


def write(tmp_path: Path, content: bytes, name: str = "file") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def pretty(document: Any) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "messages"),
        (b"\n \n", "messages"),
        (orjson.dumps(MESSAGE), "messages"),
        (b"\xef\xbb\xbf" + orjson.dumps(MESSAGE) + b"\n", "messages"),
        (b"not JSON\n[]\n" + orjson.dumps(MESSAGE) + b"\nnot JSON\n", "messages"),
        (orjson.dumps({"op": "flush", "channel": "general", "ts": "2026-03-02T09:00:00Z"}), "messages"),
        (orjson.dumps(MESSAGE | {"text": "long " * 20_000}) + b"\n", "messages"),
        (orjson.dumps(MESSAGE | {"text": '"conversation": {"session_1": ['}), "messages"),
        (orjson.dumps([LOCOMO]), "locomo"),
        (pretty([LOCOMO]), "locomo"),
        (pretty(LOCOMO), "locomo"),
        (orjson.dumps(SESSIONS), "locomo"),
        (pretty([LOCOMO | {"qa": [QUESTION] * 1000}]), "locomo"),
        (b"\xef\xbb\xbf" + orjson.dumps(CHAT), "realtalk"),
        (pretty(CHAT), "realtalk"),
        (orjson.dumps([DAY]), "evermembench"),
        (pretty([DAY]), "evermembench"),
    ],
)
def test_the_format_is_detected_from_the_head_of_a_file(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    path = write(tmp_path, content)
    assert detect_format(path) == expected
    assert check_file(path) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"Dear diary\n",
        b"PK\x03\x04\x00",
        b"{}",
        b"[]",
        b'{"dialogue": "realtalk-4", "window": 3, "gaps": []}\n',
        orjson.dumps([MESSAGE]),
        b'x"conversation": {',
    ],
)
def test_a_file_in_no_known_format_is_refused_with_the_formats_to_choose_from(
    tmp_path: Path, content: bytes
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(FormatError) as refused:
        check_file(path)
    assert str(refused.value) == (
        f"{path}: format not recognised: expected one JSON message per line "
        '({"channel", "id", "ts", "author", "text"}) or an export listed in docs/readers.md; '
        f"you can also name the format: {', '.join(NAMES)}"
    )


def test_a_utf_16_file_is_refused_with_the_advice_to_save_it_as_utf_8(tmp_path: Path) -> None:
    path = write(tmp_path, orjson.dumps(MESSAGE).decode().encode("utf-16"))
    with pytest.raises(FormatError, match=r": is UTF-16 text: save it as UTF-8$"):
        check_file(path)


@pytest.mark.parametrize("format", ["auto", *FORMATS])
def test_a_file_that_cannot_be_read_is_refused_with_one_line(tmp_path: Path, format: str) -> None:
    refusals = {
        tmp_path / "none.jsonl": f"{tmp_path}/none.jsonl: no such file",
        tmp_path: f"{tmp_path}: is a directory, but not an export: name a file in it",
        tmp_path / "a\0b": f"{tmp_path}/a\0b: cannot be read: embedded null byte",
        write(tmp_path, b"") / "below": f"{tmp_path}/file/below: cannot be read: Not a directory",
    }
    for path, line in refusals.items():
        with pytest.raises(FormatError) as refused:
            check_file(path, format)
        assert str(refused.value) == line
        with pytest.raises(FormatError):
            read_file(path, format)  # at the call, not at the first item


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, orjson.dumps(MESSAGE))
    path.chmod(0)
    for format in ("auto", "messages"):
        with pytest.raises(FormatError, match=r": cannot be read: Permission denied$"):
            check_file(path, format)


def test_an_unknown_format_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as refused:
        check_file(write(tmp_path, b""), "icq")
    assert str(refused.value) == f"format 'icq' is unknown: use auto, {', '.join(NAMES)}"


def test_a_pipe_needs_a_named_format(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert check_file(path, "messages") == "messages"
    expected = r": is not a regular file: name its format, such as --format messages$"
    with pytest.raises(FormatError, match=expected):
        check_file(path)


def test_a_file_is_read_in_its_detected_format(tmp_path: Path) -> None:
    line = orjson.dumps(MESSAGE)
    path = write(tmp_path, line + b"\n")
    assert list(read_file(path)) == [Received(line, (("file", str(path)), ("line", 1)), line)]
    [turn] = read_file(write(tmp_path, orjson.dumps([LOCOMO])))
    assert turn.origin[1] == ("entry", "conv-7 session_1 D1:1")


def test_a_named_format_overrides_detection(tmp_path: Path) -> None:
    path = write(tmp_path, b"Dear diary\n")
    assert check_file(path, "messages") == "messages"
    assert [item.value for item in read_file(path, "messages")] == [b"Dear diary"]
    with pytest.raises(FormatError, match="not one JSON document"):
        list(read_file(path, "locomo"))


def test_a_file_name_that_is_not_utf_8_can_be_written_to_a_dead_letter(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/G\xfcnter.jsonl"))
    try:
        path.write_bytes(b"not JSON\n")
    except OSError:
        pytest.skip("this file system has no such names")
    [item] = read_file(path, "messages")
    assert orjson.loads(orjson.dumps(dict(item.origin)))["file"] == f"{tmp_path}/G\\xfcnter.jsonl"


def test_every_format_is_documented() -> None:
    assert sorted(formats.__all__) == [
        "FORMATS",
        "FormatError",
        "SKIPPED",
        "check_file",
        "detect_format",
        "read_file",
    ]
    assert list(FORMATS) == NAMES
    assert formats.__doc__ is not None
    assert all(f"    {name} " in formats.__doc__ for name in FORMATS)


FRAGMENTS = st.lists(
    st.sampled_from([orjson.dumps(part) for part in (MESSAGE, LOCOMO, CHAT, DAY, SESSIONS)])
    | st.sampled_from([b"[", b"]", b"{", b"}", b",", b"\n", b"\xef\xbb\xbf", b"\xff", b" "]),
    max_size=8,
).map(b"".join)


@settings(database=None, deadline=None, max_examples=300)
@given(content=st.binary() | FRAGMENTS)
def test_any_bytes_are_read_or_refused_without_a_crash(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-file"
    path.write_bytes(content)
    for format in ("auto", *FORMATS):
        try:
            items = list(read_file(path, format, tz=UTC))
        except FormatError:
            continue
        assert all(item.origin[0] == ("file", str(path)) for item in items)


@needs_shared
def test_the_real_files_are_recognised() -> None:
    found = {path: check_file(path) for path in sorted(SHARED.glob("data/*/*.json"))}
    assert sorted(found.values()) == ["locomo"] + ["realtalk"] * 10
    assert {check_file(path) for path in SHARED.glob("bench/*/dialogues/*.jsonl")} == {"messages"}
