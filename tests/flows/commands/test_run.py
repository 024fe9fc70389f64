"""`backscroll run` between real topics: its output, and the effects of a stop, an error or an outage."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from backscroll.connectors.kafka.delivery import partition_of
from backscroll.connectors.lancedb.maintenance import maintain
from backscroll.connectors.lancedb.tables import SharedTable, connect
from backscroll.flows.assembly.engine import open_engine
from backscroll.flows.settings.settings import Settings
from backscroll.operators.messages import format_time
from support.brokers import Broker, free_port, refused_sockets, running
from support.chat_server import chat_server
from support.commands import BACKSCROLL, WORDS, run
from support.crashes import revision
from support.serving import (
    START,
    Engine,
    Service,
    body,
    delete,
    differing,
    edit,
    files_with,
    flush,
    newest,
    post,
    service,
)

pytestmark = refused_sockets


@pytest.fixture(scope="module")
def noida(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker that keeps its records, shared by tests that do not need their own."""
    with running("noida", tmp_path_factory.mktemp("noida")) as started:
        yield started


@pytest.fixture(scope="module")
def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Engine]]:
    """A running engine, shared by tests that each use their own channels; it stops in an orderly way."""
    folder = tmp_path_factory.mktemp("live")
    with (
        service(broker, folder) as made,
        made.engine(kafka_debug=f"{folder.name}-debug") as engine,
    ):
        yield made, engine
        engine.stop()


@pytest.fixture(scope="module")
def patient(noida: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Engine]]:
    """A running engine that waits for late messages, closes idle windows, and never reissues."""
    with (
        service(noida, tmp_path_factory.mktemp("patient")) as made,
        made.engine("--lateness", 2, "--idle", 0.03, reissue=False) as engine,
    ):
        yield made, engine
        engine.stop()


def now(seconds: float) -> str:
    return format_time(datetime.now(UTC) + timedelta(seconds=seconds))


def turns(record: Any) -> list[str]:
    found: list[str] = body(record)["window"]["turns"]
    return found


def test_each_window_becomes_a_record_in_its_channels_partition(live: tuple[Service, Engine]) -> None:
    made, engine = live
    made.send(*(post("general", f"m{n}", at=n) for n in range(3)), flush("general"))
    made.send(post("general", "m3"), post("general", "m4"), flush("general"))
    other = {"namespace": "acme"}
    made.send(post("dev/ops", "m0", **other), {**flush("dev/ops"), **other})
    engine.until(lambda: len(made.summaries("default/general")) == 2, "two summaries")
    engine.until(lambda: made.summaries("acme/dev%2Fops"), "a summary")
    records = made.summaries("default/general") + made.summaries("acme/dev%2Fops")
    assert [record.key for record in records] == [
        b"default/general:0-2:recent",
        b"default/general:3-4:recent",
        b"acme/dev%2Fops:0-0:recent",
    ]
    assert [turns(record) for record in records] == [["m0", "m1", "m2"], ["m3", "m4"], ["m0"]]
    for record in records:
        assert list(record.headers) == [
            ("backscroll-version", b"1"),
            ("backscroll-kind", b"extractive"),
            ("backscroll-revision", b"0"),
        ]
        assert record.partition == partition_of(record.key.decode().partition(":")[0], 4)
        assert body(record)["summary_id"] == record.key.decode()


def test_the_debug_topic_has_only_gaps_and_memory(live: tuple[Service, Engine]) -> None:
    made, engine = live
    made.send(post("debugged", "m0", "the crane is red"), flush("debugged"))
    made.send(post("debugged", "m1", "Is it done again?"), flush("debugged"))
    key = "default/debugged"
    engine.until(lambda: len(made.debug(key)) == len(made.summaries(key)) == 2, "two records of each")
    for debug, summary in zip(made.debug(key), made.summaries(key), strict=True):
        fields = body(summary)
        names = ("summary_id", "revision", "gaps", "memory")
        assert body(debug) == {name: fields[name] for name in names}
        assert (debug.key, debug.partition) == (summary.key, summary.partition)
        assert list(debug.headers) == list(summary.headers)
    assert [entry["id"] for entry in body(made.debug(key)[1])["memory"]] == ["m0"]


