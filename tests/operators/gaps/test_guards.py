from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.gaps.guards import DetectedGap, DetectedGaps, guard_gaps
from backscroll.operators.stream.windows import Window
from backscroll.operators.summary.stage import WrittenSummary
from support.annotated import PARTS, annotated_windows
from support.building import turn, window

HARBOR = window(
    [
        turn(0, "We still run the old schema, so that job fails again.", "Ana"),
        turn(1, "Ok, I'll restart the  job now… and “ping” the  others. Maybe tomorrow.", "Ben Lee"),
        turn(2, "The budget for it is €640, as agreed.", "Ana"),
        turn(3, "We still run the old schema? I thought Friday was the cut-off for elm/parser.", "Cleo"),
    ]
)
QUERY = "retrieve earlier dialogue about the reason the job fails"


def reported(
    quote: str, query: str = QUERY, index: int = 0, keywords: Sequence[str] = (), reason: str = "unclear"
) -> DetectedGap:
    return DetectedGap(
        utterance_index=index,
        quote=quote,
        gap_reason=reason,
        evidence_need_query=query,
        keywords=list(keywords),
    )


def guarded(
    *gaps: DetectedGap, max_gaps: int = 8, of: Window = HARBOR
) -> tuple[tuple[Gap, ...], Counter[str]]:
    return guard_gaps(DetectedGaps(gaps=list(gaps)), of, max_gaps=max_gaps)


def quoted(quote: str, index: int = 0) -> list[tuple[str, str]]:
    kept, _ = guarded(reported(quote, index=index))
    return [(gap.utterance, gap.quote) for gap in kept]


def is_guess(query: str, of: Window = HARBOR) -> bool:
    _, dropped = guarded(reported(of.turns[0].text, query), of=of)
    assert set(dropped) <= {"guessing_query"}
    return dropped["guessing_query"] == 1


def objects(schema: object) -> list[dict[str, object]]:
    """Every object schema in a schema, at any depth."""
    if isinstance(schema, list):
        return [found for item in schema for found in objects(item)]
    if not isinstance(schema, dict):
        return []
    inner = [found for item in schema.values() for found in objects(item)]
    return [schema, *inner] if schema.get("type") == "object" else inner


@pytest.mark.parametrize("model", [DetectedGaps, WrittenSummary])
def test_every_schema_requires_all_its_fields_and_allows_no_others(model: type) -> None:
    for schema in objects(model.model_json_schema()):
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])  # type: ignore[call-overload]


def test_the_schema_limits_lists_but_no_answer_is_rejected_for_its_length() -> None:
    schema = DetectedGaps.model_json_schema()
    keywords = schema["$defs"]["DetectedGap"]["properties"]["keywords"]
    assert (schema["properties"]["gaps"]["maxItems"], keywords["maxItems"]) == (8, 8)
    assert "Length" not in json.dumps([schema, WrittenSummary.model_json_schema()])
    long = reported("word " * 100, "why " * 200, keywords=["job"] * 20, reason="because " * 90)
    answer = DetectedGaps(gaps=[long] * 20)
    assert DetectedGaps.model_validate_json(answer.model_dump_json()) == answer


def test_missing_and_unknown_fields_are_invalid() -> None:
    fields = reported("old schema").model_dump()
    for broken in ({**fields, "mood": "sad"}, {name: fields[name] for name in fields if name != "keywords"}):
        with pytest.raises(ValidationError):
            DetectedGaps.model_validate({"gaps": [broken]})


def test_a_summary_is_stripped_and_must_not_be_empty() -> None:
    assert WrittenSummary(summary="  Ana ships.\n").summary == "Ana ships."
    with pytest.raises(ValidationError):
        WrittenSummary(summary=" \n ")


def test_the_quote_decides_the_utterance_not_the_index() -> None:
    assert quoted("the old schema, so", index=2) == [("m0", "the old schema, so")]
    assert quoted("as agreed", index=-1) == [("m2", "as agreed")]
    assert quoted("as agreed", index=99) == [("m2", "as agreed")]


