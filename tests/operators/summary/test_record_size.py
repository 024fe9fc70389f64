from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.gaps.stage import Detection
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.messages import ChannelKey
from backscroll.operators.summary.build_record import summary_record
from backscroll.operators.summary.evidence import Evidence, Resolution
from backscroll.operators.summary.extractive import ExtractiveSummarizer
from backscroll.operators.summary.record import GapEntry, MemoryEntry, Summary, WindowEntry
from backscroll.operators.summary.record_size import MOST_BYTES, fitted
from backscroll.operators.summary.stage import Written
from support.building import START, turn, window

SHIP, BELL = "\U0001f6a2", "\x07"  # four bytes as JSON, six bytes as JSON
KINDS = ["a", "é", SHIP, BELL, '"', "word ", "Is it done? "]


def memory(seq: int, text: str, **fields: Any) -> MemoryEntry:
    entry = MemoryEntry(f"m{seq}", seq, "Ana", START, text, None, 3, 0, seq + 1, 0.61)
    return replace(entry, **fields)


def record(**fields: Any) -> Summary:
    made = Summary(
        summary_id="default/general:9-9:remember",
        revision=0,
        final=True,
        namespace="default",
        channel="general",
        kind="extractive",
        strategy="remember",
        window=WindowEntry(1, 9, 9, ["m9"], START, START + timedelta(minutes=1), 9),
        summary="09:00 Ana: it is in.",
        gaps=[GapEntry("m9", "it", "which", "what is in", ["in"], ["m1"])],
        memory=[memory(1, "the pump")],
        tokens={"memory": 3, "prompt": 0, "completion": 0},
        timings_ms={"gaps": 3.1},
        models={"gaps": "rules"},
    )
    return replace(made, **fields)


def json_bytes(text: str) -> int:
    return len(orjson.dumps(text)) - 2


def test_an_ordinary_record_is_unchanged() -> None:
    most = "a" * 16_384
    full = record(
        summary="s" * 65_536,
        gaps=[GapEntry("m9", most, most, most, [most] * 16, ["m1"])],
        memory=[memory(n, most, permalink=most) for n in range(4)],
        unsupported=[f"{n}" for n in range(64)],
    )
    assert fitted(full) == full


@pytest.mark.parametrize(
    ("character", "kept"), [("a", 16_381), ("é", 8_190), (SHIP, 4_095), (BELL, 2_730), ('"', 8_190)]
)
def test_a_long_text_is_cut_between_characters_and_marked(character: str, kept: int) -> None:
    giant = character * 1_000_000
    made = fitted(record(gaps=[GapEntry("m9", giant, giant, giant, [giant], [])], memory=[memory(1, giant)]))
    expected = character * kept + "…"
    (gap,), (entry,) = made.gaps, made.memory
    assert (gap.quote, gap.reason, gap.query, gap.keywords) == (expected, expected, expected, [expected])
    assert entry.text == expected
    assert json_bytes(expected) <= 16_384 < json_bytes(character * (kept + 1) + "…")


def test_the_summary_text_may_be_four_times_as_long() -> None:
    assert fitted(record(summary="s" * 65_537)).summary == "s" * 65_533 + "…"


def test_a_long_list_ends_in_the_mark() -> None:
    words = [f"w{n}" for n in range(100)]
    made = fitted(record(gaps=[GapEntry("m9", "it", "which", "what", words)], unsupported=words))
    assert made.gaps[0].keywords == [*words[:15], "…"]
    assert made.unsupported == [*words[:63], "…"]


def test_a_link_that_is_too_long_is_left_out_and_never_cut() -> None:
    links = "https://a/" + "x" * 16_374, "https://a/" + "x" * 16_375
    made = fitted(record(memory=[memory(n, "the pump", permalink=link) for n, link in enumerate(links)]))
    assert [entry.permalink for entry in made.memory] == [links[0], None]


def test_many_long_texts_share_the_limit_and_short_ones_stay_whole() -> None:
    long = [memory(n, "x" * 16_000) for n in range(100)]
    made = fitted(record(memory=[*long, memory(100, "the pump")]))
    assert [entry.text for entry in made.memory] == ["x" * 8_189 + "…"] * 100 + ["the pump"]
    assert len(made.to_json()) <= MOST_BYTES


def test_a_very_large_memory_keeps_its_better_ranks_in_order() -> None:
    made = fitted(record(memory=[memory(n, "aye", rank=10_000 - n) for n in range(10_000)]))
    assert [entry.seq for entry in made.memory] == list(range(5_000, 10_000))
    assert len(made.to_json()) <= MOST_BYTES


def test_a_million_characters_without_a_sentence_end_make_a_small_record() -> None:
    turns = [turn(1, "Is it done? " + "the ship " * 111_111), turn(0, "Is it the one " + "x" * 1_000_000)]
    for giant in turns:
        closed = window([giant])
        gaps = RulesDetector().detect(closed, max_gaps=8)
        text = ExtractiveSummarizer().summarize(closed.turns, gaps, {})
        made = summary_record(
            closed,
            Detection(gaps, "rules"),
            [MemoryTurn(giant, None, giant.tokens, 0, 1, 0.5)],
            Resolution({}, frozenset(range(len(gaps)))),
            Written(text, "extractive", "extractive"),
            strategy="remember",
            embedding="none",
            timings_ms={},
        )
        assert len(made.to_json()) < 100_000
        assert made.memory[0].text.endswith("…")
        assert Summary.from_json(made.to_json()) == made


giants = st.builds(
    lambda kind, count: kind * (count // len(kind)),
    st.sampled_from(KINDS),
    st.sampled_from([0, 100, 20_000, 1_000_000]),
)


@st.composite
def hostile_records(draw: st.DrawFn) -> Summary:
    """The largest records: 256 turns, a model without limits and a large budget, from admissible messages."""
    kind = draw(st.sampled_from(KINDS))
    ids = [f"{n:08}" + kind[0] * ((512 - 8) // json_bytes(kind[0])) for n in range(256)]
    link = "https://a.example/" + kind[0] * 4_000
    turns = tuple(
        turn(n, draw(giants) if n == 0 else "aye", kind[0] * 512, id_=id_, permalink=link)
        for n, id_ in enumerate(ids)
    )
    name = kind[0].upper() * 512
    text, query, word = draw(giants), draw(giants), draw(giants)
    gaps = [Gap(id_, text, query, text, (word,) * 99) for id_ in ids[: draw(st.sampled_from([1, 8, 256]))]]
    entries = draw(st.sampled_from([1, 250, 5_000]))
    recalled = [MemoryTurn(turns[n % 256], None, 5, n % len(gaps), n, 0.5) for n in range(entries)]
    written = Written(text, "abstractive", "m", unsupported=(word,) * 99)
    evidence = dict.fromkeys(range(len(gaps)), (Evidence(recalled[0], text),))
    return summary_record(
        window(turns, key=ChannelKey(name, name)),
        Detection(tuple(gaps), "m"),
        recalled,
        Resolution(evidence, frozenset(evidence)),
        written,
        strategy="remember",
        embedding="none",
        timings_ms={},
    )


@given(made=hostile_records())
@settings(database=None, deadline=None, max_examples=12)
def test_no_input_makes_a_record_larger_than_the_limit(made: Summary) -> None:
    body = made.to_json()
    assert len(body) <= MOST_BYTES
    assert Summary.from_json(body) == made
    assert len(made.window.turns) == 256