def test_invalid_messages_become_dead_letters_and_valid_ones_are_unaffected(
    broker: Broker, live: tuple[Service, Engine]
) -> None:
    made, engine = live
    (first,) = made.send(post("letters", "m0", "at noon"))
    place = first.partition
    broken = {"key": b"default/letters", "headers": [("trace", b"\x00\xff")], "partition": place}
    broker.write(made.messages, b'{"broken \xff', **broken)
    contradicting = post("letters", "m0", "at one")
    (last,) = made.send(contradicting)
    made.send(post("letters", "m1"), flush("letters"))
    engine.until(lambda: made.turns("default/letters") == {"m0": 1, "m1": 1}, "the valid messages")
    engine.until(lambda: len(made.letters()) == 2, "two dead letters")
    bad, contrary = sorted(made.letters(), key=lambda letter: dict(letter.headers)["backscroll-offset"])
    topic = made.messages.encode()
    assert (bad.key, bad.value) == (b"default/letters", b'{"broken \xff')
    assert list(bad.headers) == [
        ("trace", b"\x00\xff"),
        ("backscroll-reason", dict(bad.headers)["backscroll-reason"]),
        ("backscroll-topic", topic),
        ("backscroll-partition", b"%d" % place),
        ("backscroll-offset", b"%d" % (last.offset - 1)),
    ]
    assert dict(bad.headers)["backscroll-reason"].startswith(b"not JSON: ")
    assert (contrary.key, json.loads(contrary.value)) == (b"default/letters", contradicting)
    assert list(contrary.headers) == [
        ("backscroll-reason", b"id 'm0' was already used with different content"),
        ("backscroll-topic", topic),
        ("backscroll-partition", b"%d" % place),
        ("backscroll-offset", b"%d" % last.offset),
    ]


def test_a_message_without_a_channel_takes_it_from_the_key(
    broker: Broker, live: tuple[Service, Engine]
) -> None:
    made, engine = live
    message = post("", "m0")
    del message["channel"]
    broker.write(made.messages, json.dumps(message).encode(), key=b"keyed")
    broker.write(made.messages, json.dumps(message).encode(), key=b"acme/dev%2Fkeyed", partition=1)
    for key, place in ((b"keyed", 0), (b"acme/dev%2Fkeyed", 1)):
        closing = {"op": "flush", "ts": message["ts"]}
        broker.write(made.messages, json.dumps(closing).encode(), key=key, partition=place)
    engine.until(lambda: made.turns("default/keyed") == {"m0": 1}, "the channel of the key")
    engine.until(lambda: made.turns("acme/dev%2Fkeyed") == {"m0": 1}, "the namespace of the key")


def test_an_edited_window_is_reissued_with_a_higher_revision_and_an_empty_one_as_a_tombstone(
    live: tuple[Service, Engine],
) -> None:
    made, engine = live
    key = "default/edited"
    made.send(post("edited", "m0", "We ship it at noon"), post("edited", "m1", "aye"), flush("edited"))
    made.send(post("edited", "m2", "Is it done again?"), flush("edited"))
    engine.until(lambda: len(made.summaries(key)) == 2, "two summaries")
    made.send(edit("edited", "m0", "We ship it at one"))
    engine.until(lambda: len(made.summaries(key)) == 4, "both once more")
    own, later = made.summaries(key)[2:]
    assert (own.key, revision(own), body(own)["revision"]) == (b"default/edited:0-1:recent", 1, 1)
    assert (later.key, revision(later)) == (b"default/edited:2-2:recent", 1)
    assert "We ship it at one" in body(own)["summary"]
    assert [entry["text"] for entry in body(later)["memory"]] == ["We ship it at one", "aye"]
    assert b"noon" not in own.value + later.value
    made.send(edit("edited", "m0", "We ship it at one"), delete("edited", "m0"), delete("edited", "m1"))
    made.send(post("edited", "m3"), flush("edited"))
    engine.until(lambda: made.turns(key) == {"m2": 1, "m3": 1}, "what is left")
    records = newest(made.summaries(key))
    assert {id_: (revision(record), record.value is None) for id_, record in records.items()} == {
        "default/edited:0-1:recent": (3, True),
        "default/edited:2-2:recent": (3, False),
        "default/edited:3-3:recent": (3, False),
    }
    gone = records["default/edited:0-1:recent"]
    assert dict(gone.headers)["backscroll-kind"] == b"tombstone"
    assert gone.partition == partition_of(key, 4)
    assert body(records["default/edited:2-2:recent"])["memory"] == []
    assert differing(made.summaries(key)) == []


