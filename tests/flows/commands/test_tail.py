from __future__ import annotations

import json
import select
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from backscroll.connectors.kafka.sink import KafkaDeadLetters, KafkaSink
from backscroll.operators.messages import ChannelKey
from backscroll.operators.summary.record import Emission, Summary
from support.brokers import Broker, refused_sockets, running, wait_for
from support.commands import BACKSCROLL, run

pytestmark = refused_sockets

EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "summary-record.md"
GENERAL, OPS = ChannelKey("default", "general"), ChannelKey("acme", "dev/ops")


def emission(key: ChannelKey, first: int, revision: int = 0) -> Emission:
    """A record as the documentation shows it, for a channel of the test's own."""
    record = json.loads(EXAMPLE.read_text(encoding="utf-8").split("```json\n")[1].split("```")[0])
    name = f"{key}:{first}-{first + 9}:remember"
    record |= {"summary_id": name, "revision": revision, "namespace": key.namespace, "channel": key.channel}
    record["summary"] = f"Summary {first} of {key.channel}."
    Summary.from_json(json.dumps(record).encode())
    return Emission(key, name, revision, json.dumps(record).encode())


@pytest.fixture
def summaries(broker: Broker, topic: str) -> str:
    """A topic with summaries of two channels, one of them updated and another withdrawn."""
    broker.create(topic)
    made = [emission(GENERAL, 0), emission(OPS, 0), emission(GENERAL, 10), emission(GENERAL, 0, 1)]
    gone = Emission(GENERAL, made[2].summary_id, 1, None)
    write(broker, topic, *made, gone)
    return topic


def write(broker: Broker, topic: str, *emissions: Emission) -> None:
    letters = KafkaDeadLetters(broker.connection, f"{topic}-letters", stopping=lambda: False)
    sink = KafkaSink(
        broker.connection,
        topic,
        dead_letters=letters,
        on_refused=lambda: pytest.fail("a summary was refused"),
        stopping=lambda: False,
    )
    part = sink.build("summaries", 0, 1)
    part.write_batch([(str(item.key), item) for item in emissions])
    part.close()


def tail(broker: Broker, topic: str, *arguments: object) -> list[str]:
    done = run("tail", "--brokers", broker.address, "--summaries", topic, *arguments)
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_existing_summaries_are_printed_as_json_lines(broker: Broker, summaries: str) -> None:
    lines = [json.loads(line) for line in tail(broker, summaries, "--from", "earliest", "--limit", 5)]
    assert [line.get("summary") for line in lines] == [
        "Summary 0 of general.",
        "Summary 0 of dev/ops.",
        "Summary 10 of general.",
        "Summary 0 of general.",
        None,
    ]
    gone = {"summary_id": "default/general:10-19:remember", "revision": 1, "tombstone": True}
    assert lines[4] == gone


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        ("acme/dev%2Fops", ["Summary 0 of dev/ops."]),
        ("general", ["Summary 0 of general."]),
        ("#general", ["Summary 0 of general."]),
    ],
)
def test_one_channel_can_be_selected_with_or_without_its_namespace(
    broker: Broker, summaries: str, channel: str, expected: list[str]
) -> None:
    lines = tail(broker, summaries, "--from", "earliest", "--channel", channel, "--limit", 1)
    assert [json.loads(line)["summary"] for line in lines] == expected


def test_a_channel_with_a_hash_is_shown_until_one_without_is_seen(broker: Broker, topic: str) -> None:
    broker.create(topic)
    dock = [ChannelKey("default", name) for name in ("#dock", "dock", "#dock", "dock")]
    write(broker, topic, *(emission(key, at * 10) for at, key in enumerate(dock)))
    lines = tail(broker, topic, "--from", "earliest", "--channel", "dock", "--limit", 3)
    assert [json.loads(line)["summary"] for line in lines] == [
        "Summary 0 of #dock.",
        "Summary 10 of dock.",
        "Summary 30 of dock.",
    ]
    lines = tail(broker, topic, "--from", "earliest", "--channel", "#dock", "--limit", 2)
    assert [json.loads(line)["summary"] for line in lines] == ["Summary 0 of #dock.", "Summary 20 of #dock."]


def test_cards_say_which_summaries_were_updated_or_withdrawn(broker: Broker, summaries: str) -> None:
    lines = tail(broker, summaries, "--from", "earliest", "--as", "cards", "--limit", 5)
    text = "\n".join(lines)
    again = "default/general:0-9:remember: revision 1, updated because its messages changed"
    assert lines.count(again) == 1
    assert lines[-1] == "default/general:10-19:remember: withdrawn because all its messages were deleted"
    assert text.count("Summary 0 of general.") == 2
    assert text.count("Summary 10 of general.") == 1


def test_an_interrupt_ends_it_quietly_after_what_arrived(tmp_path: Path, topic: str) -> None:
    """On noida only: Tansu reports the end of a partition incorrectly."""
    with running("noida", tmp_path) as broker:
        broker.create(topic)
        write(broker, topic, emission(GENERAL, 0))
        command = [str(BACKSCROLL), "tail", "--brokers", broker.address, "--summaries", topic]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            count = 10

            def arrived() -> Any:
                nonlocal count
                write(broker, topic, emission(GENERAL, count))
                count += 10
                return select.select([process.stdout], [], [], 0.5)[0]

            wait_for(arrived, seconds=60, what="the first summary after the start")
            first = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=20)
        assert first["summary"] != "Summary 0 of general."
        assert (process.returncode, errors) == (0, b"")
        assert b"tombstone" not in rest


def test_a_record_that_is_not_a_summary_is_reported_and_skipped(broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.write(topic, b"not a record", key=b"k")
    write(broker, topic, emission(GENERAL, 0))
    names = ["--brokers", broker.address, "--summaries", topic, "--from", "earliest"]
    done = run("tail", *names, "--as", "cards", "--limit", 2)
    assert done.stderr.strip() == f"{topic}[0] offset 0: not a summary record that this version can read"
    assert "Summary 0 of general." in done.stdout


def test_a_missing_topic_ends_it_with_a_one_line_error(broker: Broker) -> None:
    done = run("tail", "--brokers", broker.address, "--summaries", "nowhere", check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: topic 'nowhere' does not exist")
    assert len(done.stderr.splitlines()) == 1
