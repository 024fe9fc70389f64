from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.language.tokens import count
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.messages import Turn
from backscroll.operators.summary.evidence import resolve_gaps
from backscroll.operators.summary.extractive import ExtractiveSummarizer
from support.building import turn

NAMES = ["Ana", "Ben Ito", "アナ"]
HEAD = re.compile(rf"(\d\d:\d\d) ({'|'.join(NAMES)}):")
NOTE = re.compile(rf" ?\[({'|'.join(NAMES)}), ((?:\d{{4}}-\d\d-\d\d )?\d\d:\d\d): ([^\]]*)\]")

WORDS = "pump valve leaks the Is we ordered Friday 漢字 🧭 1.5 no. Yes! ok? 。 berth decided please ,"
word = st.sampled_from([*WORDS.split(), "\n", "  "])
texts = st.lists(word, max_size=14).map(" ".join)
author = st.sampled_from(NAMES)


def normalised(text: str) -> str:
    return " ".join(text.split())


def remembered(
    entry: Turn,
    *,
    span: tuple[int, int] | None = None,
    gap: int | None = 0,
    rank: int = 1,
    score: float = 1.0,
) -> MemoryTurn:
    """A turn in memory; with a score of 1 it is the evidence of its gap whatever its text."""
    return MemoryTurn(entry, span, entry.tokens, gap, rank, score)


def digest_of(turns: Sequence[Turn], *, max_tokens: int = 200) -> str:
    return ExtractiveSummarizer(max_tokens).summarize(turns, (), {}).text


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Turn], list[Gap], list[MemoryTurn]]:
    memory = list[MemoryTurn]()
    for seq in range(draw(st.integers(0, 4))):
        text = draw(texts.filter(str.strip))
        entry = turn(seq, text, draw(author), minute=draw(st.integers(0, 3000)))
        start = draw(st.integers(0, len(text) - 1))
        end = draw(st.integers(start + 1, len(text)))
        span = (start, end) if draw(st.booleans()) and text[start:end].strip() else None
        gap, rank = draw(st.none() | st.integers(0, 3)), draw(st.integers(1, 4))
        memory.append(
            remembered(entry, span=span, gap=gap, rank=rank, score=draw(st.just(1.0) | st.floats(-1, 1)))
        )
    turns = [
        turn(seq, text, draw(author), minute=3000 + seq)
        for seq, text in enumerate(draw(st.lists(texts, min_size=1, max_size=6)), start=10)
    ]
    gaps = list[Gap]()
    for _ in range(draw(st.integers(0, 4))):
        about = draw(st.sampled_from(turns))
        start = draw(st.integers(0, len(about.text)))
        quote = about.text[start : start + draw(st.integers(0, 12))] if draw(st.booleans()) else draw(texts)
        gaps.append(Gap(about.id, quote, "", draw(texts), tuple(draw(st.lists(word, max_size=2)))))
    return turns, gaps, memory


def said(line: str) -> tuple[str, str, list[str], list[tuple[str, ...]]]:
    """A line's time and author, the parts of the utterance, and the notes between them."""
    head = HEAD.match(line)
    assert head, line
    rest = line[head.end() :].removesuffix(" …")  # a beginning
    notes = [match.groups() for match in NOTE.finditer(rest)]
    return head[1], head[2], [piece.strip() for piece in NOTE.sub("\0", rest).split("\0")], notes


def in_order(pieces: Iterable[str], text: str) -> bool:
    at = 0
    for piece in pieces:
        found = text.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True


@given(case=cases(), max_tokens=st.integers(24, 120))
@settings(database=None, deadline=None, max_examples=200)
def test_a_digest_holds_only_verbatim_words_of_window_and_memory(
    case: tuple[list[Turn], list[Gap], list[MemoryTurn]], max_tokens: int
) -> None:
    turns, gaps, memory = case
    digest = ExtractiveSummarizer(max_tokens).summarize(turns, gaps, resolve_gaps(turns, gaps, memory))
    assert count(digest.text) <= max_tokens
    assert all(entry in memory for entry in digest.evidence.values())

    seqs, quoted = list[int](), 0
    for line in digest.text.split("\n") if digest.text else []:
        time, name, pieces, notes = said(line)
        about = next(t for t in turns if f"{t.ts:%H:%M}" == time and t.author.name == name)
        assert in_order(pieces, normalised(about.text))
        assert any(pieces)
        seqs.append(about.seq)
        for who, when, words in notes:
            quoted += 1
            assert words
            assert any(
                entry.turn.author.name == who
                and when.endswith(f"{entry.turn.ts:%H:%M}")
                and words in normalised(entry.text)
                for entry in digest.evidence.values()
            )
    assert seqs == sorted(set(seqs))
    assert quoted == len(digest.evidence)
    assert bool(seqs) == any(t.text.strip() for t in turns)