def test_a_message_deleted_before_it_arrives_is_never_a_turn(live: tuple[Service, Engine]) -> None:
    made, engine = live
    made.send(delete("early", "m0"), edit("early", "m1", "at one"))
    made.send(post("early", "m0", "at noon"), post("early", "m1", "at two"), flush("early"))
    engine.until(lambda: made.summaries("default/early"), "a summary")
    (record,) = made.summaries("default/early")
    assert turns(record) == ["m1"]
    assert b"at one" in record.value
    assert b"at noon" not in record.value
    assert b"at two" not in record.value


def test_a_live_channel_is_closed_by_silence_with_its_messages_in_order(
    patient: tuple[Service, Engine],
) -> None:
    """Messages arrive out of order, then the partition is silent: they are released, then it is a pause."""
    made, engine = patient
    began = datetime.now(UTC)
    late = {"m2": -0.2, "m0": -1.4, "m1": -0.8}
    made.send(*(post("silent", id_, ts=now(seconds)) for id_, seconds in late.items()))
    engine.until(lambda: made.summaries("default/silent"), "a summary")
    (record,) = made.summaries("default/silent")
    assert turns(record) == ["m0", "m1", "m2"]
    assert datetime.now(UTC) - began > timedelta(seconds=2 + 1.8)


def test_messages_within_the_lateness_come_in_order(patient: tuple[Service, Engine]) -> None:
    made, engine = patient
    places = [1.6, 0.4, 0, 1.2, 0.8, 2.8, 2.0, 2.4, 4.0, 3.6, 3.2]
    made.send(*(post("late", f"m{at:.1f}", at=at) for at in places), flush("late"))
    engine.until(lambda: made.summaries("default/late"), "a summary")
    (record,) = made.summaries("default/late")
    assert turns(record) == [f"m{at:.1f}" for at in sorted(places)]


def test_without_reissue_summaries_stay_and_later_ones_omit_the_message(
    patient: tuple[Service, Engine],
) -> None:
    made, engine = patient
    made.send(post("kept", "m0", "at noon"), post("kept", "m1"), flush("kept"))
    engine.until(lambda: made.summaries("default/kept"), "a summary")
    made.send(delete("kept", "m0"))
    made.send(post("kept", "m2", "Is it done again?"), flush("kept"))
    engine.until(lambda: len(made.summaries("default/kept")) == 2, "the next summary")
    first, second = made.summaries("default/kept")
    assert (turns(first), revision(first)) == (["m0", "m1"], 0)
    assert (turns(second), revision(second)) == (["m2"], 1)
    assert [entry["id"] for entry in body(second)["memory"]] == ["m1"]
    assert b"at noon" not in second.value


def test_a_years_old_backlog_is_cut_only_by_its_own_times(noida: Broker, tmp_path: Path) -> None:
    """Reading takes longer than the idle time: every window of the other channel takes a second."""
    backlog = [post("busy", f"b{n}", "aye", at=n / 1000, ts=year_ago(n / 1000)) for n in range(1300)]
    slow = {0: 0.0, 600: 0.3, 1100: 0.6, 1200: 5.0, 1250: 5.3}
    for place, seconds in sorted(slow.items(), reverse=True):
        backlog.insert(place, post("slow", f"s{place}", ts=year_ago(seconds)))
    with (
        chat_server(delay=0.5) as server,
        service(noida, tmp_path, partitions=1) as made,
    ):
        made.send(*backlog)
        with made.engine(
            "--idle", 0.01, "--llm", server.url, "--window", 100_000, pending_windows=1
        ) as engine:
            engine.until(lambda: made.turns("default/slow").total() == 5, "the slow channel")
            windows = [turns(record) for record in made.summaries("default/slow")]
            assert windows == [["s0", "s600", "s1100"], ["s1200", "s1250"]]
            assert server.most_running <= 2
            engine.stop()