def test_the_named_utterance_is_preferred_if_it_contains_the_quote() -> None:
    assert quoted("We still run the old schema", index=3) == [("m3", "We still run the old schema")]
    assert quoted("We still run the old schema", index=1) == [("m0", "We still run the old schema")]


@pytest.mark.parametrize(
    ("quote", "verbatim"),
    [
        ("  the old schema ", "the old schema"),
        ("WE STILL RUN THE OLD SCHEMA, so that job", "We still run the old schema, so that job"),
        ('"that job fails again"', "that job fails again"),
        ("that job fails again!", "that job fails again"),
        ("that job fails again...", "that job fails again"),
        ("We still run … fails again", "We still run the old schema, so that job fails again"),
        ("We still run [...]", "We still run"),
    ],
)
def test_a_quote_that_differs_in_form_is_replaced_by_the_words_of_the_window(
    quote: str, verbatim: str
) -> None:
    assert quoted(quote) == [("m0", verbatim)]


def test_white_space_quotation_marks_and_ellipses_in_a_quote_are_ignored() -> None:
    text = 'I’ll restart the job now... and "ping" the others'
    assert quoted(text) == [("m1", "I'll restart the  job now… and “ping” the  others")]


@pytest.mark.parametrize("quote", ["we run the new schema", "", "…", "a", "“!?”", "chema, so that jo b"])
def test_a_quote_that_is_not_in_the_window_is_dropped(quote: str) -> None:
    assert guarded(reported(quote)) == ((), Counter(unknown_quote=1))


def test_a_quote_that_differs_in_form_matches_only_whole_words() -> None:
    assert guarded(reported("OLD SCHEM")) == ((), Counter(unknown_quote=1))


@pytest.mark.parametrize("query", ["", "  \n", "?!", "…"])
def test_an_empty_query_is_dropped(query: str) -> None:
    assert guarded(reported("old schema", query)) == ((), Counter(empty_query=1))


@pytest.mark.parametrize(
    "query",
    [
        "retrieve earlier dialogue about the reason the job fails",
        "Which decision did Ana and Ben Lee agree on for the budget, and on what date?",
        "find the earlier plan, deadline and person responsible for the schema",
        "identify the project or feature that Cleo mentions, and state the agreed amount",
        "What does elm parser refer to? Explain the previous error.",
        "who suggested restarting it, and why",  # another form of a word of the window
        "earlier message about the €640 agreed on Friday",
        "earlier dialogue about Ana's jobs and their owner",  # one unknown word is paraphrase
        "¿Qué decisión se tomó sobre el budget y cuándo?",
        "前回の決定の理由",
    ],
)
def test_a_query_of_window_words_and_slot_words_is_not_a_guess(query: str) -> None:
    assert not is_guess(query)


@pytest.mark.parametrize(
    "query",
    [
        "retrieve earlier dialogue about Peter breaking the job",  # a name
        "did the job fail because of Postgres",
        "retrieve earlier dialogue where Ana agreed on 700 euros",  # a number
        "earlier dialogue about the job, version v2",
        "job fails because the disk filled overnight",  # words from nowhere
        "earlier dialogue: replication lagged, so the schema stayed",
        "¿Dijo Marta por qué falla el job?",
        "前回の700円の決定",
    ],
)
def test_a_query_with_an_unknown_name_number_or_two_words_is_a_guess(query: str) -> None:
    assert is_guess(query)


def test_a_query_in_another_language_may_be_a_translation() -> None:
    german = window([turn(0, "Wir haben das noch nicht auf dem neuen Server und der Umzug ist am Freitag.")])
    assert not is_guess("retrieve earlier dialogue about the migration of the machine", german)
    assert is_guess("retrieve earlier dialogue about 14 machines", german)
    japanese = window([turn(0, "田中さん、あのリリースはどうなりましたか。", "佐藤")])
    assert not is_guess(
        "retrieve earlier dialogue about the release that Tanaka and Sato discussed", japanese
    )


