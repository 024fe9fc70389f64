from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.partitioner import murmur2

from backscroll.connectors.kafka.connection import (
    KafkaConnection,
    KafkaError,
    RecordTooLargeError,
    TopicError,
    UndeliveredError,
)
from backscroll.connectors.kafka.delivery import Delivery, Record, partition_of
from backscroll.connectors.kafka.sink import KafkaDeadLetters, KafkaDebug, KafkaSink
from backscroll.operators.messages import ChannelKey, DeadLetter
from backscroll.operators.summary.record import Emission
from support.brokers import Broker, refused_sockets, running

pytestmark = refused_sockets

KEYS = [ChannelKey("acme", "general"), ChannelKey("acme", "dev/ops"), ChannelKey("default", "größe")]


def emission(key: ChannelKey = KEYS[0], first: int = 0, revision: int = 0, **fields: Any) -> Emission:
    name = f"{key}:{first}-{first + 9}:remember"
    body = {"version": 1, "summary_id": name, "revision": revision, "kind": "extractive", "summary": "s"}
    body |= {"gaps": [{"quote": "it"}], "memory": [{"id": "m1"}], **fields}
    return Emission(key, name, revision, json.dumps(body).encode())


def tombstone(of: Emission, revision: int) -> Emission:
    return Emission(of.key, of.summary_id, revision, None)


@contextmanager
def writing(sink: Any) -> Iterator[Any]:
    part = sink.build("summaries", 0, 1)
    try:
        yield part
    finally:
        part.close()


def keyed(*emissions: Emission) -> list[tuple[str, Emission]]:
    return [(str(item.key), item) for item in emissions]


def never() -> bool:
    return False


def summaries(
    broker: Broker,
    topic: str,
    kind: type[KafkaSink] = KafkaSink,
    *,
    refused: Callable[[], None] = lambda: pytest.fail("a record was refused"),
    stopping: Callable[[], bool] = never,
) -> KafkaSink:
    letters = KafkaDeadLetters(broker.connection, f"{topic}-letters", stopping=stopping)
    return kind(broker.connection, topic, dead_letters=letters, on_refused=refused, stopping=stopping)