def year_ago(seconds: float) -> str:
    return format_time(START - timedelta(days=365) + timedelta(seconds=seconds))


def test_a_restarted_engine_continues_its_open_windows(broker: Broker, tmp_path: Path) -> None:
    with service(broker, tmp_path, partitions=1) as made:
        with made.engine() as engine:
            made.send(post("a", "m0"), post("a", "m1"), delete("a", "m1"), edit("b", "m1", "at one"))
            made.send(post("mark", "m0"), flush("mark"))
            engine.until(lambda: made.summaries("default/mark"), "what was sent last")
            engine.stop(within=5.0)
        assert [record.key for record in made.summaries()] == [b"default/mark:0-0:recent"]
        made.send(post("a", "m2"), post("b", "m1", "at noon"))
        with made.engine() as engine:
            made.send(
                post("a", "m0"), flush("a"), flush("b"), flush("mark"), post("mark", "m1"), flush("mark")
            )
            engine.until(lambda: made.turns() == {"m0": 2, "m2": 1, "m1": 2}, "the rest")
            engine.stop()
        records = {record.key.decode(): record for record in made.summaries()}
        assert {id_: turns(record) for id_, record in records.items()} == {
            "default/mark:0-0:recent": ["m0"],
            "default/a:0-2:recent": ["m0", "m2"],
            "default/b:0-0:recent": ["m1"],
            "default/mark:1-1:recent": ["m1"],
        }
        assert len(made.summaries()) == 4, "nothing came twice"
        assert b"at one" in records["default/b:0-0:recent"].value


def test_a_message_of_a_million_characters_becomes_a_small_record_and_the_engine_starts_again(
    noida: Broker, tmp_path: Path
) -> None:
    giant, both = "Is it done " + "x" * 999_989, {"m0": 1, "m1": 1}
    with service(noida, tmp_path) as made:
        made.send(post("a", "m0", giant), flush("a"), post("a", "m1"), flush("a"))
        with made.engine() as engine:
            engine.until(lambda: made.turns() == both, "the giant and what follows", seconds=180.0)
            engine.stop()
        made.send(post("a", "m2", "Is it done again?"), flush("a"))
        with made.engine() as engine:
            engine.until(lambda: made.turns() == {"m0": 1, "m1": 1, "m2": 1}, "the window after a restart")
            engine.stop()
        first = made.summaries()[0]
        quote = body(first)["gaps"][0]["quote"]
        assert (quote[:12], len(quote), quote[-1]) == ("Is it done x", 16_382, "…")
        assert len(first.value) < 50_000
        assert made.letters() == []


def test_a_summary_that_the_topic_refuses_becomes_a_dead_letter_and_the_engine_continues(
    noida: Broker, tmp_path: Path
) -> None:
    with service(noida, tmp_path, **{"max.message.bytes": "2000"}) as made:
        made.send(post("a", "m0"), flush("a"), post("a", "m1", "Is it done " + "x" * 3_000), flush("a"))
        made.send(post("a", "m2"), flush("a"))
        with made.engine(strategy="none") as engine:
            engine.until(lambda: made.turns() == {"m0": 1, "m2": 1}, "the windows around it")
            engine.until(made.letters, "the dead letter")
            engine.stop()
            assert f"1  windows without a summary, see topic {tmp_path.name}-letters" in engine.said
        made.send(post("a", "m3"), flush("a"))
        with made.engine(strategy="none") as engine:
            engine.until(lambda: made.turns() == {"m0": 1, "m2": 1, "m3": 1}, "the window after a restart")
            engine.stop()
        letters = {letter.value: dict(letter.headers) for letter in made.letters()}
        ((_, headers),) = letters.items()
        assert headers["backscroll-window"] == b"default/a:1-1:none"
        assert [record.key for record in made.summaries() if not record.value] == [b"default/a:1-1:none"]
        assert headers["backscroll-reason"].startswith(b"summary: ")
        assert headers["backscroll-reason"].endswith(
            f"exceed the limit of topic '{tmp_path.name}-summaries': raise its max.message.bytes".encode()
        )


