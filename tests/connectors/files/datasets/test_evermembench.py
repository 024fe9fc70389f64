from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.connectors.files.base.format import FormatError
from backscroll.connectors.files.datasets.evermembench import read
from backscroll.operators.messages import MessageError, Received, parse_message


def said(index: Any, time: Any = "2025-01-03 09:32:15", **more: Any) -> dict[str, Any]:
    return {"speaker": "Ana Li", "time": time, "dialogue": "hello", "message_index": index} | more


def day(date: str, topic: str = "01", **groups: Any) -> dict[str, Any]:
    named = {f"Group {number}": groups.get(f"group_{number}") for number in (1, 2, 3)}
    return {"topic_id": topic, "date": date, "dialogues": named}


def write(tmp_path: Path, document: Any, name: str = "01/dialogue.json") -> Path:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(orjson.dumps(document))
    return path


def fields(item: Received) -> dict[str, Any]:
    assert isinstance(item.value, dict), item
    return item.value


def values(path: Path) -> list[Any]:
    return [item.value for item in read(path) if isinstance(item.value, dict)]


def errors(path: Path) -> list[tuple[str | int, str]]:
    return [
        (item.origin[1][1], str(item.value)) for item in read(path) if isinstance(item.value, MessageError)
    ]


def test_each_group_becomes_a_channel_with_ids_of_date_group_and_index(tmp_path: Path) -> None:
    first, second = said(17), said(1, "2025-01-03T09:40:00", speaker="Ben", dialogue="")
    path = write(tmp_path, [day("2025-01-03", group_1=[first], group_3=[second])])
    items = list(read(path))
    assert [item.value for item in items] == [
        {
            "channel": "01-group-1",
            "id": "2025-01-03:Group 1:17",
            "ts": "2025-01-03T09:32:15Z",
            "author": "Ana Li",
            "text": "hello",
        },
        {
            "channel": "01-group-3",
            "id": "2025-01-03:Group 3:1",
            "ts": "2025-01-03T09:40:00Z",
            "author": "Ben",
            "text": "",
        },
    ]
    assert items[0].origin == (("file", str(path)), ("entry", "2025-01-03:Group 1:17"))
    assert items[0].raw == orjson.dumps(first)
    assert parse_message(values(path)[1]).id == "2025-01-03:Group 3:1"


def test_messages_of_a_channel_are_sorted_by_date_and_index(tmp_path: Path) -> None:
    later = [
        said(10, "2025-01-04 08:00:00"),
        said(2, "2025-01-04 09:00:00"),
        said("3", "2025-01-04 08:30:00"),
    ]
    path = write(tmp_path, [day("2025-01-04", group_1=later), day("2025-01-03", group_1=[said(5)])])
    assert [value["id"] for value in values(path)] == [
        "2025-01-03:Group 1:5",
        "2025-01-04:Group 1:2",
        "2025-01-04:Group 1:3",
        "2025-01-04:Group 1:10",
    ]


def test_channels_are_merged_by_time(tmp_path: Path) -> None:
    one = [said(1, "2025-01-03 09:00:00"), said(2, "2025-01-03 12:00:00")]
    two = [said(1, "2025-01-03 10:00:00"), said(2, "2025-01-03 09:30:00"), said(3, "2025-01-03 13:00:00")]
    path = write(tmp_path, [day("2025-01-03", group_1=one, group_2=two)])
    assert [value["id"].partition(":")[2] for value in values(path)] == [
        "Group 1:1",
        "Group 2:1",
        "Group 2:2",
        "Group 1:2",
        "Group 2:3",
    ]


@pytest.mark.parametrize(
    ("time", "ts"),
    [
        ("09:32", "2025-01-03T09:32:00Z"),
        ("2025-01-03T23:30:00-02:00", "2025-01-04T01:30:00Z"),
        ("2025-01-03 09:32:15.250", "2025-01-03T09:32:15.250000Z"),
    ],
)
def test_times_of_day_and_time_zones_are_parsed(tmp_path: Path, time: str, ts: str) -> None:
    [value] = values(write(tmp_path, [day("2025-01-03", group_1=[said(1, time)])]))
    assert value["ts"] == ts


