from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.language.sentences import sentences
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.messages import Turn
from backscroll.operators.summary.unsupported import unsupported_spans
from support.annotated import PARTS, annotated_windows
from support.building import turn

# On Monday, 2 March 2026, from 09:00 UTC.
CHAT = [
    turn(0, "We ship the beta on Friday at 6pm, the budget is €640 and 1,024 users. See HAR-335.", "Ana"),
    turn(1, "I'll bring 3 laptops to the Berlin office, `make lock` first", "Deborah"),
    turn(
        2,
        "15% discount until 14 March, 20secs start up, Teenage Mutant Ninja Turtles rule",
        "Jean-Luc O'Neil",
    ),
    turn(
        3, "use websockets https://wiki.example/plan?a=1 @ben, twelve people said yes to José, v2.1", "Cleo"
    ),
]
GERMAN = [
    turn(0, "Die Beta kommt am Freitag um 18 Uhr, das Budget ist 640 Euro für die drei Laptops.", "Anna"),
    turn(1, "Ich spreche mit Herrn Krüger und der Abteilung über den Fehler in der Datenbank.", "Jonas"),
]


def remembered(said: Turn, span: tuple[int, int] | None = None) -> MemoryTurn:
    return MemoryTurn(said, span, 0, 0, 1, 0.0)


def unsupported(summary: str, turns: Sequence[Turn] = CHAT, memory: Sequence[MemoryTurn] = ()) -> list[str]:
    return list(unsupported_spans(summary, turns, memory))


@pytest.mark.parametrize(
    "summary",
    [
        "Ana said that the beta ships on Friday at 18:00 with a budget of 640 EUR and 1024 users.",
        "The beta ships at 6:00 PM for 640 euros and 1 024 users.",
        "The beta ships on 6 March 2026, or March 6th, or 2026-03-06, or 06.03.2026.",  # the Friday after
        "On Monday, 2 March, at 09:00 the chat began.",  # the times of turns
        "Yesterday they planned for tomorrow.",
        "The team agreed on three laptops, 12 people and 15 percent.",
        "The discount of 15 % holds until March 14, 2026, a Saturday.",
        "Starting took 20 seconds. In 2026, in March.",
        "Deb brings the laptops; TMNT rule; Web Sockets are used; Jose agreed.",
        "See HAR-335, `make lock`, @ben, @Ana, v2.1 and https://wiki.example/plan?a=1.",
        "Ana's plan, Jean-Luc's laptops and O'Neil's discount were discussed. Berlin is fine.",
        "**Decisions:** Ana ships.\n## Next Steps\n1. Cleo: websockets\n2. Deborah: laptops",
        "Everyone agreed. Participants will meet. Attendees asked about both options.",
        "Rollout was postponed. Feedback came in. Migration failed. Nonetheless, onboarding goes on.",
        "One of them, the second, was first. Additionally Ana asked why.",
        "A PR on the UI is open.",
        "",
        "…",
    ],
)
def test_paraphrased_true_claims_are_not_flagged(summary: str) -> None:
    assert unsupported(summary) == []


@pytest.mark.parametrize(
    ("summary", "spans"),
    [
        ("The beta ships on Thursday at 7pm.", ["Thursday", "7pm"]),
        ("The beta ships at 06:30.", ["06:30"]),
        ("It costs $640 for 1,025 users, 25% less.", ["$640", "1,025", "25%"]),
        ("It costs 650 EUR.", ["650 EUR"]),
        ("Seven laptops and four people.", ["Seven", "four"]),
        ("The discount holds until 15 March, or April 14.", ["15 March", "April 14"]),
        ("The discount ended on 14 March 2024.", ["14 March 2024"]),
        ("It was planned in July 2019.", ["July", "2019"]),
        ("HAR-336 needs `make locks`, @peter, v2.2.", ["HAR-336", "`make locks`", "@peter", "v2.2"]),
        ("See https://wiki.example/plan?a=2.", ["https://wiki.example/plan?a=2"]),
        ("Ana asked Peter to bring laptops.", ["Peter"]),
        ("Peter proposed it. Peter Miller and Ana meet in Paris.", ["Peter", "Peter Miller", "Paris"]),
        ("- Peter will test", ["Peter"]),
        (
            "Kowalski's rollout failed. Zelda is on holiday. Budgeting was hard, migration slow.",
            ["Kowalski", "Zelda"],
        ),
        ("The Central Bank and Ana agreed; Ana called Maria's office.", ["Central Bank", "Maria"]),
        ("He came. Ana met Peter. She met Peter again.", ["Peter"]),
    ],
)
def test_false_figures_and_names_are_flagged_in_order_and_once(summary: str, spans: list[str]) -> None:
    assert unsupported(summary) == spans