def test_a_deleted_text_is_in_no_newest_record_and_in_no_file(noida: Broker, tmp_path: Path) -> None:
    secret = f"#{uuid4().int}#"
    with service(noida, tmp_path) as made:
        with made.engine() as engine:
            made.send(post("told", "m0", f"the code is {secret}"), post("told", "m1"), flush("told"))
            made.send(post("told", "m2", "Is it done again?"), flush("told"))
            made.send(post("open", "m0", f"the code is {secret}"), post("mark", "m0"), flush("mark"))
            engine.until(lambda: made.turns("default/told").total() == 3, "summaries")
            told = [record.key for record in made.summaries() if secret.encode() in record.value]
            assert told == [b"default/told:0-1:recent", b"default/told:2-2:recent"]
            assert secret in body(made.summaries("default/told")[0])["summary"]
            tables = {name.partition("/")[0] for name in files_with(made.store, secret)}
            assert tables == {"turns.lance", "chunks.lance", "summaries.lance"}
            engine.until(lambda: files_with(made.recovery, secret), "a snapshot with the open window")
            made.send(delete("told", "m0"), delete("open", "m0"), post("open", "m1"), flush("open"))
            engine.until(lambda: len(made.summaries("default/told")) == 4, "summaries once more")
            engine.until(lambda: made.summaries("default/open"), "the window that was open")
            engine.stop()
        records = newest(made.summaries())
        assert made.turns() == {"m0": 1, "m1": 2, "m2": 1}
        assert [id_ for id_, record in records.items() if secret.encode() in record.value] == []
        clean(made)
        assert files_with(made.store, secret) == set()
        with made.engine() as engine:
            made.send(post("mark", "m1"), flush("mark"))
            engine.until(lambda: len(made.summaries("default/mark")) == 2, "the next summary")
            assert files_with(made.recovery, secret) == set()
            engine.stop()
        assert files_with(made.recovery, secret) == files_with(made.store, secret) == set()


def clean(made: Service) -> None:
    settings = Settings(
        store=str(made.store), embedding_model="none", strategy="recent", chunk_tokens=48, chunk_overlap=16
    )
    with open_engine(settings) as engine:
        done = maintain(engine.histories.store, retention=timedelta(0), exclusive=True)  # type: ignore[arg-type]
        assert done is not None
        assert done.skipped == ()


def test_a_channel_from_two_partitions_stops_the_engine_unless_that_is_accepted(
    noida: Broker, tmp_path: Path
) -> None:
    with service(noida, tmp_path) as made:
        made.send(post("c", "m0"), post("d", "m1"), partition=0)
        made.send(post("c", "m2"), post("c", "m3"), post("e", "m4"), partition=3)
        with made.engine("--idle", 0.02) as engine:
            code, lines = engine.ended()
        assert code == 2
        (line,) = [line for line in lines if line.startswith("Error:")]
        assert line in [
            f"Error: default/c is in {made.messages}:{second} but was in {made.messages}:{first} before: "
            "key the topic by channel, or set scattered_channels (a replay may then give other summary ids)"
            for first, second in ((0, 3), (3, 0))
        ]
        assert "Traceback" not in engine.said
        assert made.summaries() == []
        with made.engine("--idle", 0.02, scattered_channels=True) as engine:
            engine.until(lambda: made.turns().total() == 5, "every message")
            engine.stop()
        assert made.turns() == {f"m{number}": 1 for number in range(5)}


