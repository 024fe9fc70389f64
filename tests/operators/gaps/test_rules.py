"""Rules: what an utterance leaves unresolved, and when the window resolves it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from math import inf
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.gaps.gap import Gap, GapDetector
from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.messages import Author, ChannelKey, Turn
from backscroll.operators.stream.windows import Window, WindowRef
from support.pace import slowness

# Turns without gaps, added first so that the position in the window has no effect.
OPENING = (
    "Ben: Good morning",
    "Ana: Good morning",
    "Ben: Thanks",
    "Ana: Thanks",
)


def window(*lines: str, **features: dict[int, str]) -> Window:
    """A window of `author: text` lines, one minute apart; `thread={2: "m0"}` sets a field of one turn."""
    turns = []
    for n, line in enumerate(lines):
        author, _, text = line.partition(": ")
        ts = datetime(2026, 3, 2, 9, tzinfo=UTC) + timedelta(minutes=n)
        extra = {name: values.get(n) for name, values in features.items()}
        turns.append(Turn(n, f"m{n}", ts, Author(author, author), text, 10, 0, **extra))
    ref = WindowRef(ChannelKey("default", "general"), 0, 0, len(turns) - 1)
    return Window(ref, tuple(turns))


def gaps(*lines: str, max_gaps: int = 8, **features: dict[int, str]) -> tuple[Gap, ...]:
    return RulesDetector().detect(window(*lines, **features), max_gaps=max_gaps)


def gap_after_opening(line: str) -> Gap | None:
    """The gap of a turn at a neutral position in the window."""
    found = [gap for gap in gaps(*OPENING, line) if gap.utterance == "m4"]
    return found[0] if found else None


def test_the_rules_detector_implements_the_interface():
    detector: GapDetector = RulesDetector()
    assert detector.name == "rules"


def test_an_empty_window_has_no_gaps():
    assert gaps() == ()
    assert gaps("Ana: ", "Ben: !!!") == ()


def test_a_pronoun_at_the_start_of_a_window_has_no_antecedent():
    (gap,) = gaps("Ana: It failed during the nightly import.", max_gaps=1)
    assert (gap.utterance, gap.quote) == ("m0", "It failed during the nightly import.")
    assert gap.reason == "'It' is left open."
    assert gap.query == "earlier: It"
    assert gap.keywords == ("nightly", "failed", "import")


def test_a_pronoun_with_its_antecedent_in_the_window_is_not_a_gap():
    found = gaps(*OPENING, "Ana: A supplier sent a broken invoice.", "Ben: It stopped a payment run.")
    assert "m5" not in {gap.utterance for gap in found}


def test_a_personal_pronoun_without_a_person_is_a_gap():
    (gap,) = gaps("Ana: She accepted an offer from a bank in Oslo.", max_gaps=1)
    assert gap.reason == "'She' is left open."


def test_a_personal_pronoun_after_a_person_is_not_a_gap():
    (gap,) = gaps("Ana: My sister called, she accepted an offer.", max_gaps=1)
    assert "'she'" not in gap.reason


@pytest.mark.parametrize(
    ("line", "phrase"),
    [
        ("Ana: Has your migration reached production?", "your migration"),
        ("Ana: We will demo your prototype on Friday.", "your prototype"),
    ],
)
def test_an_unknown_possession_of_the_listener_is_a_gap(line: str, phrase: str):
    gap = gap_after_opening(line)
    assert gap is not None
    assert gap.reason == f"'{phrase}' is left open."
    assert gap.quote == line.removeprefix("Ana: ")


def test_a_definite_phrase_is_a_gap_only_until_it_is_introduced():
    (gap,) = gaps("Ana: I reverted the migration before lunch.", max_gaps=1)
    assert gap.reason == "'the migration' is left open."
    found = gaps(*OPENING, "Ana: I wrote a migration.", "Ben: I reviewed the migration and approved.")
    assert "m5" not in {gap.utterance for gap in found}


@pytest.mark.parametrize(
    "line", ["Ana: I visited Lisbon over the weekend.", "Ana: I read a novel in the morning."]
)
def test_a_definite_phrase_that_everyone_knows_is_not_a_gap(line: str):
    assert gap_after_opening(line) is None


@pytest.mark.parametrize(
    ("line", "phrase"),
    [
        ("Ana: We finished another pottery workshop.", "another"),
        ("Ana: Our importer crashed again with a timeout.", "again"),
        ("Ana: I am still waiting for a visa appointment.", "still"),
        ("Ana: I finally booked a flight to Lisbon.", "finally"),
        ("Ana: We will buy a used van instead.", "instead"),
        ("Ana: I no longer work at a bank in Oslo.", "no longer"),
    ],
)
def test_a_repetition_presupposes_the_first_time(line: str, phrase: str):
    gap = gap_after_opening(line)
    assert gap is not None
    assert gap.reason == f"'{phrase}' is left open."


@pytest.mark.parametrize(
    ("line", "phrase"),
    [
        ("Ana: Remember when we talked about a laser leveler?", "Remember when"),
        ("Ana: I ordered a desk as agreed.", "as agreed"),
        ("Ana: I tried a plugin you mentioned.", "you mentioned"),
        ("Ana: I applied your suggestion to a parser.", "your suggestion"),
        ("Ana: Any news on a visa appointment?", "Any news on"),
    ],
)
def test_a_reminder_refers_to_an_earlier_exchange(line: str, phrase: str):
    gap = gap_after_opening(line)
    assert gap is not None
    assert gap.reason == f"'{phrase}' is left open."


def test_the_same_sentence_without_its_cue_is_not_a_gap():
    assert gap_after_opening("Ana: We finished a pottery workshop.") is None
    assert gap_after_opening("Ana: I ordered a desk.") is None


def test_an_answer_without_its_question_is_a_gap():
    (gap,) = gaps("Ana: Yes, Postgres handles partial indexes well.", max_gaps=1)
    assert gap.reason == "'Yes' is left open."


def test_an_answer_to_a_question_in_the_window_is_not_a_gap():
    found = gaps(
        "Ben: Does Postgres handle partial indexes?", "Ana: Yes, Postgres handles partial indexes well."
    )
    assert all("'Yes'" not in gap.reason for gap in found)


def test_an_elliptical_decision_is_a_gap():
    (gap,) = gaps("Ana: Ok, let's go with that on Friday.", max_gaps=1)
    assert gap.reason == "'let's go with that' is left open."


def test_the_first_turn_of_a_window_continues_a_conversation():
    (gap,) = gaps("Ana: Berlin hotels cost twice as much in August.", max_gaps=1)
    assert gap.reason == "What it goes on from is left open."


def test_a_window_that_opens_with_a_greeting_has_no_opening_gap():
    assert gaps("Ana: Good morning", "Ben: Hi!") == ()


def test_a_reply_to_a_message_outside_the_window_is_a_gap():
    line = "Ana: Berlin has four airports on paper"
    (gap,) = [gap for gap in gaps(*OPENING, line, reply_to={4: "m-9"}) if gap.utterance == "m4"]
    assert gap.reason == "What it goes on from is left open."
    assert "m4" not in {gap.utterance for gap in gaps(*OPENING, line, reply_to={4: "m3"})}
    assert "m4" not in {gap.utterance for gap in gaps(*OPENING, line, thread={4: "m4"})}


def test_a_mention_of_someone_who_has_not_spoken_is_a_gap():
    line = "Ana: <@Reiko> a lazy sequence keeps its head in memory"
    (gap,) = [gap for gap in gaps(*OPENING, line) if gap.utterance == "m4"]
    assert gap.reason == "'<@Reiko>' is left open."
    spoken = gaps(*OPENING, "Reiko: A lazy sequence ate my memory", line)
    assert "m5" not in {gap.utterance for gap in spoken}


def test_a_ticket_is_a_gap_where_it_first_appears():
    found = gaps(*OPENING, "Ana: PAY-113 blocks a release on Monday", "Ben: PAY-113 needs a database index")
    assert [(gap.utterance, gap.reason) for gap in found] == [("m4", "'PAY-113' is left open.")]


def test_bot_messages_rank_below_those_of_people():
    turns = window(*OPENING, "Ana: Our importer crashed again with a timeout.").turns
    bot = Turn(5, "m5", turns[-1].ts, Author("b", "CI", bot=True), turns[-1].text, 10, 0)
    found = RulesDetector().detect(
        Window(WindowRef(ChannelKey("default", "g"), 0, 0, 5), (*turns, bot)), max_gaps=1
    )
    assert [gap.utterance for gap in found] == ["m4"]


def test_only_the_clause_with_the_cue_is_quoted_from_a_long_sentence():
    before = (
        "We moved twelve services, three queues and a cache to a smaller cluster in Frankfurt over two days"
    )
    line = f"Ana: {before}, but our importer crashed again with a timeout after a retry of five long minutes."
    gap = gap_after_opening(line)
    assert gap is not None
    assert gap.quote.startswith("but our importer crashed again")


def test_keywords_come_from_the_utterance_and_then_from_its_neighbours():
    found = gaps(
        "Ana: That surprised me at an opening!",
        "Ben: Your pottery exhibition in Porto deserves attention.",
        "Ana: Pottery visitors bought twelve bowls at the exhibition.",
    )
    assert found[0].utterance == "m0"
    assert found[0].keywords[:2] == ("surprised", "opening")
    assert set(found[0].keywords[2:4]) == {"pottery", "exhibition"}


def test_the_query_is_the_rest_of_the_utterance():
    (gap,) = gaps("Ana: It failed again. The nightly import ran out\nof memory.", max_gaps=1)
    assert gap.quote == "It failed again."
    assert gap.query == "earlier: The nightly import ran out of memory."


def test_a_thread_counts_as_context_before_the_turns_in_between():
    lines = ["Ana: Zookeepers feed penguins", *(f"Ben: Tram{n} route{n} stops{n}" for n in range(5))]
    thread = {0: "m0", 6: "m0"}
    found = gaps(*lines, "Ana: I finally photographed a feeding at noon", thread=thread)
    (gap,) = [gap for gap in found if gap.utterance == "m6"]
    assert {"Zookeepers", "penguins"} <= set(gap.keywords)


def test_the_best_gaps_are_kept_in_window_order():
    lines = [
        f"{'Ana' if n % 2 else 'Ben'}: I finally sold painting{n} again in gallery{n}." for n in range(12)
    ]
    every = gaps(*lines)
    assert len(every) == 8
    places = [int(gap.utterance[1:]) for gap in every]
    assert places == sorted(places)
    assert places[0] == 0
    assert [gap.utterance for gap in gaps(*lines, max_gaps=1)] == ["m0"]
    assert gaps(*lines, max_gaps=0) == ()


@pytest.mark.parametrize(
    ("line", "phrase"),
    [
        ("Ana: El servidor de pagos falló otra vez anoche.", "otra vez"),
        ("Ana: Reservé un hotel en Sevilla como acordamos.", "como acordamos"),
        ("Ana: Der Zahlungsserver ist wieder ausgefallen und wir warten.", "wieder"),
        ("Ana: Ich habe einen Tisch bestellt wie besprochen.", "wie besprochen"),
        ("Ana: 東京支店のサーバーがまた停止しました。", "また"),
        ("Ana: 前回の会議で決定事項を共有しました。", "前回"),
    ],
)
def test_other_languages_have_their_own_cues(line: str, phrase: str):
    gap = gap_after_opening(line)
    assert gap is not None
    assert f"'{phrase}'" in gap.reason
    assert gap.quote in line
    assert gap.keywords


def test_japanese_sentences_are_quoted_one_at_a_time_with_runs_of_characters_as_keywords():
    (gap,) = gaps("Ana: お疲れさまです。その移行計画は延期になりました。", max_gaps=1)
    assert gap.quote == "その移行計画は延期になりました。"
    assert gap.reason == "'その移行計画' is left open."
    assert gap.keywords[:2] == ("移行計画", "延期")


def test_a_language_without_word_lists_still_gets_its_opening_gap():
    (gap,) = gaps("Ana: Wczoraj przenieśliśmy bazę danych klientów na nowy serwer.", max_gaps=1)
    assert gap.quote == "Wczoraj przenieśliśmy bazę danych klientów na nowy serwer."
    assert "przenieśliśmy" in gap.keywords


@pytest.mark.timing
def test_detection_takes_less_than_ten_milliseconds_for_a_full_window():
    said = (
        "I finally moved the old billing importer to your new cluster, but it still crashes again on Friday."
    )
    full = window(*(f"{'Ana' if n % 2 else 'Ben'}: {said} Run {n} took {n} hours." for n in range(32)))
    detector = RulesDetector()
    detector.detect(full, max_gaps=8)
    best = inf
    for _ in range(50):  # another process may take the processor: the best counts
        began = perf_counter()
        detector.detect(full, max_gaps=8)
        best = min(best, (perf_counter() - began) / slowness())
        if best < 0.010:
            break
    assert best < 0.010


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Ana", "Ben", "Zoë Ł", "李"]),
            st.one_of(
                st.text(max_size=60),
                st.lists(
                    st.sampled_from(
                        [
                            "it",
                            "again",
                            "the",
                            "ﬁx",
                            "İstanbul",
                            "your",
                            "plan.",
                            "それ",
                            "まだ移行",
                            "<@x>",
                            "AB-1",
                            "\n",
                            "```",
                        ]
                    ),
                    max_size=12,
                ).map(" ".join),
            ),
            st.one_of(st.none(), st.sampled_from(["m0", "m1", "gone"])),
        ),
        max_size=8,
    ),
    st.integers(0, 4),
)
def test_any_text_gives_verbatim_quotes_and_keywords_of_the_window(
    said: list[tuple[str, str, str | None]], max_gaps: int
):
    start = datetime(2026, 3, 2, 9, tzinfo=UTC)
    turns = tuple(
        Turn(n, f"m{n}", start + timedelta(hours=n), Author(name, name), text, 10, 0, reply_to=link)
        for n, (name, text, link) in enumerate(said)
    )
    whole = Window(WindowRef(ChannelKey("default", "general"), 0, 0, len(turns) - 1), turns)
    found = RulesDetector().detect(whole, max_gaps=max_gaps)
    texts = {turn.id: turn.text for turn in turns}
    everything = "\n".join(texts.values()).replace("’", "'")
    assert len(found) <= max_gaps
    assert [gap.utterance for gap in found] == [
        turn.id for turn in turns if turn.id in {g.utterance for g in found}
    ]
    for gap in found:
        assert gap.quote
        assert gap.quote in texts[gap.utterance]
        assert len(gap.keywords) <= 8
        assert all(keyword in everything for keyword in gap.keywords)
        assert re.fullmatch(r"[^\n]+", gap.reason) or "\n" in gap.quote
    assert found == RulesDetector().detect(whole, max_gaps=max_gaps)
