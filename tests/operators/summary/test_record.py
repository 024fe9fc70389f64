from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.messages import ChannelKey
from backscroll.operators.stream.windows import WindowRef
from backscroll.operators.summary.record import GapEntry, MemoryEntry, Summary, WindowEntry, summary_id
from support.building import KEY, START

MEMORY = MemoryEntry("m17", 17, "Ana", START, "the pump", (4, 12), 3, 0, 1, 0.61)
SUMMARY = Summary(
    summary_id="default/general:120-121:remember",
    revision=0,
    final=True,
    namespace="default",
    channel="general",
    kind="extractive",
    strategy="remember",
    window=WindowEntry(
        index=7,
        first_seq=120,
        last_seq=121,
        turns=["m120", "m121"],
        start=START,
        end=START + timedelta(minutes=41, seconds=10, microseconds=500_000),
        tokens=103,
    ),
    summary="09:00 Ana: the pump is in.",
    gaps=[GapEntry("m120", "the pump", "which pump", "which pump was ordered", ["pump"], ["m17"])],
    memory=[MEMORY],
    tokens={"memory": 3, "prompt": 0, "completion": 0},
    timings_ms={"gaps": 3.1, "memory": 8.4, "summary": 1.2},
    models={"gaps": "rules", "summary": "extractive", "embedding": "hashing"},
)
strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
times = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
entries = st.builds(
    MemoryEntry,
    id=strings,
    seq=st.integers(0, 10**9),
    author=strings,
    ts=times,
    text=strings,
    span=st.none() | st.tuples(st.integers(0, 9), st.integers(9, 99)),
    tokens=st.integers(0, 1024),
    gap=st.none() | st.integers(0, 7),
    rank=st.integers(1, 99),
    score=st.floats(-10, 100),
    permalink=st.none() | strings,
)


def test_a_summary_is_one_line_of_json_in_the_documented_order() -> None:
    assert SUMMARY.to_json() == (
        b'{"version":1,"summary_id":"default/general:120-121:remember","revision":0,"final":true,'
        b'"namespace":"default","channel":"general","kind":"extractive","strategy":"remember",'
        b'"window":{"index":7,"first_seq":120,"last_seq":121,"turns":["m120","m121"],'
        b'"start":"2026-03-02T09:00:00Z","end":"2026-03-02T09:41:10.500000Z","tokens":103},'
        b'"summary":"09:00 Ana: the pump is in.",'
        b'"gaps":[{"utterance":"m120","quote":"the pump","reason":"which pump",'
        b'"query":"which pump was ordered","keywords":["pump"],"evidence":["m17"]}],'
        b'"memory":[{"id":"m17","seq":17,"author":"Ana","ts":"2026-03-02T09:00:00Z","text":"the pump",'
        b'"span":[4,12],"tokens":3,"gap":0,"rank":1,"score":0.61}],'
        b'"tokens":{"memory":3,"prompt":0,"completion":0},'
        b'"timings_ms":{"gaps":3.1,"memory":8.4,"summary":1.2},'
        b'"models":{"gaps":"rules","summary":"extractive","embedding":"hashing"},'
        b'"degraded":null,"unsupported":[]}'
    )


def test_only_turns_with_a_permalink_show_one() -> None:
    linked = replace(MEMORY, permalink="https://chat.example.com/m17")
    body = orjson.loads(replace(SUMMARY, memory=[MEMORY, linked]).to_json())
    assert ["permalink" in entry for entry in body["memory"]] == [False, True]
    assert body["memory"][1]["permalink"] == "https://chat.example.com/m17"


def test_a_summary_is_read_back_unchanged() -> None:
    assert Summary.from_json(SUMMARY.to_json()) == SUMMARY


summaries = st.builds(
    replace,
    st.just(SUMMARY),
    memory=st.lists(entries, max_size=3),
    summary=strings,
    channel=strings,
    kind=st.sampled_from(["extractive", "abstractive"]),
    degraded=st.none() | strings,
    unsupported=st.lists(strings, max_size=2),
    window=st.builds(replace, st.just(SUMMARY.window), start=times),
    final=st.booleans(),
)


@given(summary=summaries)
@settings(database=None, deadline=None, max_examples=50)
def test_any_summary_survives_json(summary: Summary) -> None:
    body = summary.to_json()
    assert b"\n" not in body
    assert Summary.from_json(body) == summary
    assert Summary.from_json(body).to_json() == body


def test_a_record_of_another_version_is_refused() -> None:
    newer = orjson.dumps({**orjson.loads(SUMMARY.to_json()), "version": 2})
    with pytest.raises(
        ValueError, match=r"^summary record has version 2, but this program reads only version 1$"
    ):
        Summary.from_json(newer)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"nothing", SUMMARY.to_json()[:-1]])
def test_a_body_that_is_not_a_summary_record_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="summary record"):
        Summary.from_json(body)


def test_the_id_of_a_summary_names_channel_turns_and_strategy() -> None:
    assert summary_id(WindowRef(KEY, 7, 120, 151), "remember") == "default/general:120-151:remember"
    assert summary_id(WindowRef(KEY, 7, 120, 151, final=False), "sparse") == "default/general:120-151:sparse"
    odd = ChannelKey("acme/eu", "a:b c")
    assert summary_id(WindowRef(odd, 0, 0, 0), "none") == "acme%2Feu/a%3Ab c:0-0:none"


def test_a_summary_knows_its_channel() -> None:
    assert replace(SUMMARY, namespace="acme", channel="a/b").key == ChannelKey("acme", "a/b")