MISTAKES = {
    "a missing topic": (
        "topic 'nowhere' does not exist on {broker}: create it with `backscroll topics create`"
    ),
    "no broker": "no Kafka broker at {nobody} (Connection refused): start one or set kafka_brokers",
    "no store": "run needs a --store, which keeps the history that summaries use",
    "half a cluster": "use --process-id and --addresses together",
    "too many workers": "recovery directory {folder}/many/recovery has 8 partitions, fewer than the 9 "
    "processes: the number (recovery_partitions) cannot be changed later",
}


@pytest.fixture(scope="module")
def refused(
    noida: Broker, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[int | None, list[str], str]]:
    """The command's response to each mistake, all tried at once: exit code, lines, expected error."""
    folder = tmp_path_factory.mktemp("refused")
    for topic in ("messages", "summaries", "dead-letters"):
        noida.create(topic)
    nobody = f"127.0.0.1:{free_port()}"
    options: dict[str, list[object]] = {
        "a missing topic": ["--topics", "nowhere", "--store", folder / "topic"],
        "no broker": ["--store", folder / "broker", "--brokers", nobody],
        "no store": [],
        "half a cluster": ["--store", folder / "half", "--process-id", 0],
        "too many workers": ["--store", folder / "many", "--workers", 9],
    }
    plain = ["--embedding-model", "none", "--strategy", "recent", "--brokers", noida.address]
    started = {
        name: subprocess.Popen(
            [*map(str, [BACKSCROLL, "run", *plain, *given])],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "BACKSCROLL_HTTP_PORT": "0"},
        )
        for name, given in options.items()
    }
    said = {name: process.communicate(timeout=120)[0].splitlines() for name, process in started.items()}
    names = {"broker": noida.address, "nobody": nobody, "folder": str(folder)}
    return {
        name: (process.returncode, said[name], MISTAKES[name].format(**names))
        for name, process in started.items()
    }


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_start_that_cannot_succeed_ends_in_one_line(
    refused: dict[str, tuple[int | None, list[str], str]], mistake: str
) -> None:
    code, lines, expected = refused[mistake]
    assert (code, lines[-1]) == (2, f"Error: {expected}")
    assert "Traceback (most recent call last):" not in lines


def test_an_outage_of_the_broker_loses_nothing_and_a_stop_does_not_wait_for_it(tmp_path: Path) -> None:
    chance, channels = random.Random(5), [f"c{number}" for number in range(6)]
    posts = [post(channels[n % 6], f"m{n}", " ".join(chance.choices(WORDS, k=20)), at=n) for n in range(240)]
    everything = Counter({f"m{number}": 1 for number in range(240)})
    with (
        chat_server() as server,
        running("noida", tmp_path / "broker") as broker,
        service(broker, tmp_path) as made,
    ):
        with made.engine("--window", 128, "--llm", server.url) as engine:
            made.send(*posts[:120])
            engine.until(made.summaries, "some of the summaries")
            broker.stop()
            time.sleep(3)  # the length of the outage
            broker.start()
            made.send(*posts[120:], *(flush(channel, at=700) for channel in channels))
            engine.until(lambda: made.turns() == everything, "all summaries")
            asked, server.delay = len(server.requests), 1.5
            made.send(post("last", "last"), flush("last"))
            engine.until(lambda: len(server.requests) > asked, "a window at work")
            broker.stop()
            engine.until(lambda: kept(made, "last"), "a summary that cannot be sent")
            engine.process.terminate()
            code, lines = engine.ended(5.0)
        assert code in (0, 2), lines
        assert "Traceback" not in engine.said
        broker.start()
        with made.engine("--window", 128, "--llm", server.url) as engine:
            engine.until(lambda: made.turns("default/last"), "the last summary")
            engine.stop()
        assert made.turns() == everything + Counter(["last"])
        assert differing(made.summaries()) == []
        assert [record.value for record in made.summaries("default/last")] == kept(made, "last")


def kept(made: Service, channel: str) -> list[bytes]:
    """The summaries of a channel that are in the store."""
    rows = SharedTable(connect(str(made.store)), "summaries").rows(f"channel = '{channel}'")
    return [row["body"] for row in rows]