def test_german_nouns_are_not_names() -> None:
    german = window([turn(0, "Wir haben das noch nicht auf dem neuen Server und der Umzug ist am Freitag.")])
    assert not is_guess("Welche Entscheidung wurde zu dem Umzug getroffen und wer ist die Person", german)
    assert is_guess("Hat die Festplatte von dem Rechner den Umzug verhindert oder nicht", german)


def test_a_second_gap_of_an_utterance_and_gaps_over_the_limit_are_dropped() -> None:
    kept, dropped = guarded(
        reported("as agreed"),
        reported("budget"),
        reported("fails again"),
        reported("cut-off"),
        reported("ping"),
        max_gaps=2,
    )
    assert [gap.quote for gap in kept] == ["fails again", "as agreed"]  # window order
    assert dropped == Counter(repeated_utterance=1, over_limit=2)


def test_a_dropped_gap_does_not_count_towards_the_limit() -> None:
    kept, dropped = guarded(reported("as agreed", ""), reported("as agreed"), max_gaps=1)
    assert [gap.quote for gap in kept] == ["as agreed"]
    assert dropped == Counter(empty_query=1)
    assert guarded(reported("as agreed"), max_gaps=0) == ((), Counter(over_limit=1))


def test_keywords_that_are_not_in_the_window_are_removed() -> None:
    keywords = ["schema", "Ben Lee", "old  schemas", "schema", "Postgres", "", "700", "job now"]
    kept, dropped = guarded(reported("old schema", keywords=keywords))
    assert kept[0].keywords == ("schema", "Ben Lee", "old schemas", "job now")
    assert dropped == Counter(unknown_keyword=3)  # with the empty one


def test_the_reason_and_query_of_a_gap_are_one_line_each() -> None:
    kept, _ = guarded(reported("old schema", " which \n schema ", reason=" not\nsaid "))
    assert kept == (Gap("m0", "old schema", "not said", "which schema"),)


texts = st.lists(st.text(max_size=60), min_size=1, max_size=4)


@given(texts, st.data())
@settings(max_examples=150, deadline=None)
def test_kept_quotes_are_always_verbatim_and_in_window_order(said: list[str], data: st.DataObject) -> None:
    of = window(turn(seq, text) for seq, text in enumerate(said))
    some = st.one_of(st.text(max_size=40), st.sampled_from(said), st.sampled_from(said).map(str.swapcase))
    gap = st.builds(
        DetectedGap,
        utterance_index=st.integers(-2, 6),
        quote=some,
        gap_reason=some,
        evidence_need_query=some,
        keywords=st.lists(some, max_size=3),
    )
    answer = DetectedGaps(gaps=data.draw(st.lists(gap, max_size=5)))
    kept, dropped = guard_gaps(answer, of, max_gaps=3)
    by_id = {t.id: t for t in of.turns}
    assert all(gap.quote in by_id[gap.utterance].text for gap in kept)
    seqs = [by_id[gap.utterance].seq for gap in kept]
    assert seqs == sorted(set(seqs))
    assert len(kept) <= 3
    lost = sum(count for reason, count in dropped.items() if reason != "unknown_keyword")
    assert len(kept) + lost == len(answer.gaps)


def test_few_real_gaps_are_dropped_but_most_queries_with_the_answer_are(shared: Path) -> None:
    """Uses gaps from a strong model, and queries made from the annotators' resolutions."""
    dropped = Counter[str]()
    guesses, detections, answers = 0, 0, 0
    for part in PARTS:
        for annotated in annotated_windows(shared, part):
            reports = DetectedGaps.model_validate({"gaps": annotated.detected})
            detections += len(reports.gaps)
            dropped += guard_gaps(reports, annotated.window, max_gaps=8)[1]
            for gap in annotated.gaps:
                answer = gap.resolution[0].lower() + gap.resolution[1:]
                report = reported(gap.quote, f"retrieve earlier dialogue where {answer}")
                answers += 1
                guesses += guarded(report, of=annotated.window)[1]["guessing_query"]
    assert (detections, answers) == (406, 251)
    assert dropped["unknown_quote"] == 0
    assert dropped["guessing_query"] <= 6
    assert guesses >= 0.75 * answers
