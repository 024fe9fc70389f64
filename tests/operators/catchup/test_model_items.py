from __future__ import annotations

import asyncio
from datetime import UTC

import pytest
from pydantic import BaseModel

from backscroll.operators.catchup.model_items import (
    SuggestedItem,
    SuggestedItems,
    catchup_prompt,
    guard_items,
    suggest,
)
from backscroll.operators.llm.protocol import Answer, LLMUnavailable, Prompt, Usage, parse_answer
from support.chats import channel, chat
from support.languages import CHATS

TURNS = chat(
    "Ines: We take the second offer, €720 a month.",
    "Bram: I'll build the grey banner by Friday.",
    "Odette: Who signs the contract with Tidewire?",
)


def item(text: str, *messages: int, kind: str = "decision", **fields: str | None) -> SuggestedItem:
    values = {"owner": None, "due": None, **fields}
    return SuggestedItem(kind=kind, text=text, messages=list(messages), **values)  # type: ignore[arg-type]


def test_a_supported_item_is_kept_with_its_owner_and_due_date() -> None:
    answer = SuggestedItems(
        items=[item("Bram will build the grey banner.", 1, kind="action", owner="Bram", due="by Friday")]
    )
    (found,), dropped = guard_items(answer, TURNS, UTC)
    assert dropped == 0
    assert (found.kind, found.text, found.owner) == ("action", "Bram will build the grey banner.", "Bram")
    assert found.due is not None
    assert (found.due.text, str(found.due.date)) == ("by Friday", "2026-03-06")


@pytest.mark.parametrize(
    ("code", "text", "number", "due", "date"),
    [
        ("fr", "Nadège prépare le correctif", 5, "d'ici vendredi", "2026-03-06"),
        ("it", "Sara puoi mandare i file definitivi", 5, "entro venerdì", "2026-03-06"),
        ("pl", "Ola przygotujesz listę", 5, "do piątku", "2026-03-06"),
        ("ru", "Денис сможешь настроить", 4, "до пятницы", "2026-03-06"),
        ("ko", "민수님 테스트 결과를 공유해", 5, "금요일까지", "2026-03-06"),
        ("zh", "你能在周五之前把采购单发给财务吗", 5, "周五之前", "2026-03-06"),
    ],
)
def test_a_due_date_is_read_in_the_language_of_the_chat(
    code: str, text: str, number: int, due: str, date: str
) -> None:
    answer = SuggestedItems(items=[item(text, number, kind="action", due=due)])
    (found,), _ = guard_items(answer, chat(*CHATS[code]), UTC)
    assert found.due is not None
    assert (found.due.text, str(found.due.date)) == (due, date)


@pytest.mark.parametrize(
    "bad",
    [
        item("Ines takes the second offer.", 7),
        item("Ines takes the second offer."),
        item("Ines takes the second offer, 850 a month.", 0),
        item("Ines and Marlinq take the second offer.", 0),
        item("The harbour gets new lamps and painted walls everywhere.", 0),
    ],
    ids=["no such message", "no message", "another number", "another name", "other words"],
)
def test_an_unsupported_item_is_dropped_and_counted(bad: SuggestedItem) -> None:
    kept, dropped = guard_items(
        SuggestedItems(items=[bad, item("Ines takes the second offer.", 0)]), TURNS, UTC
    )
    assert ([one.text for one in kept], dropped) == (["Ines takes the second offer."], 1)


def test_an_item_cites_only_the_messages_whose_words_it_shows() -> None:
    turns = chat(
        "Ines: Thanks, talk later.",
        "Ines: We take the second offer.",
        "Bram: Fine, the second offer then.",
        "Bram: I'll sign it by Friday.",
        "Odette: The tide is high today.",
    )
    answer = SuggestedItems(
        items=[
            item("Ines takes the second offer.", 0, 1, 2, 3, 4, kind="action", owner="Bram", due="by Friday")
        ]
    )
    (found,), dropped = guard_items(answer, turns, UTC)
    assert dropped == 0
    assert [turn.id for turn in (found.turn, *found.also)] == [turns[1].id, turns[3].id]
    assert (found.owner, None if found.due is None else found.due.text) == ("Bram", "by Friday")


def test_an_item_that_needs_more_than_three_messages_is_dropped() -> None:
    turns = chat(
        "Ines: The crane costs 710 euros.",
        "Bram: The mast costs 820 euros.",
        "Odette: The rope costs 930 euros.",
        "Ines: The sail costs 640 euros.",
    )
    four = item("Crane 710, mast 820, rope 930, sail 640 euros.", 0, 1, 2, 3)
    three = item("Crane 710, mast 820, rope 930 euros.", 0, 1, 2, 3)
    (found,), dropped = guard_items(SuggestedItems(items=[four, three]), turns, UTC)
    assert (found.text, len(found.also), dropped) == (three.text, 2, 1)


def test_an_owner_that_no_message_names_is_removed() -> None:
    answer = SuggestedItems(items=[item("The grey banner gets built.", 1, kind="action", owner="Tomas")])
    (found,), _ = guard_items(answer, TURNS, UTC)
    assert found.owner is None


def test_the_prompt_fences_the_messages_and_numbers_them() -> None:
    prompt = catchup_prompt(channel(TURNS), TURNS, model="m", max_items=4)
    assert "[1] 2026-03-02 09:05 Bram: I'll build the grey banner by Friday." in prompt.user
    assert prompt.user.splitlines()[0].split()[0] in prompt.system
    assert (prompt.stage, prompt.subject.first_seq, prompt.subject.last_seq) == ("catchup", 0, 2)
    assert "{{" not in prompt.system


class Says:
    """A model that always gives the same raw answer, or fails."""

    def __init__(self, raw: str | None) -> None:
        self.raw = raw

    async def ask(self, prompt: Prompt, schema: type[BaseModel]) -> Answer[BaseModel]:
        if self.raw is None:
            raise LLMUnavailable(f"{prompt.model} is away")
        return Answer(parse_answer(self.raw, schema, Usage(), finished=True), Usage(), self.raw)


def test_a_model_answer_is_checked_and_a_failure_gives_a_reason() -> None:
    raw = '{"items": [{"kind": "question", "text": "Who signs the contract with Tidewire?", "messages": [2],'
    raw += ' "owner": null, "due": null}]}'

    def ask(answer: str | None) -> tuple[list[str], int, str | None]:
        made = asyncio.run(
            suggest(Says(answer), channel(TURNS), TURNS, model="m", max_tokens=400, zone=UTC)  # type: ignore[arg-type]
        )
        return [one.text for one in made.items], made.dropped, made.degraded

    assert ask(raw) == (["Who signs the contract with Tidewire?"], 0, None)
    assert ask("no JSON") == ([], 0, "catchup: invalid_json")
    assert ask(None) == ([], 0, "catchup: connection")
