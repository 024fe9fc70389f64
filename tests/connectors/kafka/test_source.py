from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
import pytest
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import TestingSink, cluster_main
from kafka import KafkaProducer, TopicPartition
from kafka import codec as codecs
from kafka.record import default_records

from backscroll.connectors.kafka import source as kafka_source
from backscroll.connectors.kafka.connection import BatchError, KafkaError, OffsetError, TopicError
from backscroll.connectors.kafka.source import KafkaSource
from backscroll.operators.messages import MessageError, Received, parse_message
from backscroll.operators.runtime.feed import Feed
from support.brokers import Broker, refused_sockets, running, wait_for

pytestmark = refused_sockets


@dataclass
class Engine:
    """A feed that records what the source reports."""

    throttled: bool = False
    stopping: bool = False
    failures: list[Exception] = field(default_factory=list)
    lost: list[tuple[str, int, int]] = field(default_factory=list)
    ends: list[tuple[str, bool]] = field(default_factory=list)

    @property
    def feed(self) -> Feed:
        return Feed(
            throttled=lambda: self.throttled,
            stopping=lambda: self.stopping,
            fail=self.failures.append,
            lost=lambda *what: self.lost.append(what),
            at_end=lambda *what: self.ends.append(what),
        )


def message(number: int, **fields: Any) -> bytes:
    ts = f"2026-03-02T09:00:{number:02}Z"
    return json.dumps(
        {"channel": "general", "id": f"m{number}", "ts": ts, "author": "Ana", "text": "x", **fields}
    ).encode()


@contextmanager
def reading(
    broker: Broker,
    topic: str,
    engine: Engine | None = None,
    *,
    partition: int = 0,
    resume: Any = None,
    **options: Any,
) -> Iterator[Any]:
    engine = engine or Engine()
    source = KafkaSource(broker.connection, [topic], feed=engine.feed, **options)
    part = source.build_part("messages", f"{topic}:{partition}", resume)
    try:
        yield part
    finally:
        part.close()


def take(part: Any, count: int, *, seconds: float = 20.0) -> list[Received]:
    found: list[Received] = []
    wait_for(
        lambda: found.extend(part.next_batch()) or len(found) >= count,
        seconds=seconds,
        what=f"{count} messages",
    )
    return found


def ids(received: Sequence[Received]) -> list[str]:
    return [parse_message(item.value).id for item in received if not isinstance(item.value, MessageError)]


def test_every_partition_of_every_topic_is_a_partition(broker: Broker, topic: str) -> None:
    broker.create(topic, 3)
    broker.create(f"{topic}-b", 1)
    source = KafkaSource(broker.connection, [topic, f"{topic}-b", topic], feed=Engine().feed)
    assert source.list_parts() == [f"{topic}:0", f"{topic}:1", f"{topic}:2", f"{topic}-b:0"]


def test_the_error_for_an_unknown_topic_names_the_command_that_creates_it(broker: Broker) -> None:
    source = KafkaSource(broker.connection, ["nowhere"], feed=Engine().feed)
    with pytest.raises(TopicError, match=r"topic 'nowhere' does not exist on .*backscroll topics create"):
        source.list_parts()
    with pytest.raises(TopicError):  # asking did not create it
        source.list_parts()


def test_a_received_record_has_its_origin_bytes_key_and_headers(broker: Broker, topic: str) -> None:
    broker.create(topic, 2)
    broker.write(topic, message(1), partition=1, key=b"k", headers=[("trace", b"1"), ("trace", b"2")])
    with reading(broker, topic, partition=1) as part:
        (item,) = take(part, 1)
    assert item.value == json.loads(message(1))
    assert item.raw == message(1)
    assert item.origin == (("topic", topic), ("partition", 1), ("offset", 0))
    assert (item.part, item.key) == (f"{topic}:1", b"k")
    assert item.headers == (("trace", b"1"), ("trace", b"2"))