def test_the_memory_supports_what_the_window_does_not_but_only_within_its_span() -> None:
    earlier = turn(9, "Peter paid $700 on the way. Maria paid 900.", "Emil")
    assert unsupported("Peter paid $700 and Emil did not.", CHAT) == ["Peter", "$700", "Emil"]
    assert unsupported("Peter paid $700 and Emil did not.", CHAT, [remembered(earlier)]) == []
    part = remembered(earlier, (0, 27))
    assert unsupported("Ana heard that Maria paid 900 and Peter $700.", CHAT, [part]) == ["Maria", "900"]


def test_without_any_support_every_figure_and_name_is_flagged() -> None:
    summary = "On 2 March Ana asked Peter for 30 boxes."
    assert unsupported(summary, []) == ["2 March", "Ana", "Peter", "30"]
    assert unsupported(summary, [turn(0, "hello", "Bo")]) == ["Ana", "Peter", "30"]


def test_a_relative_day_or_month_in_a_text_supports_its_date() -> None:
    said = [turn(0, "done yesterday, the rest next month", "Ana")]
    assert unsupported("Ana finished on Sunday, 1 March; the rest follows in April.", said) == []
    assert unsupported("Ana finished on 1 March; the rest follows in April.", CHAT) == ["1 March", "April"]


def test_an_amount_is_supported_by_the_bare_number_but_not_by_another_unit() -> None:
    assert unsupported("It takes 20 euros.", [turn(0, "it takes 20", "Ana")]) == []
    assert unsupported("It takes 20.", [turn(0, "it takes 20 euros", "Ana")]) == []
    assert unsupported("It takes 20 euros.", [turn(0, "it takes 20 dollars", "Ana")]) == ["20 euros"]


@pytest.mark.parametrize(
    ("summary", "spans"),
    [
        ("Die Gruppe liefert die Beta am Freitag um 18:00 und zahlt 640 Euro für 3 Geräte.", []),
        ("Anna hat mit der Leitung über das Problem und den Rechner gesprochen.", []),
        ("Annas Vorschlag ist gut und Herr Krüger ist einverstanden.", []),
        ("Peter sagt, dass die Beta nicht fertig ist.", ["Peter"]),
        ("Anna hat mit Peter Schmidt und Frau Weber gesprochen.", ["Peter Schmidt", "Weber"]),
        ("Die Beta kommt am Montag um 19 Uhr für 700 Euro.", ["19 Uhr", "700 Euro"]),
    ],
)
def test_german_nouns_are_not_taken_for_names(summary: str, spans: list[str]) -> None:
    assert unsupported(summary, GERMAN) == spans


@pytest.mark.parametrize(
    ("summary", "spans"),
    [
        ("Ana dijo que la beta sale el viernes a las 18:00 con 640 euros.", []),
        ("Juan dijo que no y que el plan de Marta sigue con Ana.", ["Juan", "Marta"]),
        ("Ana dit que Marie et Paul viendront à Lyon demain.", ["Marie", "Paul", "Lyon"]),
    ],
)
def test_other_languages_with_capitals_are_checked(summary: str, spans: list[str]) -> None:
    assert unsupported(summary) == spans


def test_russian_names_may_be_inflected() -> None:
    said = [turn(0, "Мария приедет в Берлин в 18:00, бюджет 640 евро.", "Анна")]
    assert unsupported("Анна ждёт Марию из Берлина к 18:00.", said) == []
    assert unsupported("Анна ждёт Петра из Лондона к 19:00.", said) == ["Петра", "Лондона", "19:00"]


