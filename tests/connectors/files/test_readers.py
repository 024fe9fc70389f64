"""Export readers against golden files: what they read, and what is lost if a file is damaged."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.connectors.files.formats import FormatError, check_file
from backscroll.operators.messages import MessageError, parse_message
from support.golden import BERLIN, FOLDERS, GOLDEN, inputs, packed, read, values
from support.reader_fuzz import fuzz

INPUTS = inputs()
SAMPLES = [path for path in (GOLDEN.parents[2] / "samples").glob("*.jsonl") if ".gaps" not in path.name]
FUZZ_INPUTS = int(os.environ.get("FUZZ_INPUTS", "12"))  # of each golden file
DAMAGED = (
    b'{"id": "',
    b"null",
    b'"words"',
    b'{"a": [1}',
    b"}{",
    b'{"text": 7, "ts": {}, "id": [], "author": 0}',
)


def ids(case: tuple[str, Path]) -> str:
    return f"{case[0]}-{case[1].name}"


def ids_of_path(path: Path) -> str:
    return path.stem


def expected(format: str, path: Path) -> dict[str, Any]:
    known = json.loads((GOLDEN / "expected" / f"{format}.json").read_text(encoding="utf-8"))
    found = known[path.relative_to(GOLDEN / format).as_posix()]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("case", INPUTS, ids=ids)
def test_an_export_is_recognised_and_read_as_expected(case: tuple[str, Path]) -> None:
    format, path = case
    assert check_file(path, tz=BERLIN) == format
    items, skipped = read(path)
    assert {"messages": [item.value for item in items], "skipped": skipped} == expected(format, path)


@pytest.mark.parametrize("case", INPUTS, ids=ids)
def test_the_engine_accepts_every_message_of_an_export(case: tuple[str, Path]) -> None:
    messages = [parse_message(value) for value in values(read(case[1])[0])]
    assert len({(message.key, message.id) for message in messages}) == len(messages)
    in_channels: dict[Any, list[Any]] = {}
    for message in messages:
        in_channels.setdefault(message.key, []).append(message.ts)
    assert all(times == sorted(times) for times in in_channels.values())


@pytest.mark.parametrize("path", SAMPLES, ids=ids_of_path)
def test_a_sample_chat_is_one_channel_sorted_by_time(path: Path) -> None:
    messages = [parse_message(line) for line in path.read_bytes().splitlines()]
    assert {str(message.key) for message in messages} == {str(messages[0].key)}
    assert len({message.id for message in messages}) == len(messages)
    assert [message.ts for message in messages] == sorted(message.ts for message in messages)


def test_every_format_has_golden_files() -> None:
    assert {format for format, _ in INPUTS} == {
        *("slack", "discord", "mattermost", "zulip", "matrix"),
        *("telegram", "whatsapp", "irc", "mbox", "teams"),
    }


@pytest.mark.parametrize(
    ("format", "name"), [("slack", "export.zip"), ("zulip", "export.tar.gz"), ("zulip", "export.zip")]
)
def test_an_archive_reads_the_same_as_its_unpacked_folder(tmp_path: Path, format: str, name: str) -> None:
    archive = packed(GOLDEN / format, tmp_path / name)
    assert check_file(archive) == format
    items, skipped = read(archive)
    assert {"messages": values(items), "skipped": skipped} == expected(format, GOLDEN / format)


@pytest.mark.parametrize(
    ("format", "name"), [("whatsapp", "WhatsApp Chat with Harbor crew.txt"), ("mattermost", "export.jsonl")]
)
def test_a_zipped_file_reads_the_same_as_the_file(tmp_path: Path, format: str, name: str) -> None:
    content = (GOLDEN / format / name).read_bytes()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(content)
    (tmp_path / "in" / "IMG-1.jpg").write_bytes(b"\xff\xd8")
    archive = packed(tmp_path / "in", tmp_path / f"{Path(name).stem}.zip")
    assert check_file(archive, tz=BERLIN) == format
    assert values(read(archive)[0]) == expected(format, GOLDEN / format / name)["messages"]


@pytest.mark.parametrize("case", [case for case in INPUTS if case[0] in ("whatsapp", "irc")], ids=ids)
def test_local_times_need_a_time_zone(case: tuple[str, Path]) -> None:
    for format in ("auto", case[0]):
        with pytest.raises(FormatError) as refused:
            check_file(case[1], format)
        assert str(refused.value) == (
            f"{case[1]}: its times have no time zone: set one, such as --tz Europe/Berlin"
        )


def test_telegram_needs_a_time_zone_only_for_exports_without_unix_times() -> None:
    assert check_file(GOLDEN / "telegram" / "result.json") == "telegram"
    with pytest.raises(FormatError, match=r"--tz Europe/Berlin$"):
        check_file(GOLDEN / "telegram" / "before-2022.json")


def test_a_telegram_export_of_all_chats_is_recognised_despite_many_contacts(tmp_path: Path) -> None:
    document = json.loads((GOLDEN / "telegram" / "all-chats.json").read_bytes())
    document["contacts"]["list"] = [{"user_id": n, "first_name": "Ana", "date": "2026"} for n in range(3000)]
    path = _write(tmp_path / "result.json", json.dumps(document, indent=1).encode())
    assert check_file(path, tz=BERLIN) == "telegram"
    assert values(read(path)[0]) == expected("telegram", GOLDEN / "telegram" / "all-chats.json")["messages"]


def test_a_folder_that_is_not_an_export_is_refused(tmp_path: Path) -> None:
    for format in ("auto", "messages", "slack", "zulip", "irc"):
        with pytest.raises(FormatError, match=r"is a directory, but not an export: name a file in it$"):
            check_file(tmp_path, format, BERLIN)


def test_a_pipe_is_refused_for_a_format_that_is_read_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(
        FormatError, match=r"not a regular file, but whatsapp is read twice: save it to a file first$"
    ):
        check_file(pipe, "whatsapp", BERLIN)
    assert check_file(pipe, "irc", BERLIN) == "irc"


def list_of(path: Path) -> list[str]:
    """The path of keys from the top to the list of messages."""
    return {
        "discord": ["messages"],
        "telegram": ["messages"],
        "matrix": ["messages"],
        "teams": ["value"],
    }.get(path.parent.name, [])


ONE_LIST = [
    GOLDEN / "discord" / "general.json",
    GOLDEN / "telegram" / "result.json",
    GOLDEN / "matrix" / "element.json",
    GOLDEN / "teams" / "harbor.json",
    GOLDEN / "slack" / "general" / "2026-03-02.json",
]


def _without(document: Any, keys: list[str], index: int, indent: int | None) -> tuple[bytes, Any]:
    """The document with a mark in place of one message, and that message."""
    document = json.loads(json.dumps(document))
    messages = document[keys[0]] if keys else document
    removed, messages[index] = messages[index], "HERE"
    return json.dumps(document, indent=indent).encode(), removed


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("path", ONE_LIST, ids=lambda path: path.parent.name)
def test_a_damaged_message_does_not_affect_other_messages(
    tmp_path: Path, path: Path, indent: int | None
) -> None:
    """With balanced brackets in any file; with unbalanced ones in an indented file."""
    document, keys = json.loads(path.read_bytes()), list_of(path)
    format = "slack" if "slack" in path.parts else path.parent.name
    found = expected(format, GOLDEN / "slack" if format == "slack" else path)
    whole, entries = found["messages"], len(found["messages"]) + sum(found["skipped"].values())
    unbalanced = (0, 4) if indent is None else ()
    for index in range(len(document[keys[0]] if keys else document)):
        for number, damage in enumerate(DAMAGED):
            marked, removed = _without(document, keys, index, indent)
            if number in unbalanced or _changes_others(removed):
                continue
            content = marked.replace(b'"HERE"', damage)
            if format == "slack":
                target = _slack_with(tmp_path, path, content)
            else:
                target = tmp_path / path.name
                target.write_bytes(content)
            items, skipped = read(target, format)
            lost = [value for value in whole if value not in values(items)]
            assert [value["id"] for value in lost] in ([], [_id(removed)]), (index, damage)
            assert len(items) + sum(skipped.values()) == entries, "nothing goes without being said"


def _changes_others(message: dict[str, Any]) -> bool:
    """Whether other messages depend on it: it names people, edits, deletes, or links to the workspace."""
    relation = (message.get("content") or {}) if isinstance(message.get("content"), dict) else {}
    return (
        message.get("type") in ("m.room.member", "m.room.redaction")
        or (relation.get("m.relates_to") or {}).get("rel_type") == "m.replace"
        or "files" in message
    )


def _id(message: dict[str, Any]) -> str:
    return str(message.get("event_id") or message.get("id") or message.get("ts"))


def _slack_with(tmp_path: Path, path: Path, content: bytes) -> Path:
    folder = tmp_path / "slack"
    if not folder.exists():
        shutil.copytree(GOLDEN / "slack", folder)
    (folder / path.relative_to(GOLDEN / "slack")).write_bytes(content)
    return folder


def discord(count: int) -> bytes:
    """An indented export of this many messages."""
    messages = [
        {
            "id": str(number),
            "type": "Default",
            "timestamp": f"2026-03-02T09:{number:02}:00+00:00",
            "content": f'the "crane" {{{number}}} [is] \\ back\n',
            "author": {"id": "7", "name": "ana", "roles": [{"id": "1"}]},
            "attachments": [],
            "mentions": [],
        }
        for number in range(count)
    ]
    document = {"guild": {"id": "1"}, "channel": {"id": "2", "name": "general"}, "messages": messages}
    return json.dumps(document, indent=2).encode()


@settings(database=None, deadline=None, max_examples=80)
@given(data=st.data())
def test_one_wrong_byte_loses_at_most_its_message_and_a_neighbour(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content, count = discord(8), 8
    begins = [content.index(b'{\n      "id": "%d"' % number) for number in range(count)]
    at = data.draw(st.integers(begins[1], begins[7] - 1))
    inserted = data.draw(
        st.sampled_from([b"", b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b",", b"\0", b"\xff"])
    )
    cut = data.draw(st.integers(0, 1))
    path = tmp_path_factory.getbasetemp() / "one-wrong-byte.json"
    path.write_bytes(content[:at] + inserted + content[at + cut :])
    hit = sum(begin <= at for begin in begins) - 1
    whole = {
        value["id"]: value
        for value in values(read(_write(path.with_suffix(".whole"), content), "discord")[0])
    }
    left = {value["id"]: value for value in values(read(path, "discord")[0])}
    for number in set(range(count)) - {hit - 1, hit, hit + 1}:
        assert left.get(str(number)) == whole[str(number)], (at, hit, number)


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("cut", range(100, 1900, 300))
def test_a_truncated_download_is_read_up_to_the_cut(tmp_path: Path, cut: int) -> None:
    content = discord(8)
    items, _ = read(_write(tmp_path / "general.json", content[:cut]), "discord")
    complete = sum(content[:cut].count(b"\n    }" + end) for end in (b",", b"\n"))
    assert [value["id"] for value in values(items)] == [str(number) for number in range(complete)]


@pytest.mark.parametrize("case", INPUTS, ids=ids)
def test_damaged_exports_never_crash_their_reader(case: tuple[str, Path]) -> None:
    """To try more: FUZZ_INPUTS=2000 pytest -k never_crash, or tests/support/reader_fuzz.py."""
    assert fuzz(*case, FUZZ_INPUTS * (3 if case[0] in FOLDERS else 1), seed=8) == 0


def test_a_dead_letter_holds_the_original_bytes_of_the_file(tmp_path: Path) -> None:
    lines = (GOLDEN / "mattermost" / "export.jsonl").read_bytes().splitlines(keepends=True)
    path = _write(tmp_path / "export.jsonl", b"".join([*lines[:6], b"not JSON\n", *lines[6:]]))
    items, _ = read(path)
    [letter] = [item for item in items if isinstance(item.value, MessageError)]
    assert (letter.raw, dict(letter.origin)) == (b"not JSON", {"file": str(path), "entry": "line 7"})
    assert len(items) == 1 + len(expected("mattermost", GOLDEN / "mattermost" / "export.jsonl")["messages"])
    assert orjson.dumps(dict(letter.origin))