def test_an_unusable_store_stops_the_engine_without_losing_a_message(noida: Broker, tmp_path: Path) -> None:
    with service(noida, tmp_path) as made:
        with made.engine() as engine:
            made.send(post("a", "m0"), flush("a"), post("a", "m1"))
            engine.until(lambda: made.summaries("default/a"), "a summary")
            (made.store / "windows.lance").rename(tmp_path / "away")
            made.send(post("b", "m2"), post("a", "m3"))
            code, lines = engine.ended()
        assert code == 2
        (line,) = [line for line in lines if line.startswith("Error:")]
        assert line.startswith(f"Error: store {made.store} cannot be used: ")
        assert "Traceback" not in engine.said
        (tmp_path / "away").rename(made.store / "windows.lance")
        with made.engine() as engine:
            made.send(flush("a"), post("b", "m4"), flush("b"))
            engine.until(lambda: made.turns().total() == 5, "every message")
            engine.stop()
        assert {id_: turns(record) for id_, record in newest(made.summaries()).items()} == {
            "default/a:0-0:recent": ["m0"],
            "default/a:1-2:recent": ["m1", "m3"],
            "default/b:0-1:recent": ["m2", "m4"],
        }
        assert differing(made.summaries()) == []


def test_windows_without_the_language_model_are_degraded_and_none_is_lost(
    noida: Broker, tmp_path: Path
) -> None:
    def window(number: int) -> dict[str, Any]:
        made.send(post("a", f"m{number}", f"berth {number} is free"), flush("a"))
        engine.until(lambda: len(made.summaries()) == number + 1, f"summary {number}")
        return body(made.summaries()[number])

    with service(noida, tmp_path) as made:
        with chat_server() as server, made.engine("--llm", server.url, llm_retries=0) as engine:
            assert window(0)["degraded"] is None
            server.behaviours = ["503"] * 2
            assert window(1)["degraded"] == "gaps: server; summary: server"
            back = window(2)
            assert (back["degraded"], back["summary"]) == (None, "they talked about the ship.")
            server.behaviours = ["503"] * 100
            numbers = range(3, 7)
            assert all(window(number)["degraded"] for number in numbers)
            assert len(server.requests) < 6 + 2 * len(numbers), "the breaker spares the server"
            engine.stop()
        assert [turns(record) for record in made.summaries()] == [[f"m{number}"] for number in range(7)]


def test_no_message_is_repeated_if_an_ingested_history_and_the_topic_overlap(
    noida: Broker, tmp_path: Path
) -> None:
    posts = [post("a", f"m{number}", " ".join(WORDS), at=number) for number in range(10)]
    file = tmp_path / "chat.jsonl"
    file.write_text("".join(f"{json.dumps(message)}\n" for message in posts[:6]))
    with service(noida, tmp_path) as made:
        plain = ("--embedding-model", "none", "--window", 50)
        chunks = {"BACKSCROLL_CHUNK_TOKENS": "48", "BACKSCROLL_CHUNK_OVERLAP": "16"}
        run("ingest", file, "--store", made.store, *plain, env={**os.environ, **chunks})
        made.send(*posts, *posts[:2], flush("a"))
        with made.engine("--window", 50) as engine:
            engine.until(lambda: made.turns().total() == 10, "every message")
            engine.stop()
        assert made.turns() == {f"m{number}": 1 for number in range(10)}
        assert made.letters() == []
        rows = SharedTable(connect(str(made.store)), "turns").rows("")
        assert sorted(row["id"] for row in rows) == [f"m{number}" for number in range(10)]


def test_a_new_idle_time_applies_to_windows_that_are_still_open(noida: Broker, tmp_path: Path) -> None:
    with service(noida, tmp_path, partitions=1) as made:
        with made.engine() as engine:
            made.send(post("a", "m0"), post("mark", "m0"), flush("mark"))
            engine.until(lambda: made.summaries("default/mark"), "what was sent last")
            engine.stop()
        with made.engine("--idle", 0.02) as engine:
            engine.until(lambda: made.summaries("default/a"), "the window that was open")
            engine.stop()
