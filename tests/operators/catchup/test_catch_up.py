from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.catchup.catch_up import catch_up
from backscroll.operators.catchup.context import ContextFinder
from backscroll.operators.catchup.digest import SECTIONS, ChannelDigest, ChannelRead, line
from backscroll.operators.catchup.digest_json import to_json
from backscroll.operators.catchup.people import Person
from backscroll.operators.catchup.period import Endpoint, Period
from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.language.tokens import count
from backscroll.operators.memory.registry import get
from backscroll.operators.memory.request import MemoryParameters
from backscroll.operators.messages import NOBODY, ChannelKey, Turn
from support.chats import KEY, START, channel, chat

ALL = Period(Endpoint(START), None)


RECALLING = ContextFinder(RulesDetector(), get("recent"), MemoryParameters())


def digests(
    *channels: ChannelRead, me: str | None = None, max_tokens: int = 400, spans: Period = ALL
) -> list[ChannelDigest]:
    authors = [turn.author for one in channels for turn in one.turns]
    person = None if me is None else Person.named(me, authors)
    return catch_up(channels, spans, recalling=RECALLING, me=person, max_tokens=max_tokens, zone=UTC)


def shown(digest: ChannelDigest) -> dict[str, list[tuple[str, str | None]]]:
    """The ids of the lines by section, and why they concern the user."""
    return {
        name: [(item.messages[0].id, item.for_me) for item in items]
        for name, items in digest.sections.items()
    }


TALK = chat(
    "Ana: Morning! The import of the bookings was slow again, the terminal cannot cope on Mondays.",
    "Dora: On Sundays everybody is asleep.",
    "Ana: OK, then it is decided: we move the import of the bookings to Sunday night.",
    "Ben: Cem, can you rotate the tokens of the nine agencies by Friday?",
    "Cem>m3: Sure.",
    "Cem: I'll write the mail about the berth plan tomorrow.",
    "Dora: I was at the dentist, it took ages.",
    "opsbot: deployed #2107 to gannet",
    "Ana: Ben knows the printer in the control room best, he repaired it last week.",
    "Ana>m5: Use the template from the crane project for it.",
    "Ben: haha, the printer hates everybody else",
    "Dora: Where do the reports of the harbour master end up?",
)
ITEMS: dict[str, list[tuple[str, str | None]]] = {
    "for_me": [("m3", "action"), ("m5", "action"), ("m9", "reply")],
    "decisions": [("m2", None)],
    "questions": [("m11", None)],
}


def items_of(digest: ChannelDigest) -> dict[str, list[tuple[str, str | None]]]:
    """What is shown before the highlights."""
    return {name: items for name, items in shown(digest).items() if name != "highlights"}


def test_items_that_concern_the_user_come_first_with_their_reason() -> None:
    (digest,) = digests(channel(TALK), me="Cem")
    assert items_of(digest) == ITEMS
    assert ("m8", None) in shown(digest)["highlights"]
    assert digest.advice == "read"
    assert tuple(digest.sections) == ("for_me", "decisions", "questions", "highlights")


def test_a_line_has_an_owner_a_due_date_and_the_message_it_answers() -> None:
    (digest,) = digests(channel(TALK), me="Cem")
    task, mail, reply = digest.sections["for_me"]
    assert (task.owner, task.due and (task.due.text, str(task.due.date))) == (
        "Cem",
        ("by Friday", "2026-03-06"),
    )
    assert (mail.owner, mail.due and str(mail.due.date)) == ("Cem", "2026-03-03")
    assert [(one.turn.id, one.text) for one in reply.explained] == [
        ("m5", "I'll write the mail about the berth plan tomorrow.")
    ]


def test_only_a_highlight_that_leans_on_something_is_explained() -> None:
    lines = [
        "Ana: The crane in the south basin was painted by the apprentices in autumn.",
        "Ben: The apprentices got a medal from the mayor, and the newspaper printed a picture of the crane.",
        "Ana: That was a proud day for the south basin.",
        "Dora: The mayor opens the new terminal in June with a concert of the harbour choir.",
    ]
    (digest,) = digests(channel(chat(*lines)))
    explained = {item.messages[0].id: bool(item.explained) for item in digest.items}
    assert explained["m1"] is explained["m3"] is False


def test_a_line_does_not_tell_what_another_has_told() -> None:
    told = "Ana: The mayor opens the new terminal in June with a concert of the harbour choir."
    lines = [told, "Ben: The pilots painted their boat in a bright orange last week.", told]
    (digest,) = digests(channel(chat(*lines)))
    texts = [item.text for item in digest.items]
    assert texts.count(told.removeprefix("Ana: ")) == 1


def test_an_answer_to_a_question_of_the_user_is_a_reply_that_shows_the_question() -> None:
    asked = "How do I restart the import of the bookings after it fails?"
    lines = [
        "Ana: Morning!",
        f"Cem: {asked}",
        "Ana: Run the import again with resume, the import continues after the last booking.",
        "Cem: that worked, thank you",
        "Dora: I was at the dentist, it took ages.",
    ]
    (digest,) = digests(channel(chat(*lines)), me="Cem")
    (answer,) = (item for item in digest.sections["for_me"] if item.messages[0].id == "m2")
    assert answer.for_me == "reply"
    assert [(one.turn.id, one.text) for one in answer.explained] == [("m1", asked)]


def test_messages_left_out_are_counted() -> None:
    deleted = Turn(12, "m12", START, NOBODY, "", 0, 0, deleted=True)
    (digest,) = digests(channel([*TALK, deleted]), me="Cem")
    assert (digest.messages, digest.people) == (12, ("Ana", "Dora", "Ben", "Cem"))
    left, cited = digest.left_out, {turn.id for item in digest.items for turn in item.messages}
    assert (left.bots, left.deleted, left.items, left.dropped) == (1, 1, 0, 0)
    assert left.unmentioned == 12 - 1 - len(cited)


