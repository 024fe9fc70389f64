from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.connectors.files.base.format import FormatError
from backscroll.connectors.files.datasets.locomo import read
from backscroll.operators.messages import MessageError, Received, parse_message

SHARED = Path(__file__).resolve().parents[4].parent / "shared"
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the folder shared/ is not beside this checkout"
)
BENCH = sorted(SHARED.glob("bench/*/dialogues/locomo-*.jsonl"))


def turn(dia_id: str, speaker: str = "Ana", text: object = "hello", **more: Any) -> dict[str, Any]:
    return {"speaker": speaker, "dia_id": dia_id, "text": text, **more}


def sample(**sessions: Any) -> dict[str, Any]:
    conversation = {"speaker_a": "Ana", "speaker_b": "Ben", "session_1_date_time": "1:56 pm on 8 May, 2023"}
    return {"qa": [], "conversation": conversation | sessions, "sample_id": "conv-7"}


def fields(item: Received) -> dict[str, Any]:
    assert isinstance(item.value, dict), item
    return item.value


def write(tmp_path: Path, document: Any, name: str = "locomo10.json") -> Path:
    path = tmp_path / name
    path.write_bytes(orjson.dumps(document))
    return path


def errors(path: Path) -> list[tuple[str | int, str]]:
    return [
        (item.origin[1][1], str(item.value)) for item in read(path) if isinstance(item.value, MessageError)
    ]


def test_each_turn_is_dated_a_minute_after_the_one_before(tmp_path: Path) -> None:
    first, second = turn("D1:1"), turn("D1:2", "Ben", "hi\n ")
    path = write(tmp_path, [sample(session_1=[first, second])])
    items = list(read(path))
    assert [item.value for item in items] == [
        {
            "channel": "locomo-conv-7",
            "id": "D1:1",
            "ts": "2023-05-08T13:56:00Z",
            "author": "Ana",
            "text": "hello",
        },
        {
            "channel": "locomo-conv-7",
            "id": "D1:2",
            "ts": "2023-05-08T13:57:00Z",
            "author": "Ben",
            "text": "hi\n ",
        },
    ]
    assert items[1].origin == (("file", str(path)), ("entry", "conv-7 session_1 D1:2"))
    assert [item.raw for item in items] == [orjson.dumps(first), orjson.dumps(second)]
    assert parse_message(fields(items[0])).author.name == "Ana"


def test_a_caption_follows_the_text_or_stands_alone(tmp_path: Path) -> None:
    turns = [
        turn("D1:1", text="look", blip_caption="a photo of a dog"),
        turn("D1:2", text="  ", blip_caption="a cat"),
        {"speaker": "Ana", "dia_id": "D1:3", "blip_caption": "a cow"},
        turn("D1:4", text="no picture", blip_caption=""),
    ]
    texts = [fields(item)["text"] for item in read(write(tmp_path, sample(session_1=turns)))]
    assert texts == [
        "look [shares image: a photo of a dog]",
        "[shares image: a cat]",
        "[shares image: a cow]",
        "no picture",
    ]


def test_sessions_are_read_in_numeric_order(tmp_path: Path) -> None:
    dates = {f"session_{n}_date_time": f"12:05 am on {n} June, 2023" for n in (2, 10)}
    path = write(tmp_path, [sample(session_10=[turn("D10:1")], session_2=[turn("D2:1")], **dates)])
    assert [(fields(item)["id"], fields(item)["ts"]) for item in read(path)] == [
        ("D2:1", "2023-06-02T00:05:00Z"),
        ("D10:1", "2023-06-10T00:05:00Z"),
    ]


def test_a_single_conversation_needs_no_list_around_it(tmp_path: Path) -> None:
    listed = list(read(write(tmp_path, [sample(session_1=[turn("D1:1")])])))
    single = list(read(write(tmp_path, sample(session_1=[turn("D1:1")]))))
    assert single == listed


def test_a_conversation_without_a_name_is_named_after_its_file(tmp_path: Path) -> None:
    bare = sample(session_1=[turn("D1:1")])["conversation"]
    [item] = read(write(tmp_path, bare, "Trip.json"))
    assert fields(item)["channel"] == "locomo-trip"
    channels = [fields(item)["channel"] for item in read(write(tmp_path, [bare, bare], "Trip.json"))]
    assert channels == ["locomo-trip-1", "locomo-trip-2"]


