from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from backscroll.connectors.kafka.delivery import partition_of
from backscroll.flows.commands.replay_into_kafka import message_json, run_into
from backscroll.flows.settings.settings import Settings
from backscroll.flows.terminal.errors import UserError
from backscroll.operators.messages import parse_message
from support.brokers import Broker, refused_sockets
from support.commands import run

pytestmark = refused_sockets

MESSAGES = [
    {"channel": "general", "id": "m1", "ts": "2026-03-02T10:00:00+01:00", "author": "Ana", "text": "hello"},
    {"namespace": "acme", "channel": "dev/ops", "id": "m1", "ts": "2026-03-02T09:00:30Z"}
    | {"author": {"id": "u2", "name": "Bot", "bot": True}, "text": "", "thread": "t", "permalink": "p"},
    {"op": "edit", "channel": "general", "id": "m1", "ts": "2026-03-02T09:01:00Z", "author": "Ana"}
    | {"text": "hello!", "reply_to": "m0"},
    {"op": "delete", "channel": "general", "id": "m1", "ts": "2026-03-02T09:02:00Z"},
    {"op": "flush", "channel": "general", "ts": "2026-03-02T09:03:00Z"},
]


def chat(path: Path, *lines: object) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize("fields", MESSAGES)
def test_a_normalised_message_reads_as_the_same_message(fields: dict[str, object]) -> None:
    message = parse_message(fields)
    assert parse_message(message_json(message)) == message


def test_a_file_goes_into_a_topic_keyed_by_channel(broker: Broker, topic: str, tmp_path: Path) -> None:
    broker.create(topic, 4)
    path = chat(tmp_path / "chat.jsonl", *MESSAGES)
    done = run("replay", path, "--into", f"kafka://{broker.address}/{topic}", cwd=tmp_path)
    assert done.stdout == ""
    assert f"5 messages into {topic} in " in done.stderr
    assert "rejected" not in done.stderr
    records = broker.read(topic, 5)
    assert {record.key for record in records} == {b"default/general", b"acme/dev%2Fops"}
    assert all(record.partition == partition_of(record.key.decode(), 4) for record in records)
    general = [record.value for record in records if record.key == b"default/general"]
    wanted = [parse_message(fields) for fields in MESSAGES if fields["channel"] == "general"]
    assert [parse_message(value) for value in general] == wanted


def test_the_namespace_comes_from_the_settings(broker: Broker, topic: str, tmp_path: Path) -> None:
    broker.create(topic)
    path = chat(tmp_path / "chat.jsonl", MESSAGES[0])
    run("replay", path, "--namespace", "mine", "--into", f"kafka://{broker.address}/{topic}", cwd=tmp_path)
    (record,) = broker.read(topic, 1)
    assert record.key == b"mine/general"


def test_the_pace_follows_the_timestamps(broker: Broker, topic: str, tmp_path: Path) -> None:
    broker.create(topic)
    path = chat(tmp_path / "chat.jsonl", *(MESSAGES[number] for number in (0, 2, 3)))
    began = time.monotonic()
    into = f"kafka://{broker.address}/{topic}"
    run("replay", path, "--into", into, "--speed", 100, cwd=tmp_path)
    assert time.monotonic() - began > 1.2  # two minutes of chat
    first, second, third = (record.timestamp for record in broker.read(topic, 3))
    assert second - first == pytest.approx(600, abs=250)
    assert third - second == pytest.approx(600, abs=250)


def test_damaged_entries_go_to_the_file_of_dead_letters(broker: Broker, topic: str, tmp_path: Path) -> None:
    broker.create(topic)
    path = chat(tmp_path / "chat.jsonl", "{broken", MESSAGES[0], {**MESSAGES[0], "ts": "yesterday"})
    letters = tmp_path / "rejected.jsonl"
    into = f"kafka://{broker.address}/{topic}"
    done = run("replay", path, "--into", into, "--dead-letters", letters)
    assert f"1 message into {topic}" in done.stderr
    assert "2 rejected: see" in done.stderr
    lines = [json.loads(line) for line in letters.read_text().splitlines()]
    assert [(line["line"], line["raw"][:7]) for line in lines] == [(1, "{broken"), (3, '{"chann')]
    assert len(broker.read(topic, 1)) == 1


@pytest.mark.parametrize(
    "into", ["messages", "kafka://host:9092", "kafka://host:9092/a/b", "http://host:9092/messages"]
)
def test_a_target_is_a_url_of_brokers_and_a_topic(into: str, tmp_path: Path) -> None:
    path = chat(tmp_path / "chat.jsonl", MESSAGES[0])
    with pytest.raises(UserError) as caught:
        run_into([path], Settings(), into, format="auto", dead_letters=None, speed=None)
    assert caught.value.message == f"--into {into}: write it as kafka://host:port/topic"


@pytest.mark.parametrize("target", ["host:9092/messages", "host:9092"])
def test_a_password_in_the_url_is_refused(tmp_path: Path, target: str) -> None:
    path = chat(tmp_path / "chat.jsonl", MESSAGES[0])
    into = f"kafka://ana:hunter2@{target}"
    with pytest.raises(UserError, match="remove the login from the URL") as caught:
        run_into([path], Settings(), into, format="auto", dead_letters=None, speed=None)
    assert "hunter2" not in caught.value.message


def test_summary_options_are_refused(tmp_path: Path) -> None:
    path = chat(tmp_path / "chat.jsonl", MESSAGES[0])
    done = run("replay", path, "--into", "kafka://h:1/t", "--out", tmp_path / "out.jsonl", check=False)
    assert done.returncode == 2
    assert "--into only sends the messages: remove --out, --detected and --workers" in done.stderr


def test_an_unknown_topic_and_a_missing_file_give_one_line_errors(broker: Broker, tmp_path: Path) -> None:
    path = chat(tmp_path / "chat.jsonl", MESSAGES[0])
    into = f"kafka://{broker.address}/nowhere"
    done = run("replay", path, "--into", into, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "topic 'nowhere' does not exist" in done.stderr
    done = run("replay", tmp_path / "none.jsonl", "--into", into, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "no such file" in done.stderr
