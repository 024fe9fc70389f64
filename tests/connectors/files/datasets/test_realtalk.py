from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.connectors.files.base.format import FormatError
from backscroll.connectors.files.datasets.realtalk import read
from backscroll.operators.messages import MessageError, Received, parse_message

SHARED = Path(__file__).resolve().parents[4].parent / "shared"
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the folder shared/ is not beside this checkout"
)
BENCH = sorted(SHARED.glob("bench/*/dialogues/realtalk-*.jsonl"))


def entry(dia_id: str, **more: Any) -> dict[str, Any]:
    time = "29.12.2023, 17:05:12"
    return {
        "clean_text": "hello",
        "speaker": "Ana",
        "date_time": time,
        "img_file": [],
        "dia_id": dia_id,
    } | more


def fields(item: Received) -> dict[str, Any]:
    assert isinstance(item.value, dict), item
    return item.value


def write(tmp_path: Path, document: Any, name: str = "Chat_12_Ana_Ben.json") -> Path:
    path = tmp_path / name
    path.write_bytes(orjson.dumps(document))
    return path


def test_entries_become_messages_and_sessions_are_read_in_numeric_order(tmp_path: Path) -> None:
    late = entry("D10:1", speaker="Ben Lee", clean_text="bye", date_time="01.02.2024, 00:00:00")
    path = write(
        tmp_path, {"name": {}, "session_10": [late], "events_session_2": [], "session_2": [entry("D2:1")]}
    )
    items = list(read(path))
    channel = {"channel": "realtalk-12"}
    assert [item.value for item in items] == [
        channel | {"id": "D2:1", "ts": "2023-12-29T17:05:12Z", "author": "Ana", "text": "hello"},
        channel | {"id": "D10:1", "ts": "2024-02-01T00:00:00Z", "author": "Ben Lee", "text": "bye"},
    ]
    assert items[1].origin == (("file", str(path)), ("entry", "session_10 D10:1"))
    assert items[1].raw == orjson.dumps(late)
    assert parse_message(fields(items[1])).key.channel == "realtalk-12"


@pytest.mark.parametrize(
    ("name", "channel"),
    [("Chat_3_Kevin_Paola.json", "realtalk-3"), ("Chat_3.json", "realtalk-3"), ("Our Chat.json", "our chat")],
)
def test_the_channel_is_the_chat_number_or_else_the_file_stem(
    tmp_path: Path, name: str, channel: str
) -> None:
    [item] = read(write(tmp_path, {"session_1": [entry("D1:1")]}, name))
    assert fields(item)["channel"] == channel


def test_a_caption_follows_the_text_or_stands_alone(tmp_path: Path) -> None:
    entries = [entry("D1:1", blip_caption="a cat"), entry("D1:2", clean_text="", blip_caption="a dog")]
    texts = [fields(item)["text"] for item in read(write(tmp_path, {"session_1": entries}))]
    assert texts == ["hello [shares image: a cat]", "[shares image: a dog]"]


def test_white_space_around_a_text_is_removed(tmp_path: Path) -> None:
    [item] = read(write(tmp_path, {"session_1": [entry("D1:1", clean_text="\n so\nodd 😓 ")]}))
    assert fields(item)["text"] == "so\nodd 😓"


def test_a_damaged_entry_does_not_affect_valid_ones(tmp_path: Path) -> None:
    damaged = [
        entry("D1:1"),
        entry("D1:2", speaker=None),
        entry("D1:3", date_time="2023-12-29 17:05:12"),
        entry("D1:4", date_time=1703869512),
        [],
        entry("D1:6", clean_text=None),
        entry("D1:7", speaker=" "),
        entry("D1:8"),
    ]
    path = write(tmp_path, {"session_1": damaged, "session_2": None, "session_3": [entry("D3:1")]})
    items = list(read(path))
    assert [fields(item)["id"] for item in items if isinstance(item.value, dict)] == ["D1:1", "D1:8", "D3:1"]
    assert [(i.origin[1][1], str(i.value)) for i in items if isinstance(i.value, MessageError)] == [
        ("session_1 D1:2", "speaker is missing"),
        ("session_1 D1:3", "date_time is '2023-12-29 17:05:12': expected a time like '29.12.2023, 17:05:12'"),
        ("session_1 D1:4", "date_time must be a string, not int"),
        ("session_1 message 5", "a message must be an object, not list"),
        ("session_1 D1:6", "clean_text is missing"),
        ("session_1 D1:7", "speaker is empty"),
        ("session_2", "session_2 must be a list of messages, not NoneType"),
    ]
    assert orjson.loads(items[2].raw) == damaged[2]


@pytest.mark.parametrize(
    "content", [b"", b"[", b"[]", b"{}", b'"x"', b'{"session_1": {}}', b'{"session_one": []}']
)
def test_a_file_in_another_format_is_refused_with_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(FormatError) as refused:
        list(read(path))
    assert str(refused.value).startswith(f"{path}: no")
    assert str(refused.value).endswith("(REALTALK)")
    assert "\n" not in str(refused.value)


KEYS = st.sampled_from(
    ["session_1", "session_02", "dia_id", "speaker", "clean_text", "date_time", "blip_caption"]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text()
    | st.just("29.12.2023, 17:05:12"),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=7)
    ),
    max_leaves=30,
)


@settings(database=None, deadline=None, max_examples=300)
@given(content=JSON.map(orjson.dumps) | JSON.map(lambda it: orjson.dumps({"session_1": [it]})) | st.binary())
def test_any_input_is_read_or_refused_without_a_crash(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-realtalk.json"
    path.write_bytes(content)
    try:
        items = list(read(path))
    except FormatError:
        return
    for item in items:
        assert isinstance(item.value, MessageError) or all(isinstance(v, str) for v in fields(item).values())
        orjson.dumps(dict(item.origin))


@needs_shared
def test_the_real_files_hold_all_chats_of_the_benchmark() -> None:
    assert [path.stem for path in BENCH] == [f"realtalk-{number}" for number in (2, 9, 10, 4, 7, 8)]
    ours: dict[str, list[Any]] = {}
    for chat in sorted((SHARED / "data/realtalk").glob("Chat_*.json")):
        for item in read(chat):
            ours.setdefault(fields(item)["channel"], []).append(item.value)
    assert (len(ours), sum(map(len, ours.values()))) == (10, 8944)
    for path in BENCH:
        assert ours[path.stem] == [orjson.loads(line) for line in path.read_bytes().splitlines()]