def test_a_damaged_entry_does_not_affect_valid_ones(tmp_path: Path) -> None:
    damaged = [
        turn("D1:1"),
        {"dia_id": "D1:2", "text": "who?"},
        "a string",
        turn("D1:4", text=7),
        {"speaker": "Ana", "text": "no id"},
        turn("D1:6", blip_caption=["a", "b"]),
        turn("D1:7"),
    ]
    document = ["no conversation", sample(session_1=damaged, session_2={}, session_3=[turn("D3:1")])]
    path = write(tmp_path, document)
    valid = [item.value for item in read(path) if isinstance(item.value, dict)]
    assert [(value["id"], value["ts"]) for value in valid] == [
        ("D1:1", "2023-05-08T13:56:00Z"),
        ("D1:7", "2023-05-08T14:02:00Z"),
    ]
    assert errors(path) == [
        ("conversation 1", "not a conversation: expected session_1, session_2, ..."),
        ("conv-7 session_1 D1:2", "speaker is missing"),
        ("conv-7 session_1 turn 3", "a message must be an object, not str"),
        ("conv-7 session_1 D1:4", "text must be a string, not int"),
        ("conv-7 session_1 turn 5", "dia_id is missing"),
        ("conv-7 session_1 D1:6", "blip_caption must be a string, not list"),
        ("conv-7 session_2", "session_2 must be a list of turns, not dict"),
        ("conv-7 session_3 D3:1", "session_3_date_time is missing"),
    ]


@pytest.mark.parametrize("date", ["8 May 2023", "13:56 pm on 8 May, 2023", "1:56 pm on 31 June, 2023"])
def test_the_error_for_an_unreadable_date_shows_a_valid_one(tmp_path: Path, date: str) -> None:
    path = write(tmp_path, sample(session_1=[turn("D1:1")], session_1_date_time=date))
    reason = f"session_1_date_time is {date!r}: expected a time like '1:56 pm on 8 May, 2023'"
    assert errors(path) == [("conv-7 session_1 D1:1", reason)]


def test_a_turn_after_the_last_possible_time_is_an_error(tmp_path: Path) -> None:
    end = "11:59 pm on 31 December, 9999"
    path = write(tmp_path, sample(session_1=[turn("D1:1"), turn("D1:2")], session_1_date_time=end))
    assert [where for where, _ in errors(path)] == ["conv-7 session_1 D1:2"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"3", b'{"conversation": {}}', b"[1]\n[2]\n"])
def test_a_file_in_another_format_is_refused_with_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(FormatError) as refused:
        list(read(path))
    assert str(refused.value).startswith(f"{path}: no")
    assert str(refused.value).endswith("(LoCoMo)")
    assert "\n" not in str(refused.value)


KEYS = st.sampled_from(
    ["conversation", "session_1", "session_1_date_time", "dia_id", "speaker", "text", "sample_id"]
)
SCALARS = (
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers(-(2**63), 2**64 - 1) | st.text()
)
JSON = st.recursive(
    SCALARS | st.just("1:56 pm on 8 May, 2023"),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=30,
)


@settings(database=None, deadline=None, max_examples=300)
@given(
    content=JSON.map(orjson.dumps) | JSON.map(lambda it: orjson.dumps(sample(session_1=[it]))) | st.binary()
)
def test_any_input_is_read_or_refused_without_a_crash(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-locomo.json"
    path.write_bytes(content)
    try:
        items = list(read(path))
    except FormatError:
        return
    for item in items:
        assert isinstance(item.value, MessageError) or all(isinstance(v, str) for v in fields(item).values())
        orjson.dumps(dict(item.origin))


def test_an_entry_nested_too_deeply_to_serialise_is_still_read(tmp_path: Path) -> None:
    deep = b'{"speaker": "Ana", "dia_id": "D1:1", "text": "hello", "more": ' + b"[" * 900 + b"]" * 900 + b"}"
    path = tmp_path / "deep.json"
    path.write_bytes(orjson.dumps(sample(session_1=["HERE"])).replace(b'"HERE"', deep))
    [item] = read(path)
    assert fields(item)["text"] == "hello"
    assert item.raw == b""


@needs_shared
def test_the_real_files_hold_all_dialogues_of_the_benchmark() -> None:
    assert [path.stem for path in BENCH] == [f"locomo-conv-{number}" for number in (43, 50, 41, 48, 26, 30)]
    ours: dict[str, list[Any]] = {}
    for item in read(SHARED / "data/locomo/locomo10.json"):
        ours.setdefault(fields(item)["channel"], []).append(item.value)
    assert (len(ours), sum(map(len, ours.values()))) == (10, 5882)
    for path in BENCH:
        assert ours[path.stem] == [orjson.loads(line) for line in path.read_bytes().splitlines()]