def test_without_a_name_decisions_and_actions_make_a_channel_worth_reading() -> None:
    (digest,) = digests(channel(TALK))
    assert digest.advice == "read"
    assert "for_me" not in digest.sections
    assert shown(digest)["actions"] == [("m3", None), ("m5", None)]


def test_a_channel_with_only_greetings_can_be_skipped() -> None:
    (digest,) = digests(channel(chat("Ana: good morning!", "Ben: hi hi")), me="Cem")
    assert digest.advice == "skip"
    assert len(list(digest.items)) == 1


def test_a_single_message_is_quoted() -> None:
    spans = Period(Endpoint(TALK[7].ts, KEY, 7), Endpoint(TALK[8].ts, KEY, 8))
    (digest,) = digests(channel(TALK), spans=spans)
    assert digest.quoted == TALK[8]
    assert digest.sections == {}


def test_a_period_without_messages_gives_no_digest() -> None:
    late = Period(Endpoint(datetime(2027, 1, 1, tzinfo=UTC)), None)
    assert digests(channel(TALK), spans=late) == []


def test_the_busiest_channel_comes_first_and_channels_stay_apart() -> None:
    other = ChannelKey("default", "random")
    quiet = [replace(turn, id=f"x{turn.seq}") for turn in chat("Eva: The cake is in the kitchen.", key=other)]
    found = digests(channel(quiet, other), channel(TALK), me="Cem")
    assert [digest.key for digest in found] == [KEY, other]
    assert {turn.id for item in found[0].items for turn in item.messages} <= {turn.id for turn in TALK}


def test_a_line_can_be_explained_by_a_message_before_the_period() -> None:
    spans = Period(Endpoint(TALK[8].ts, KEY, 8), None)
    (digest,) = digests(channel(TALK), spans=spans, me="Cem")
    (reply,) = digest.sections["for_me"]
    assert reply.messages[0].id == "m9"
    assert [one.turn.id for one in reply.explained] == ["m5"]
    assert {turn.id for item in digest.items for turn in item.messages} <= {"m9", "m10", "m11"}


def test_the_json_contains_every_section_and_a_link_to_every_message() -> None:
    found = digests(channel(TALK), me="Cem")
    fields = orjson.loads(to_json(found, ALL, time_zone="UTC", me="Cem", quiet=[ChannelKey("a", "b/c")]))
    assert (fields["version"], fields["since"], fields["until"]) == (1, "2026-03-02T09:00:00Z", None)
    assert fields["quiet"] == ["a/b%2Fc"]
    (only,) = fields["channels"]
    assert [len(only[name]) for name in SECTIONS[:-1]] == [3, 1, 0, 1]
    assert only["highlights"]
    assert only["for_me"][0] == {
        "kind": "action",
        "for_me": "action",
        "text": "Cem, can you rotate the tokens of the nine agencies by Friday?",
        "written": False,
        "messages": [
            {
                "id": "m3",
                "seq": 3,
                "author": "Ben",
                "ts": "2026-03-02T09:15:00Z",
                "permalink": "https://chat.example.com/ops/m3",
            }
        ],
        "explained": [],
        "owner": "Cem",
        "due": {"text": "by Friday", "date": "2026-03-06"},
    }


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from(["Ana", "Cem", "bot"]), st.text(max_size=60)), min_size=2, max_size=8),
    st.integers(32, 200),
    st.integers(0, 8),
)
def test_every_line_cites_messages_of_the_period_within_the_token_limit(
    said: list[tuple[str, str]], tokens: int, first: int
) -> None:
    turns = chat(*(f"{name}: {text}" for name, text in said))
    spans = Period(Endpoint(turns[min(first, len(turns) - 1)].ts), None)
    for digest in digests(channel(turns), me="Cem", max_tokens=tokens, spans=spans):
        inside = {turn.id for turn in turns if spans.holds(KEY, turn)}
        items = list(digest.items)
        assert digest.messages == len(inside)
        assert {turn.id for item in items for turn in item.messages} <= inside
        costs = [count(line(item) + "\n") for item in items]
        assert len(items) <= 1 or sum(costs) <= tokens
        assert digest.quoted is not None or items


def test_with_few_tokens_the_most_important_lines_are_kept_and_the_rest_counted() -> None:
    (everything,) = digests(channel(TALK), me="Cem")
    of_all = {section: set(items) for section, items in ITEMS.items()}
    for tokens in (32, 60, 100, 200):
        (digest,) = digests(channel(TALK), me="Cem", max_tokens=tokens)
        found = items_of(digest)
        assert ("m3", "action") in found["for_me"]
        assert all(set(items) <= of_all[section] for section, items in found.items())
        assert sum(count(line(item) + "\n") for item in digest.items) <= tokens
        assert digest.left_out.items == 5 - sum(map(len, found.values()))
        if tokens == 32:
            assert found == {"for_me": [("m3", "action")]}
        if tokens == 200:
            assert found == ITEMS == items_of(everything)


def test_each_section_gets_a_share_of_the_tokens() -> None:
    tasks = [
        f"Cem: I'll repaint the bollards at pier {n} and send you a picture by Friday." for n in range(12)
    ]
    lines = [*(line for task in tasks for line in (task, "Ana: great, thanks")), *talk_of(TALK)]
    (digest,) = digests(channel(chat(*lines)), me="Cem", max_tokens=400)
    assert "decisions" in digest.sections
    assert "questions" in digest.sections
    assert sum(count(line(item) + "\n") for item in digest.items) <= 400


def talk_of(turns: Sequence[Turn]) -> list[str]:
    return [f"{turn.author.name}: {turn.text}" for turn in turns]