@pytest.mark.parametrize(
    ("data", "hashed"),
    [  # org.apache.kafka.common.utils.UtilsTest.testMurmur2
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_the_java_client(data: bytes, hashed: int) -> None:
    assert murmur2(data) == hashed & 0xFFFFFFFF
    assert partition_of(data.decode(), 7) == (hashed & 0x7FFFFFFF) % 7


def test_a_summary_has_its_id_as_key_its_channels_partition_and_headers(broker: Broker, topic: str) -> None:
    broker.create(topic, 8)
    made = [emission(key, first) for key in KEYS for first in (0, 10)]
    with writing(summaries(broker, topic)) as part:
        part.write_batch(keyed(*made))
    records = {record.key.decode(): record for record in broker.read(topic, 6)}
    assert records.keys() == {item.summary_id for item in made}
    for item in made:
        record = records[item.summary_id]
        assert record.value == item.body
        assert record.partition == partition_of(str(item.key), 8)
        assert dict(record.headers) == {
            "backscroll-version": b"1",
            "backscroll-kind": b"extractive",
            "backscroll-revision": b"0",
        }


def test_a_summary_goes_to_the_partition_of_messages_keyed_by_its_channel(broker: Broker, topic: str) -> None:
    broker.create(topic, 8)
    with KafkaProducer(bootstrap_servers=broker.address) as producer:
        landed = [producer.send(topic, b"{}", key=str(key).encode()).get(10).partition for key in KEYS]
    assert landed == [partition_of(str(key), 8) for key in KEYS]


def test_a_window_without_messages_becomes_a_tombstone_after_its_revisions(
    broker: Broker, topic: str
) -> None:
    broker.create(topic, 2)
    first = emission()
    again = emission(revision=1, kind="abstractive")
    with writing(summaries(broker, topic)) as part:
        part.write_batch(keyed(first, again))
        part.write_batch(keyed(tombstone(first, 2)))
        part.write_batch([])
    records = broker.read(topic, 3)
    assert [record.value for record in records] == [first.body, again.body, None]
    assert {record.key for record in records} == {first.summary_id.encode()}
    assert [dict(record.headers)["backscroll-revision"] for record in records] == [b"0", b"1", b"2"]
    kinds = [dict(record.headers)["backscroll-kind"] for record in records]
    assert kinds == [b"extractive", b"abstractive", b"tombstone"]


def test_the_debug_stream_has_gaps_and_memory_but_no_summary(broker: Broker, topic: str) -> None:
    broker.create(topic, 2)
    made = emission(revision=3)
    with writing(summaries(broker, topic, KafkaDebug)) as part:
        part.write_batch(keyed(made, tombstone(made, 4)))
    shown, gone = broker.read(topic, 2)
    assert json.loads(shown.value) == {
        "summary_id": made.summary_id,
        "revision": 3,
        "gaps": [{"quote": "it"}],
        "memory": [{"id": "m1"}],
    }
    assert (shown.key, gone.value, gone.partition) == (gone.key, None, shown.partition)


def test_a_dead_letter_keeps_bytes_key_and_headers_and_gives_the_reason(broker: Broker, topic: str) -> None:
    broker.create(topic)
    letter = DeadLetter(
        (("topic", "messages"), ("partition", 3), ("offset", 17)),
        "not JSON: größe",
        b"\xff{",
        b"acme/general",
        (("trace", b"1"),),
    )
    with writing(KafkaDeadLetters(broker.connection, topic, stopping=never)) as part:
        part.write_batch([letter])
    (record,) = broker.read(topic, 1)
    assert (record.value, record.key) == (b"\xff{", b"acme/general")
    assert record.headers == [
        ("trace", b"1"),
        ("backscroll-reason", "not JSON: größe".encode()),
        ("backscroll-topic", b"messages"),
        ("backscroll-partition", b"3"),
        ("backscroll-offset", b"17"),
    ]


def test_the_dead_letter_of_a_window_without_a_summary_is_json(broker: Broker, topic: str) -> None:
    broker.create(topic)
    letter = DeadLetter((("window", "acme/general:0-9"),), "the model refuses", b"")
    with writing(KafkaDeadLetters(broker.connection, topic, stopping=never)) as part:
        part.write_batch([letter])
    (record,) = broker.read(topic, 1)
    assert record.value == letter.to_json()
    assert dict(record.headers)["backscroll-window"] == b"acme/general:0-9"


@pytest.mark.parametrize("size", [2_000_000, 17_000_000], ids=["broker", "client"])
@pytest.mark.parametrize("kind", [KafkaSink, KafkaDebug])
def test_a_summary_that_is_too_large_becomes_a_dead_letter_and_a_tombstone_in_order(
    tmp_path: Path, topic: str, kind: type[KafkaSink], size: int
) -> None:
    """On noida only: Tansu accepts records of any size. The client itself accepts 16 MiB."""
    with running("noida", tmp_path) as broker:
        broker.create(topic)
        broker.create(f"{topic}-letters")
        large, counted = emission(revision=3, summary="x" * size, gaps=["x" * size]), list[int]()
        with writing(summaries(broker, topic, kind, refused=lambda: counted.append(1))) as part:
            part.write_batch(keyed(emission(first=50), large, emission(first=60)))
            part.write_batch(keyed(emission(first=70)))
        records = broker.read(topic, 4)
        assert [record.key.decode().split(":")[1] for record in records] == ["50-59", "0-9", "60-69", "70-79"]
        assert [record.value is None for record in records] == [False, True, False, False]
        assert dict(records[1].headers) == {
            "backscroll-version": b"1",
            "backscroll-kind": b"tombstone",
            "backscroll-revision": b"3",
        }
        (letter,) = broker.read(f"{topic}-letters", 1)
        body = json.loads(letter.value)
        assert re.fullmatch(
            rf"summary: [\d,]+ bytes exceed the limit of topic '{topic}': raise its max\.message\.bytes",
            body["reason"],
        )
        assert (body["window"], body["raw"]) == (large.summary_id, "")
        assert dict(letter.headers) == {
            "backscroll-reason": body["reason"].encode(),
            "backscroll-window": large.summary_id.encode(),
        }
        assert counted == [1]


def test_a_summary_that_is_too_large_stays_undelivered_if_its_dead_letter_cannot_be_written(
    tmp_path: Path, topic: str
) -> None:
    with running("noida", tmp_path) as broker:
        broker.create(topic)
        with (
            writing(summaries(broker, topic)) as part,
            pytest.raises(TopicError, match=f"topic '{topic}-letters' does not exist"),
        ):
            part.write_batch(keyed(emission(summary="x" * 2_000_000)))


@pytest.mark.parametrize("where", ["value", "key"])
def test_a_dead_letter_that_is_too_large_is_written_without_its_bytes(
    tmp_path: Path, topic: str, where: str
) -> None:
    with running("noida", tmp_path) as broker:
        broker.create(topic)
        origin = (("topic", "messages"), ("offset", 1))
        value, key = (b"x" * 2_000_000, b"k") if where == "value" else (b"x", b"k" * 2_000_000)
        letters = [DeadLetter(origin, "bad", b"small"), DeadLetter(origin, "bad", value, key)]
        with writing(KafkaDeadLetters(broker.connection, topic, stopping=never)) as part:
            part.write_batch([*letters, DeadLetter(origin, "bad", b"after")])
        small, large, after = broker.read(topic, 3)
        assert (small.value, large.value, after.value) == (b"small", b"", b"after")
        assert large.key == (b"k" if where == "value" else None)
        assert b"bytes" in dict(large.headers)["backscroll-omitted"]
        assert dict(large.headers)["backscroll-reason"] == b"bad"


def test_a_dead_letter_with_large_headers_is_written_without_them(tmp_path: Path, topic: str) -> None:
    """Also if the input is itself a dead letter written without its bytes."""
    with running("noida", tmp_path) as broker:
        broker.create(topic)
        headers = (
            ("backscroll-omitted", b"9"),
            ("h" * 2_000_000, b"1"),
            ("big", b"x" * 2_000_000),
            ("trace", b"1"),
        )
        many = tuple((f"many-{number}", b"x" * 4000) for number in range(500))
        with writing(KafkaDeadLetters(broker.connection, topic, stopping=never)) as part:
            for its in (headers, many):
                part.write_batch([DeadLetter((("topic", "messages"),), "bad", b"{", None, its)])
        first, second = broker.read(topic, 2)
        ours = [("backscroll-reason", b"bad"), ("backscroll-topic", b"messages")]
        assert first.headers == [
            ("backscroll-omitted", b"9"),
            ("trace", b"1"),
            *ours,
            ("backscroll-omitted", b"4000074 bytes"),
        ]
        assert second.headers[-3:-1] == ours
        assert len(second.headers) == 17
        assert (first.value, second.value) == (b"", b"")


def test_a_dead_letter_that_cannot_be_shortened_enough_is_an_error(tmp_path: Path, topic: str) -> None:
    with running("noida", tmp_path) as broker:
        broker.create(topic, **{"max.message.bytes": "100"})
        with (
            writing(KafkaDeadLetters(broker.connection, topic, stopping=never)) as part,
            pytest.raises(RecordTooLargeError) as caught,
        ):
            part.write_batch([DeadLetter((("topic", "messages"), ("offset", 1)), "bad " * 50, b"{")])
        assert str(caught.value).startswith("topic messages offset 1: 2")
        assert str(caught.value).endswith(
            f" bytes exceed the limit of topic {topic!r}: raise its max.message.bytes"
        )


def test_everything_arrives_in_order_if_the_broker_restarts_during_writing(
    own_broker: Broker, topic: str
) -> None:
    own_broker.create(topic, 2)
    batches = [[emission(first=10 * number, revision=r) for r in (0, 1)] for number in range(4)]
    failures: list[BaseException] = []
    with writing(summaries(own_broker, topic)) as part:
        part.write_batch(keyed(*batches[0]))
        own_broker.kill() if own_broker.kind == "tansu" else own_broker.stop()

        def write() -> None:
            try:
                for batch in batches[1:]:
                    part.write_batch(keyed(*batch))
            except BaseException as err:
                failures.append(err)

        writer = threading.Thread(target=write)
        writer.start()
        writer.join(0.3)
        assert writer.is_alive(), failures
        own_broker.start()
        if own_broker.kind == "tansu":  # it keeps nothing
            own_broker.create(topic, 2)
        writer.join(60)
    assert (failures, writer.is_alive()) == ([], False)
    written = batches[1:] if own_broker.kind == "tansu" else batches
    expected = [item.body for batch in written for item in batch]
    bodies = [record.value for record in own_broker.read(topic, len(expected))]
    assert list(dict.fromkeys(bodies)) == expected


def test_stopping_does_not_wait_for_an_unreachable_broker(own_broker: Broker, topic: str) -> None:
    own_broker.create(topic)
    stop = threading.Event()
    with writing(summaries(own_broker, topic, stopping=stop.is_set)) as part:
        part.write_batch(keyed(emission()))
        own_broker.kill()
        stop.set()
        began = time.monotonic()
        with pytest.raises(UndeliveredError, match="3 records will be sent again after a restart"):
            part.write_batch(keyed(*(emission(first=first) for first in (10, 20, 30))))
        assert time.monotonic() - began < 5
        with pytest.raises(UndeliveredError, match="1 records"):
            part.write_batch(keyed(emission(first=40)))


def test_stopping_still_delivers_the_last_records_to_a_reachable_broker(broker: Broker, topic: str) -> None:
    broker.create(topic)
    with writing(summaries(broker, topic, stopping=lambda: True)) as part:
        part.write_batch(keyed(emission(first=0), emission(first=10)))
    assert len(broker.read(topic, 2)) == 2


def test_building_a_sink_without_its_topic_is_an_error(broker: Broker) -> None:
    with pytest.raises(TopicError, match="topic 'nowhere' does not exist"):
        summaries(broker, "nowhere").build("summaries", 0, 1)


def test_a_record_that_the_broker_always_rejects_is_an_error_not_an_endless_loop(
    tmp_path: Path, topic: str
) -> None:
    """A compacted topic rejects records without a key; on noida only."""
    with running("noida", tmp_path) as broker:
        broker.create(topic, **{"cleanup.policy": "compact"})

        def refuse(record: Record) -> Record:
            raise AssertionError(record.name)

        delivery = Delivery(broker.connection, topic, stopping=never, too_large=refuse)
        try:
            with pytest.raises(KafkaError, match=r"rejected line 3 .* \(InvalidRecordError\)"):
                delivery.deliver([Record("line 2", b"{}", b"k"), Record("line 3", b"{}")])
        finally:
            delivery.close()


def test_a_connection_is_printed_as_its_brokers() -> None:
    assert str(KafkaConnection(brokers=("a:1", "b:2"))) == "a:1,b:2"