def test_in_japanese_figures_are_checked_and_names_are_not() -> None:
    said = [turn(0, "田中さん、ベータは金曜の18時に出します。予算は640円、3月14日まで。", "佐藤")]
    assert unsupported("ベータは金曜18:00に公開。予算640円、期限は3月14日。", said) == []
    assert unsupported("鈴木：木曜19時、予算650円、期限は3月15日。", said) == [
        "木曜",
        "19時",
        "650円",
        "3月15日",
    ]
    assert unsupported("The beta that Tanaka plans ships at 7pm.", said) == ["7pm"]  # transliterated


@given(st.text(), st.lists(st.text(max_size=60), max_size=3))
@settings(max_examples=200, deadline=None)
def test_spans_of_any_text_are_parts_of_it_and_each_once(summary: str, said: list[str]) -> None:
    spans = unsupported(summary, [turn(seq, text) for seq, text in enumerate(said)])
    assert len(set(spans)) == len(spans)
    assert all(span and span in summary for span in spans)


WORDS = st.sampled_from(
    [
        "Ana",
        "Peter",
        "March",
        "2",
        "1,024",
        "6pm",
        "€5",
        "`x`",
        "HAR-3",
        "and",
        "said.",
        "。",
        "\n",
        "Dr. ",
        "@b",
        "2.",
    ]
)


@given(
    st.lists(
        st.lists(st.one_of(WORDS, st.text(max_size=8)), max_size=12).map(" ".join), min_size=1, max_size=3
    )
)
@settings(max_examples=300, deadline=None)
def test_a_summary_of_verbatim_sentences_has_no_unsupported_span(said: list[str]) -> None:
    turns = [turn(seq, text) for seq, text in enumerate(said)]
    parts = [text[start:end] for text in said for start, end in sentences(text)]
    assert unsupported("\n".join(parts), turns) == []
    assert unsupported("".join(each.rendered for each in turns), turns) == []


def test_real_windows_support_their_own_sentences(shared: Path) -> None:
    for part in PARTS:
        for annotated in annotated_windows(shared, part):
            turns = annotated.window.turns
            parts = [each.text[start:end] for each in turns for start, end in sentences(each.text)]
            assert unsupported(" ".join(parts), turns) == []


def test_a_wrong_author_and_a_wrong_number_in_a_persons_sentence_are_flagged(shared: Path) -> None:
    found = {"author": 0, "number": 0}
    made = {"author": 0, "number": 0}
    for part in PARTS:
        for annotated in annotated_windows(shared, part):
            names = "|".join({re.escape(each.author.name) for each in annotated.window.turns})
            for gap in annotated.gaps:
                for kind, pattern, wrong in (
                    ("author", rf"\b(?:{names})\b", "Kowalski"),
                    ("number", r"(?<![\w.])\d+(?![\w.])", "7919"),
                ):
                    changed = re.sub(pattern, wrong, gap.resolution, count=1)
                    if changed != gap.resolution:
                        made[kind] += 1
                        spans = unsupported(changed, annotated.window.turns, gap.evidence)
                        found[kind] += any(wrong in span for span in spans)
    assert found["author"] >= 0.95 * made["author"] > 100
    assert found["number"] >= 0.9 * made["number"] > 10


@pytest.mark.parametrize("part", PARTS)
def test_human_sentences_are_rarely_flagged_with_their_evidence_and_often_without(
    shared: Path, part: str
) -> None:
    """The annotators' resolutions are true abstractive sentences; in another window most are unsupported."""
    annotated = list(annotated_windows(shared, part))
    flagged = dict.fromkeys(("own", "other dialogue"), 0)
    count = 0
    for place, each in enumerate(annotated):
        other = annotated[(place + len(annotated) // 2) % len(annotated)]
        assert other.window.ref.key != each.window.ref.key
        for gap in each.gaps:
            count += 1
            flagged["own"] += bool(unsupported(gap.resolution, each.window.turns, gap.evidence))
            flagged["other dialogue"] += bool(unsupported(gap.resolution, other.window.turns))
    assert flagged["own"] <= 0.04 * count
    assert flagged["other dialogue"] >= 0.9 * count