def send_compressed(broker: Broker, topic: str, codec: str, *values: bytes) -> None:
    """Write values as one batch, as a producer with `compression.type` does."""
    options = {"linger_ms": 1000, "batch_size": 1 << 20, "compression_type": codec}
    with KafkaProducer(bootstrap_servers=broker.address, **options) as producer:
        sent = [producer.send(topic, value, partition=0) for value in values]
        producer.flush()
        for future in sent:
            future.get(10)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_compressed_topic_is_read_as_written(broker: Broker, topic: str, codec: str) -> None:
    broker.create(topic)
    written = [message(number, text=f"{number} " + "largo " * 20_000) for number in range(5)]
    send_compressed(broker, topic, codec, *written)
    with reading(broker, topic) as part:
        received = take(part, 5)
    assert [item.raw for item in received] == written
    assert [dict(item.origin)["offset"] for item in received] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("codec", "package"), [("snappy", "python-snappy"), ("lz4", "lz4"), ("zstd", "zstandard")]
)
def test_a_missing_codec_stops_the_flow_with_one_line_and_loses_nothing(
    broker: Broker, topic: str, codec: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create(topic)
    broker.write(topic, *(message(number) for number in range(3)))
    send_compressed(broker, topic, codec, message(3), message(4))
    engine = Engine()
    with monkeypatch.context() as without, reading(broker, topic, engine) as part:
        without.setattr(codecs, codec, None)
        assert ids(take(part, 3)) == ["m0", "m1", "m2"]
        wait_for(lambda: ended(part), what="the end of the input")
        state = part.snapshot()
    (failure,) = engine.failures
    assert isinstance(failure, BatchError)
    assert str(failure) == (
        f"{topic}[0]: the records at offset 3 are compressed with a codec that is not installed: "
        f"pip install {package}"
    )
    with reading(broker, topic, resume=state) as part:
        assert ids(take(part, 2)) == ["m3", "m4"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_undecodable_records_stop_the_flow_with_one_line(
    broker: Broker, topic: str, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create(topic)
    broker.write(topic, message(0))
    with monkeypatch.context() as broken:  # a producer that corrupts what it compresses
        broken.setattr(default_records, f"{codec}_encode", lambda _: b"private words")
        send_compressed(broker, topic, codec, message(1), message(2))
    stops_at_offset_one(broker, topic)


def test_records_with_a_wrong_checksum_stop_the_flow_with_one_line(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create(topic)
    broker.write(topic, message(0))
    send_compressed(broker, topic, "gzip", message(1), message(2))
    validate = default_records.DefaultRecordBatch.validate_crc
    monkeypatch.setattr(
        default_records.DefaultRecordBatch,
        "validate_crc",
        lambda batch: batch.base_offset != 1 and validate(batch),
    )
    stops_at_offset_one(broker, topic)


def stops_at_offset_one(broker: Broker, topic: str) -> None:
    engine = Engine()
    with reading(broker, topic, engine) as part:
        assert ids(take(part, 1)) == ["m0"]
        wait_for(lambda: ended(part), what="the end of the input")
        assert part.snapshot()[1] == 1
    (failure,) = engine.failures
    assert isinstance(failure, BatchError)
    line = str(failure)
    assert line.startswith(f"{topic}[0]: the records at offset 1 are corrupt (")
    assert line.endswith(
        "): restore them from another replica, or delete them with kafka-delete-records and set "
        "on_lost_offset to earliest"
    )
    assert "private" not in line


def test_a_value_that_is_not_a_json_object_stays_bytes_and_a_missing_value_is_an_error(
    broker: Broker, topic: str
) -> None:
    broker.create(topic)
    broker.write(topic, b"{broken", b"[1]", b"\xff", None, b"", key=b"general")
    with reading(broker, topic) as part:
        received = take(part, 5)
    assert [item.value for item in received[:3]] == [b"{broken", b"[1]", b"\xff"]
    assert isinstance(received[3].value, MessageError)
    assert str(received[3].value) == "the record has no value: expected a JSON object"
    assert (received[3].raw, received[4].value) == (b"", b"")


def test_a_message_without_a_channel_takes_it_from_the_key(broker: Broker, topic: str) -> None:
    broker.create(topic)
    bare = json.dumps({"id": "m1"}).encode()
    broker.write(topic, bare, key=b"acme/dev%2Fops")
    broker.write(topic, bare, key=b"general")
    broker.write(topic, json.dumps({"id": "m1", "channel": "own"}).encode(), key=b"acme/other")
    broker.write(topic, json.dumps({"id": "m1", "namespace": "mine"}).encode(), key=b"acme/c")
    broker.write(topic, bare, key=b"\xff")
    with reading(broker, topic) as part:
        values = [item.value for item in take(part, 5)]
    assert values == [
        {"id": "m1", "channel": "dev/ops", "namespace": "acme"},
        {"id": "m1", "channel": "general"},
        {"id": "m1", "channel": "own"},
        {"id": "m1", "channel": "c", "namespace": "mine"},
        {"id": "m1"},
    ]


def test_the_watermark_follows_the_latest_event_time_and_never_goes_back(broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.write(topic, b"{}", message(10), message(5), message(20), b"no", message(7, ts="2026-03-02"))
    with reading(broker, topic, lateness=timedelta(seconds=4)) as part:
        marks = [item.watermark for item in take(part, 6)]
        version, offset, greatest = part.snapshot()
    start = datetime(2026, 3, 2, 9, tzinfo=UTC)
    seconds = [None if mark is None else (mark - start).total_seconds() for mark in marks]
    assert seconds == [None, 6, 6, 16, 16, 16]
    assert (version, offset, greatest) == (1, 6, start + timedelta(seconds=20))


def test_a_time_in_the_future_does_not_advance_the_watermark(broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.write(topic, message(1, ts="2999-01-01T00:00:00Z"))
    before = datetime.now(UTC)
    with reading(broker, topic) as part:
        (item,) = take(part, 1)
    assert item.watermark is not None
    assert before <= item.watermark <= datetime.now(UTC)


def test_reading_resumes_at_the_snapshot(broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.write(topic, *(message(number) for number in range(5)))
    with reading(broker, topic) as part:
        take(part, 5)
        state = part.snapshot()
    broker.write(topic, message(1), message(6))
    with reading(broker, topic, resume=state, start="latest") as part:
        received = take(part, 2)
    assert ids(received) == ["m1", "m6"]
    assert received[0].watermark == datetime(2026, 3, 2, 9, 0, 4, tzinfo=UTC)


def test_a_snapshot_with_a_later_version_is_refused(broker: Broker, topic: str) -> None:
    broker.create(topic)
    with (
        pytest.raises(KafkaError, match="has version 2: this program reads 1"),
        reading(broker, topic, resume=(2, 0, None)),
    ):
        pass


def test_reading_from_the_latest_skips_existing_records(broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.write(topic, *(message(number) for number in range(7)))
    with reading(broker, topic, start="latest") as part:
        assert part.snapshot()[1] == 7
        broker.write(topic, message(8))
        assert ids(take(part, 1)) == ["m8"]


def test_reading_from_a_time_starts_at_the_first_record_not_before_it(tmp_path: Path, topic: str) -> None:
    """On noida only: Tansu returns wrong offsets for times."""
    at = datetime.now(UTC) - timedelta(hours=1)
    with running("noida", tmp_path) as broker:
        broker.create(topic)
        for number in range(3):
            moment = at + timedelta(minutes=number)
            broker.write(topic, message(number), timestamp_ms=int(moment.timestamp() * 1000))
        with reading(broker, topic, start=at + timedelta(seconds=30)) as part:
            assert ids(take(part, 2)) == ["m1", "m2"]
        with reading(broker, topic, start=at + timedelta(minutes=5)) as part:
            assert part.snapshot()[1] == 3


def test_a_partition_has_a_backlog_until_its_end_is_reached(broker: Broker, topic: str) -> None:
    broker.create(topic)
    engine = Engine()
    name = f"{topic}:0"
    with reading(broker, topic, engine) as part:
        wait_for(lambda: part.next_batch() or (name, True) in engine.ends, what="the end of an empty topic")
        broker.write(topic, message(1), message(2))
        take(part, 2)
        for _ in range(5):
            part.next_batch()
    # What is read up to the end at once was no backlog; what is read in pieces was.
    assert engine.ends[:2] == [(name, False), (name, True)]
    assert engine.ends[-1] == (name, True)


def test_a_throttled_source_passes_nothing_on_and_keeps_its_place(broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.write(topic, message(1), message(2))
    engine = Engine(throttled=True)
    with reading(broker, topic, engine) as part:
        assert [part.next_batch() for _ in range(20)] == [[]] * 20
        assert part.next_awake() > datetime.now(UTC)
        engine.throttled = False
        assert ids(take(part, 2)) == ["m1", "m2"]


def test_a_stop_ends_the_input_and_keeps_the_snapshot(broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.write(topic, message(1))
    engine = Engine()
    with reading(broker, topic, engine) as part:
        take(part, 1)
        engine.stopping = True
        with pytest.raises(StopIteration):
            part.next_batch()
        assert part.snapshot()[1] == 1


def test_a_batch_has_at_most_five_hundred_records(broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.write(topic, *(b"{}" for _ in range(1200)))
    sizes: list[int] = []
    with reading(broker, topic) as part:
        wait_for(lambda: sizes.append(len(part.next_batch())) or sum(sizes) >= 1200, what="all")
    assert max(sizes) <= 500


def test_records_deleted_by_retention_stop_the_flow_with_one_line(tmp_path: Path, topic: str) -> None:
    """On noida only: Tansu has no DeleteRecords."""
    with running("noida", tmp_path) as broker:
        lose_six_of_ten(broker, topic)
        engine = Engine()
        with reading(broker, topic, engine, resume=(1, 2, None)) as part:
            with pytest.raises(StopIteration):
                part.next_batch()
            assert part.snapshot() == (1, 2, None)
        (failure,) = engine.failures
        assert isinstance(failure, OffsetError)
        assert str(failure) == (
            f"{topic}[0]: offset 2 no longer exists: the partition now starts at 6, and 4 messages were "
            "deleted by retention before they were read: set on_lost_offset to earliest to continue at 6, "
            "or use a new recovery store"
        )


def test_records_deleted_by_retention_are_counted_if_reading_continues(
    tmp_path: Path, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with running("noida", tmp_path) as broker:
        lose_six_of_ten(broker, topic)
        engine = Engine()
        with reading(broker, topic, engine, resume=(1, 2, None), on_lost="earliest") as part:
            assert ids(take(part, 4)) == ["m6", "m7", "m8", "m9"]
    assert (engine.lost, engine.failures) == ([(topic, 0, 4)], [])
    assert "continuing at 6" in caplog.text


@pytest.mark.parametrize("policy", ["stop", "earliest"])
def test_records_deleted_while_reading_follow_the_same_policy(
    tmp_path: Path, topic: str, policy: Any
) -> None:
    with running("noida", tmp_path) as broker:
        broker.create(topic)
        broker.write(topic, *(message(number) for number in range(3)))
        engine = Engine()
        with reading(broker, topic, engine, on_lost=policy) as part:
            take(part, 3)
            wait_for(lambda: part.next_batch() or engine.ends, what="the end")
            engine.throttled = True
            broker.write(topic, *(message(number) for number in range(3, 8)))
            with broker.admin() as admin:
                admin.delete_records({TopicPartition(topic, 0): 6})
            part.next_batch()
            engine.throttled = False
            if policy == "earliest":
                assert ids(take(part, 2)) == ["m6", "m7"]
                assert engine.lost == [(topic, 0, 3)]
            else:
                wait_for(lambda: ended(part), what="the end of the input")
                assert "offset 3 no longer exists" in str(engine.failures[0])


def test_an_offset_beyond_the_end_means_that_the_topic_was_recreated(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """noida reports it at once; Tansu never does, so a while beyond its end counts."""
    monkeypatch.setattr(kafka_source, "_MISPLACED_SECONDS", 0.5)
    broker.create(topic)
    broker.write(topic, message(0), message(1))
    engine = Engine()
    with reading(broker, topic, engine, resume=(1, 50, None)) as part:
        wait_for(lambda: ended(part), what="the end of the input")
    assert "offset 50 is beyond the end, 2: the topic was recreated" in str(engine.failures[0])
    engine = Engine()
    with reading(broker, topic, engine, resume=(1, 50, None), on_lost="earliest") as part:
        assert ids(take(part, 2)) == ["m0", "m1"]
    assert (engine.lost, engine.failures) == ([(topic, 0, 0)], [])


def test_reading_continues_when_a_broker_comes_back_and_its_absence_is_logged_once(
    tmp_path: Path, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="backscroll.connectors")
    with running("noida", tmp_path) as broker:
        broker.create(topic)
        broker.write(topic, message(1))
        engine = Engine()
        with reading(broker, topic, engine) as part:
            take(part, 1)
            broker.stop()
            wait_for(lambda: part.next_batch() or "is unreachable" in caplog.text, what="a line in the log")
            for _ in range(30):
                assert part.next_batch() == []
            broker.start()
            broker.write(topic, message(2))
            assert ids(take(part, 1)) == ["m2"]
            wait_for(lambda: part.next_batch() or "is back" in caplog.text, what="a line in the log")
        ours = [
            record.message for record in caplog.records if record.name.startswith("backscroll.connectors")
        ]
    assert ours == [
        f"{topic}:0: the broker is unreachable: retrying until it is back",
        f"{topic}:0: the broker is back",
    ]
    assert engine.failures == []


def test_the_source_stops_while_the_broker_is_unreachable(own_broker: Broker, topic: str) -> None:
    own_broker.create(topic)
    engine = Engine()
    with reading(own_broker, topic, engine) as part:
        own_broker.kill()
        for _ in range(50):
            assert part.next_batch() == []
        engine.stopping = True
        with pytest.raises(StopIteration):
            part.next_batch()


def test_records_of_an_aborted_transaction_are_skipped(tmp_path: Path, topic: str) -> None:
    """On noida only: Tansu shows them."""
    with running("noida", tmp_path) as broker:
        broker.create(topic)
        with KafkaProducer(bootstrap_servers=broker.address, transactional_id="x") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, message(1), partition=0)
            producer.flush()
            producer.abort_transaction()
            producer.begin_transaction()
            producer.send(topic, message(2), partition=0)
            producer.commit_transaction()
        engine = Engine()
        with reading(broker, topic, engine) as part:
            assert ids(take(part, 1)) == ["m2"]
            wait_for(lambda: part.next_batch() or engine.ends, what="the end")
            assert part.snapshot()[1] == 4  # two records and two markers


def test_the_end_is_reached_despite_an_open_transaction(
    tmp_path: Path, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_source, "_QUIET_SECONDS", 0.2)
    with running("noida", tmp_path) as broker:
        broker.create(topic)
        broker.write(topic, message(1))
        with KafkaProducer(bootstrap_servers=broker.address, transactional_id="x") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, message(2), partition=0).get(10)
            engine = Engine()
            with reading(broker, topic, engine) as part:
                assert ids(take(part, 1)) == ["m1"]
                wait_for(lambda: part.next_batch() or (f"{topic}:0", True) in engine.ends, what="the end")
                producer.commit_transaction()
                assert ids(take(part, 1)) == ["m2"]
    assert engine.ends[:2] == [(f"{topic}:0", False), (f"{topic}:0", True)]


def test_a_topic_recreated_while_reading_is_noticed(tmp_path: Path, topic: str) -> None:
    with running("noida", tmp_path) as broker:
        broker.create(topic)
        broker.write(topic, *(message(number) for number in range(5)))
        engine = Engine()
        with reading(broker, topic, engine, on_lost="earliest") as part:
            take(part, 5)
            broker.delete(topic)
            broker.create(topic)
            broker.write(topic, message(7))
            assert ids(take(part, 1)) == ["m7"]
    assert engine.lost == [(topic, 0, 0)]


def test_an_aborted_flow_reads_its_epoch_again_and_loses_nothing(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create(topic, 2)
    for partition in range(2):
        broker.write(topic, *(message(10 * partition + n) for n in range(6)), partition=partition)
    init_db_dir(tmp_path, 1)
    out: list[str] = []

    def run(fail_at: int | None) -> None:
        engine = Engine()
        seen = 0

        def look(item: Received) -> str:
            nonlocal seen
            seen += 1
            if seen == fail_at:
                raise ZeroDivisionError
            return ids([item])[0]

        def stop_at_end(part: str, at_end: bool) -> None:
            engine.ends.append((part, at_end))
            engine.stopping = {p for p, end in engine.ends if end} == {f"{topic}:0", f"{topic}:1"}

        feed = Feed(lambda: False, lambda: engine.stopping, engine.failures.append, print, stop_at_end)
        flow = Dataflow("kafka")
        stream = op.input("messages", flow, KafkaSource(broker.connection, [topic], feed=feed))
        op.output("out", op.map("look", stream, look), TestingSink(out))
        cluster_main(flow, [], 0, epoch_interval=timedelta(0), recovery_config=RecoveryConfig(str(tmp_path)))

    with pytest.raises(BaseException):  # noqa: B017, PT011 - however the engine wraps it
        run(9)
    run(None)
    expected = {f"m{10 * partition + n}" for partition in range(2) for n in range(6)}
    assert set(out) == expected


def lose_six_of_ten(broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.write(topic, *(message(number) for number in range(10)))
    with broker.admin() as admin:
        admin.delete_records({TopicPartition(topic, 0): 6})


def ended(part: Any) -> bool:
    try:
        assert part.next_batch() == []
    except StopIteration:
        return True
    return False
