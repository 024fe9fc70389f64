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
from backscroll.operators.summary.evidence import Evidence
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


def remembered(entry: Turn, quote: str | None = None) -> Evidence:
    """A turn in memory as evidence, quoted in full or in part."""
    return Evidence(MemoryTurn(entry, None, entry.tokens), entry.text if quote is None else quote)


def digest_of(turns: Sequence[Turn], *, max_tokens: int = 200) -> str:
    return ExtractiveSummarizer(max_tokens).summarize(turns, (), {})


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Turn], list[Gap], dict[int, tuple[Evidence, ...]]]:
    memory = list[Evidence]()
    for seq in range(draw(st.integers(0, 4))):
        text = draw(texts.filter(str.strip))
        entry = turn(seq, text, draw(author), minute=draw(st.integers(0, 3000)))
        start = draw(st.integers(0, len(text) - 1))
        end = draw(st.integers(start + 1, len(text)))
        memory.append(remembered(entry, text[start:end] if text[start:end].strip() else text))
    turns = [
        turn(seq, text, draw(author), minute=3000 + seq)
        for seq, text in enumerate(draw(st.lists(texts, min_size=1, max_size=6)), start=10)
    ]
    gaps, evidence = list[Gap](), dict[int, tuple[Evidence, ...]]()
    for index in range(draw(st.integers(0, 4))):
        about = draw(st.sampled_from(turns))
        start = draw(st.integers(0, len(about.text)))
        quote = about.text[start : start + draw(st.integers(0, 12))] if draw(st.booleans()) else draw(texts)
        gaps.append(Gap(about.id, quote, "", draw(texts), tuple(draw(st.lists(word, max_size=2)))))
        if memory and draw(st.booleans()):
            evidence[index] = tuple(
                draw(st.lists(st.sampled_from(memory), min_size=1, max_size=2, unique=True))
            )
    return turns, gaps, evidence


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
    case: tuple[list[Turn], list[Gap], dict[int, tuple[Evidence, ...]]], max_tokens: int
) -> None:
    turns, gaps, evidence = case
    text = ExtractiveSummarizer(max_tokens).summarize(turns, gaps, evidence)
    assert count(text) <= max_tokens

    seqs, quoted = list[int](), list[str]()
    for line in text.split("\n") if text else []:
        time, name, pieces, notes = said(line)
        about = next(t for t in turns if f"{t.ts:%H:%M}" == time and t.author.name == name)
        assert in_order(pieces, normalised(about.text))
        assert any(pieces)
        seqs.append(about.seq)
        for who, when, words in notes:
            assert words
            assert any(
                one.entry.turn.author.name == who
                and when.endswith(f"{one.entry.turn.ts:%H:%M}")
                and words in normalised(one.entry.text)
                for found in evidence.values()
                for one in found
            )
            quoted.append(words)
    assert seqs == sorted(set(seqs))
    assert count("".join(quoted)) <= 0.4 * max_tokens
    assert bool(seqs) == any(t.text.strip() for t in turns)


GAP = Gap("m10", "it", "pronoun", "which pump is fixed", ("pump",))


def test_evidence_follows_the_words_that_refer_to_it() -> None:
    entry = remembered(turn(3, "Lunch? We ordered the pump from Kelsund. It arrives on Friday."))
    turns = [turn(10, "Is it fixed? The pump still leaks.", "Ben")]
    assert ExtractiveSummarizer().summarize(turns, [GAP], {0: (entry,)}) == (
        "09:10 Ben: Is it [Ana, 09:03: Lunch? We ordered the pump from Kelsund. It arrives on Friday.] "
        "fixed? The pump still leaks."
    )


def test_a_question_and_its_answer_explain_together_in_their_order() -> None:
    question, answer = turn(3, "Which pump leaks?"), turn(4, "The one at quay four.", "Cem")
    turns = [turn(10, "Is it fixed?", "Ben")]
    evidence = {0: (remembered(answer), remembered(question))}
    assert ExtractiveSummarizer().summarize(turns, [GAP], evidence) == (
        "09:10 Ben: Is it [Ana, 09:03: Which pump leaks?] [Cem, 09:04: The one at quay four.] fixed?"
    )


def test_an_explanation_is_printed_once() -> None:
    entry = remembered(turn(3, "The pump at quay four leaks."))
    turns = [turn(10, "Is it fixed on Friday?", "Ben"), turn(11, "We must replace it on Monday.", "Cem")]
    gaps = [GAP, Gap("m11", "it", "pronoun", "which pump is replaced", ("pump",))]
    text = ExtractiveSummarizer().summarize(turns, gaps, {0: (entry,), 1: (entry,)})
    assert text.count("[Ana, 09:03: The pump at quay four leaks.]") == 1
    assert text.count("\n") == 1


def test_evidence_of_another_day_has_its_date() -> None:
    entry = remembered(turn(3, "We ordered the pump."))
    turns = [turn(10, "Is it fixed?", "Ben", minute=24 * 60 + 5)]
    assert ExtractiveSummarizer().summarize(turns, [GAP], {0: (entry,)}) == (
        "09:05 Ben: Is it [Ana, 2026-03-02 09:03: We ordered the pump.] fixed?"
    )


def test_evidence_that_would_take_more_than_two_fifths_of_the_digest_is_not_quoted() -> None:
    entry = remembered(turn(3, "We ordered the pump from Kelsund because the old one leaks oil. " * 2))
    turns = [turn(10, "Is it fixed?", "Ben")]
    assert "Kelsund" in ExtractiveSummarizer(120).summarize(turns, [GAP], {0: (entry,)})
    assert ExtractiveSummarizer(80).summarize(turns, [GAP], {0: (entry,)}) == "09:10 Ben: Is it fixed?"


def test_if_two_messages_are_too_long_the_better_one_is_quoted() -> None:
    long = "We ordered the pump from Kelsund because the old one leaks oil. " * 2
    better, other = remembered(turn(4, "The pump at quay four.", "Cem")), remembered(turn(3, long))
    turns = [turn(10, "Is it fixed?", "Ben")]
    assert ExtractiveSummarizer(80).summarize(turns, [GAP], {0: (better, other)}) == (
        "09:10 Ben: Is it [Cem, 09:04: The pump at quay four.] fixed?"
    )


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
    text = ExtractiveSummarizer(zone=zone).summarize(turns, (), {})
    assert text.split("\n") == [
        f"{heads[0]} Ana: The pump at berth seven leaks oil.",
        f"{heads[1]} Ana: We ordered a new valve from Bergen.",
    ]


def test_the_date_of_evidence_is_of_the_zone() -> None:
    earlier = at(0, "The pump leaks.", datetime(2026, 3, 2, 23, 30, tzinfo=UTC))
    later = at(1, "The old one is fixed.", datetime(2026, 3, 3, 1, 0, tzinfo=UTC))
    gap = Gap("m1", "The old one", "", "", ())
    evidence = {0: (remembered(earlier),)}
    assert ExtractiveSummarizer().summarize([later], [gap], evidence) == (
        "01:00 Ana: The old one [Ana, 2026-03-02 23:30: The pump leaks.] is fixed."
    )
    assert ExtractiveSummarizer(zone=OSLO).summarize([later], [gap], evidence) == (
        "02:00 Ana: The old one [Ana, 00:30: The pump leaks.] is fixed."
    )