@pytest.mark.parametrize(
    ("name", "channel"),
    [("Topic 02/dialogue.json", "topic 02-group-1"), ("02/Topic_03.json", "topic_03-group-1")],
)
def test_the_topic_is_the_folder_of_a_dialogue_file_or_else_the_file_name(
    tmp_path: Path, name: str, channel: str
) -> None:
    [value] = values(write(tmp_path, [day("2025-01-03", group_1=[said(1)])], name))
    assert value["channel"] == channel


def test_a_relative_path_gives_the_same_channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, [day("2025-01-03", group_1=[said(1)])])
    monkeypatch.chdir(path.parent)
    assert values(Path("dialogue.json")) == values(path)


def test_ids_include_the_topic_if_days_share_a_date(tmp_path: Path) -> None:
    document = [
        day("2025-01-03", "01", group_1=[said(1), said(1, dialogue="again")]),
        day("2025-01-03", "02", group_1=[said(1)]),
        day("2025-01-04", "02", group_1=[said(1)]),
    ]
    assert [(value["id"], value["text"]) for value in values(write(tmp_path, document))] == [
        ("01:2025-01-03:Group 1:1", "hello"),
        ("01:2025-01-03:Group 1:1#2", "again"),
        ("02:2025-01-03:Group 1:1", "hello"),
        ("2025-01-04:Group 1:1", "hello"),
    ]


def test_a_damaged_entry_does_not_affect_valid_ones(tmp_path: Path) -> None:
    damaged = [
        said(1),
        {"time": "2025-01-03 09:00:00", "dialogue": "who?", "message_index": 2},
        said(None),
        said(True),
        7,
        said(6, "noon"),
        said(7, dialogue=["hello"]),
        said(8),
    ]
    document = [
        "no day",
        day("3 January 2025", group_1=[said(1)]),
        {"date": "2025-01-03"},
        day("2025-01-03", group_1=damaged, group_2="silence", group_3=[said(1)]),
    ]
    path = write(tmp_path, document)
    assert [value["id"] for value in values(path)] == [
        "2025-01-03:Group 1:1",
        "2025-01-03:Group 1:8",
        "2025-01-03:Group 3:1",
    ]
    assert errors(path) == [
        ("day 1", "a day must be an object, not str"),
        ("day 2", "date is '3 January 2025': expected a date like '2025-01-03'"),
        ("day 3", "dialogues must be an object of groups, not NoneType"),
        ("2025-01-03:Group 2", "a group must be a list of messages, not str"),
        ("2025-01-03:Group 1:2", "speaker is missing"),
        ("2025-01-03:Group 1 message 3", "message_index must be a whole number, not NoneType"),
        ("2025-01-03:Group 1 message 4", "message_index must be a whole number, not bool"),
        ("2025-01-03:Group 1 message 5", "a message must be an object, not int"),
        ("2025-01-03:Group 1:6", "time is 'noon': expected a time like '2025-01-09 09:32:15'"),
        ("2025-01-03:Group 1:7", "dialogue must be a string, not list"),
    ]


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"[]", b"{}", b'{"dialogues": {}}', b'[{"date": "2025-01-03"}]']
)
def test_a_file_in_another_format_is_refused_with_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(FormatError) as refused:
        list(read(path))
    assert str(refused.value).startswith(f"{path}: no")
    assert str(refused.value).endswith("(EverMemBench)")
    assert "\n" not in str(refused.value)


KEYS = st.sampled_from(
    ["date", "dialogues", "topic_id", "Group 1", "speaker", "time", "dialogue", "message_index"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.just("2025-01-03"),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=8)
    ),
    max_leaves=30,
)
DAYS = JSON.map(lambda it: [day("2025-01-03", group_1=[it, said(1)]), it, day("2025-01-03", group_1=it)])


@settings(database=None, deadline=None, max_examples=300)
@given(content=JSON.map(orjson.dumps) | DAYS.map(orjson.dumps) | st.binary())
def test_any_input_is_read_or_refused_without_a_crash(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-evermembench.json"
    path.write_bytes(content)
    try:
        items = list(read(path))
    except FormatError:
        return
    found = [item.value for item in items if isinstance(item.value, dict)]
    assert len({(value["channel"], value["id"]) for value in found}) == len(found)
    for item in items:
        assert isinstance(item.value, MessageError) or all(isinstance(v, str) for v in fields(item).values())
        orjson.dumps(dict(item.origin))