def test_evidence_follows_the_words_that_refer_to_it() -> None:
    entry = remembered(turn(3, "Lunch? We ordered the pump from Kelsund. It arrives on Friday."))
    turns = [turn(10, "Is it fixed? The pump still leaks.", "Ben")]
    gaps = [Gap("m10", "it", "pronoun", "which pump is fixed", ("pump",))]
    digest = ExtractiveSummarizer().summarize(turns, gaps, resolve_gaps(turns, gaps, [entry]))
    assert digest.text == (
        "09:10 Ben: Is it [Ana, 09:03: Lunch? We ordered the pump from Kelsund. It arrives on Friday.] "
        "fixed? The pump still leaks."
    )
    assert digest.evidence == {0: entry}


def test_evidence_of_another_day_has_its_date() -> None:
    entry = remembered(turn(3, "We ordered the pump."))
    turns = [turn(10, "Is it fixed?", "Ben", minute=24 * 60 + 5)]
    gaps = [Gap("m10", "it", "", "which pump")]
    assert ExtractiveSummarizer().summarize(turns, gaps, resolve_gaps(turns, gaps, [entry])).text == (
        "09:05 Ben: Is it [Ana, 2026-03-02 09:03: We ordered the pump.] fixed?"
    )


def test_evidence_of_a_long_message_is_the_sentences_that_share_words_with_the_gap() -> None:
    filler = "Nobody said a thing about that on the whole long afternoon, as far as anyone here can tell."
    entry = remembered(turn(3, f"{filler} The pump is from Kelsund. {filler}"))
    turns = [turn(10, "Is it fixed?", "Ben")]
    digest = ExtractiveSummarizer().summarize(
        turns,
        [Gap("m10", "it", "", "which pump")],
        resolve_gaps(turns, [Gap("m10", "it", "", "which pump")], [entry]),
    )
    assert digest.text == f"09:10 Ben: Is it [Ana, 09:03: The pump is from Kelsund. {filler}] fixed?"


def test_evidence_that_shares_nothing_with_the_gap_is_not_quoted() -> None:
    turns = [turn(10, "Is it fixed?", "Ben")]
    gaps = [Gap("m10", "it", "", "which pump")]
    elsewhere, weak = remembered(turn(3, "Lunch at noon."), gap=1), remembered(turn(3, "Lunch"), score=0.2)
    for memory in ([], [elsewhere], [weak]):
        digest = ExtractiveSummarizer().summarize(turns, gaps, resolve_gaps(turns, gaps, memory))
        assert (digest.text, digest.evidence) == ("09:10 Ben: Is it fixed?", {})


def test_a_message_without_text_is_not_evidence() -> None:
    turns = [turn(10, "Is it fixed?", "Ben")]
    gaps = [Gap("m10", "it", "", "which pump")]
    digest = ExtractiveSummarizer().summarize(
        turns, gaps, resolve_gaps(turns, gaps, [remembered(turn(3, ""))])
    )
    assert (digest.text, digest.evidence) == ("09:10 Ben: Is it fixed?", {})


def test_an_utterance_whose_evidence_does_not_fit_is_quoted_without_it() -> None:
    endless = remembered(turn(3, "the pump " * 150))
    turns = [
        turn(10, "We decided to replace it on Friday and to test the new valve on Monday.", "Ben"),
        turn(11, "The lunch room is open."),
    ]
    gaps = [Gap("m10", "it", "", "which pump")]
    digest = ExtractiveSummarizer().summarize(turns, gaps, resolve_gaps(turns, gaps, [endless]))
    assert digest.text == (
        "09:10 Ben: We decided to replace it on Friday and to test the new valve on Monday.\n"
        "09:11 Ana: The lunch room is open."
    )
    assert digest.evidence == {}


def test_lines_are_in_window_order() -> None:
    turns = [
        turn(1, "We decided to order the pump on Friday."),
        turn(2, "thanks", "Ben"),
        turn(3, "Berth seven reopens on 11 March at noon.", "Ben"),
    ]
    assert digest_of(turns) == (
        "09:01 Ana: We decided to order the pump on Friday.\n"
        "09:03 Ben: Berth seven reopens on 11 March at noon."
    )


def test_lines_of_a_window_that_spans_days_show_the_day() -> None:
    turns = [
        turn(1, "We decided to order the pump on Friday.", minute=14 * 60 + 59),
        turn(2, "Berth seven reopens on 11 March at noon.", "Ben", minute=15 * 60 + 1),
    ]
    assert digest_of(turns) == (
        "03-02 23:59 Ana: We decided to order the pump on Friday.\n"
        "03-03 00:01 Ben: Berth seven reopens on 11 March at noon."
    )


