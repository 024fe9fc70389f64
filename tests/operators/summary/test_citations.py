from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.messages import Turn
from backscroll.operators.summary.citations import passages, quoted_in_brackets
from backscroll.operators.summary.evidence import Evidence
from backscroll.operators.summary.extractive import ExtractiveSummarizer
from backscroll.operators.summary.record import GapEntry, MemoryEntry, Summary, WindowEntry
from support.building import START, turn

EARLIER = turn(0, "The pump at berth seven leaks oil [since Friday].", "Ana: the first", 0)
EVIDENCE = {0: (Evidence(MemoryTurn(EARLIER, None, 9), EARLIER.text),)}
TURNS = [
    turn(5, "Lunch is at noon.", "Ben"),
    turn(6, "The old one is fixed. Everything else can wait.", "Cem"),
    turn(7, "The old one is gone.", "Cem", 6),
]


def record(text: str, turns: list[Turn] = TURNS, *, written: bool = False) -> Summary:
    window = WindowEntry(0, turns[0].seq, turns[-1].seq, [t.id for t in turns], START, START, 9)
    author = EARLIER.author.name
    memory = [MemoryEntry("m0", 0, author, EARLIER.ts, EARLIER.text, None, 9, 0, 1, 2.0)]
    kind = "abstractive" if written else "extractive"
    gaps = [GapEntry("m6", "The old one", "Which?", "", [], ["m0"])]
    return Summary("s", 0, True, "d", "c", kind, "none", window, text, gaps, memory, {}, {}, {})  # type: ignore[arg-type]


def cited(summary: Summary, turns: list[Turn] = TURNS) -> list[tuple[str, tuple[int, ...], bool]]:
    return [(summary.summary[p.start : p.end], p.seqs, p.earlier) for p in passages(summary, turns)]


def test_a_line_leads_to_its_message_and_its_brackets_to_the_earlier_one() -> None:
    gap = Gap("m6", "The old one", "Which?", "what leaks: the pump at berth seven", ("pump",))
    text = ExtractiveSummarizer().summarize(TURNS[:2], [gap], EVIDENCE)
    assert cited(record(text, TURNS[:2]), TURNS[:2]) == [
        ("Lunch is at noon.", (5,), False),
        ("The old one ", (6,), False),
        ("[Ana: the first, 09:00: The pump at berth seven leaks oil [since Friday].]", (0,), True),
        (" is fixed. Everything else can wait.", (6,), False),
    ]


def test_a_shortened_quote_in_brackets_leads_to_its_message() -> None:
    text = "09:06 Cem: The old one [Ana: the first, 09:00: The pump at berth …] is fixed."
    assert cited(record(text)) == [
        ("The old one ", (6,), False),
        ("[Ana: the first, 09:00: The pump at berth …]", (0,), True),
        (" is fixed.", (6,), False),
    ]


def test_the_messages_quoted_in_brackets_are_known_from_the_record_alone() -> None:
    quoted = "09:06 Cem: The old one [Ana: the first, 09:00: The pump at berth seven …] is gone."
    assert quoted_in_brackets(record(quoted)) == {0}
    assert (
        quoted_in_brackets(record("09:06 Cem: The old one [Ana: the first, 09:00: A crane] is gone."))
        == set()
    )
    assert quoted_in_brackets(record(quoted, written=True)) == set()


def test_the_words_tell_apart_two_lines_of_an_author_in_the_same_minute() -> None:
    assert cited(record("09:06 Cem: The old one is gone.")) == [("The old one is gone.", (7,), False)]
    assert cited(record("09:06 Cem: The old one is fixed. [no evidence]")) == [
        ("The old one is fixed. [no evidence]", (6,), False)
    ]


@pytest.mark.parametrize("zone", [ZoneInfo("Asia/Kathmandu"), ZoneInfo("America/New_York")])
@pytest.mark.parametrize("read", [UTC, ZoneInfo("Europe/Oslo")])
def test_lines_lead_to_their_messages_whatever_zone_they_were_written_in(
    zone: ZoneInfo, read: tzinfo
) -> None:
    gap = Gap("m6", "The old one", "Which?", "what leaks: the pump at berth seven", ("pump",))
    written = ExtractiveSummarizer(zone=zone).summarize(TURNS[:2], [gap], EVIDENCE)
    assert written != ExtractiveSummarizer().summarize(TURNS[:2], [gap], EVIDENCE)
    seqs = [(one.seqs, one.earlier) for one in passages(record(written, TURNS[:2]), TURNS[:2], read)]
    assert seqs == [((5,), False), ((6,), False), ((0,), True), ((6,), False)]


def test_of_equal_messages_of_an_author_the_time_decides() -> None:
    turns = [turn(1, "It is done.", minute=0), turn(2, "It is done.", minute=45)]
    for shown, zone, seq in (("09:45", UTC, 2), ("09:00", UTC, 1), ("10:45", ZoneInfo("Europe/Oslo"), 2)):
        (found,) = passages(record(f"{shown} Ana: It is done.", turns), turns, zone)
        assert found.seqs == (seq,)


def test_a_written_sentence_leads_to_the_messages_that_cover_its_words() -> None:
    text = "Ben eats at noon. The leaking pump of berth seven was fixed by Cem. Nobody objected."
    assert cited(record(text, written=True)) == [
        ("Ben eats at noon.", (5,), False),
        ("The leaking pump of berth seven was fixed by Cem.", (0, 6), False),
        ("Nobody objected.", (), False),
    ]


@given(st.text(max_size=60), st.booleans())
def test_passages_are_in_order_apart_and_within_any_text(text: str, written: bool) -> None:
    found = passages(record(text, written=written), TURNS)
    places = [place for one in found for place in (one.start, one.end)]
    assert places == sorted(places)
    assert all(0 <= place <= len(text) for place in places)
    assert all(set(one.seqs) <= {0, 5, 6, 7} for one in found)