def test_repeated_content_is_not_quoted_again() -> None:
    text = "We decided to order the pump on Friday."
    assert digest_of([turn(1, text), turn(2, text, "Ben")]) == f"09:01 Ana: {text}"


@pytest.mark.parametrize("text", ["ok", "thanks!", ":)", "？", "🧭", "hello\n\n"])
def test_a_window_with_trivial_content_gets_a_line(text: str) -> None:
    assert digest_of([turn(1, text)]) == f"09:01 Ana: {text.strip()}"


def test_a_window_without_text_gets_no_line() -> None:
    assert digest_of([turn(1, ""), turn(2, " \n ")]) == ""


def test_a_message_of_5000_tokens_is_shortened_to_the_limit() -> None:
    long = turn(1, " ".join(["pump", "valve"] * 2500))
    assert long.tokens > 5000
    text = digest_of([long])
    assert text.startswith("09:01 Ana: pump valve pump valve")
    assert text.endswith(" …")
    assert long.text.startswith(text.removeprefix("09:01 Ana: ").removesuffix(" …"))
    assert 195 <= count(text) <= 200


@pytest.mark.parametrize("text", ["漢字" * 2500, "x" * 20_000, "https://chat.example.com/" + "a7-" * 2000])
def test_a_long_message_without_spaces_is_shortened_to_the_limit(text: str) -> None:
    digest = digest_of([turn(1, text)])
    assert digest.endswith(" …")
    said_ = digest.removeprefix("09:01 Ana: ").removesuffix(" …")
    assert text.startswith(said_)
    assert said_ != ""
    assert 150 <= count(digest) <= 200


def test_a_long_author_name_does_not_break_the_limit() -> None:
    shouting = turn(1, "We decided to order the pump.", author=" ".join(["Maximilian"] * 150))
    assert count(digest_of([shouting])) <= 200


@pytest.mark.parametrize("max_tokens", [32, 40])
def test_a_tiny_limit_is_kept(max_tokens: int) -> None:
    turns = [turn(1, "We decided to order the pump on Friday."), turn(2, "ok", "Ben")]
    assert count(digest_of(turns, max_tokens=max_tokens)) <= max_tokens


OSLO, NEW_YORK = ZoneInfo("Europe/Oslo"), ZoneInfo("America/New_York")


def at(seq: int, text: str, ts: datetime) -> Turn:
    return replace(turn(seq, text), ts=ts)


@pytest.mark.parametrize(
    ("last", "zone", "heads"),
    [
        (datetime(2025, 12, 31, 22, 30, tzinfo=UTC), UTC, ["22:15", "22:30"]),
        (datetime(2025, 12, 31, 22, 30, tzinfo=UTC), OSLO, ["23:15", "23:30"]),
        (datetime(2025, 12, 31, 23, 30, tzinfo=UTC), OSLO, ["2025-12-31 23:15", "2026-01-01 00:30"]),
        (datetime(2026, 1, 1, 0, 30, tzinfo=UTC), UTC, ["2025-12-31 22:15", "2026-01-01 00:30"]),
        (datetime(2026, 1, 1, 0, 30, tzinfo=UTC), NEW_YORK, ["17:15", "19:30"]),
        (datetime(2026, 1, 1, 5, 30, tzinfo=UTC), NEW_YORK, ["2025-12-31 17:15", "2026-01-01 00:30"]),
    ],
)
def test_times_are_of_the_zone_and_show_the_year_where_the_window_spans_two(
    last: datetime, zone: tzinfo, heads: list[str]
) -> None:
    turns = [
        at(1, "The pump at berth seven leaks oil.", datetime(2025, 12, 31, 22, 15, tzinfo=UTC)),
        at(2, "We ordered a new valve from Bergen.", last),
    ]
    text = ExtractiveSummarizer(zone=zone).summarize(turns, (), {}).text
    assert text.split("\n") == [
        f"{heads[0]} Ana: The pump at berth seven leaks oil.",
        f"{heads[1]} Ana: We ordered a new valve from Bergen.",
    ]


def test_the_date_of_evidence_is_of_the_zone() -> None:
    earlier = at(0, "The pump leaks.", datetime(2026, 3, 2, 23, 30, tzinfo=UTC))
    later = at(1, "The old one is fixed.", datetime(2026, 3, 3, 1, 0, tzinfo=UTC))
    gap = Gap("m1", "The old one", "", "", ())
    evidence = {0: (remembered(earlier), "The pump leaks.")}
    assert ExtractiveSummarizer().summarize([later], [gap], evidence).text == (
        "01:00 Ana: The old one [Ana, 2026-03-02 23:30: The pump leaks.] is fixed."
    )
    assert ExtractiveSummarizer(zone=OSLO).summarize([later], [gap], evidence).text == (
        "02:00 Ana: The old one [Ana, 00:30: The pump leaks.] is fixed."
    )
