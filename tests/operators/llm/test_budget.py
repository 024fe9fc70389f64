from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

import pytest
from pydantic import BaseModel

from backscroll.operators.llm.budget import CachedAnswer, CachedAnswers, TokenBudget
from backscroll.operators.llm.protocol import (
    Answer,
    BadAnswer,
    BudgetSpent,
    LLMUnavailable,
    Prompt,
    Usage,
    parse_answer,
)
from backscroll.operators.messages import ChannelKey
from support.building import KEY, turn, window

DAY = date(2026, 3, 2)
REF = window([turn(0, "a"), turn(1, "b")]).ref
PROMPT = Prompt("summary", "1", "tiny", "system", "user", REF, 50)


class Text(BaseModel):
    text: str


@dataclass
class Store:
    """Stores answers in a dict; `before` is what earlier processes used."""

    before: Mapping[ChannelKey, int] = field(default_factory=dict)
    kept: list[CachedAnswer] = field(default_factory=list)

    def answer(self, key: ChannelKey, digest: str) -> str | None:
        found = [paid.raw for paid in self.kept if (paid.key, paid.digest) == (key, digest) and paid.raw]
        return found[0] if found else None

    def put_answer(self, paid: CachedAnswer) -> None:
        self.kept.append(paid)

    def erase(self, key: ChannelKey, seq: int) -> None:
        raise NotImplementedError

    def spent(self, day: date) -> Mapping[ChannelKey, int]:
        return self.before if day == DAY else {}


@dataclass
class Model:
    """Always gives the same answer, or fails with an error."""

    raw: str = '{"text": "hello"}'
    error: Exception | None = None
    asked: list[Prompt] = field(default_factory=list)

    async def ask(self, prompt: Prompt, schema: type[Text]) -> Answer[Text]:
        self.asked.append(prompt)
        if self.error:
            raise self.error
        usage = Usage(70, 30)
        return Answer(parse_answer(self.raw, schema, usage, finished=True), usage, self.raw)


def paid_answers(model: Model, store: Store, **limits: int) -> CachedAnswers:
    return CachedAnswers(model, store, TokenBudget(store.spent, today=lambda: DAY, **limits))  # type: ignore[arg-type]


def ask(llm: CachedAnswers, prompt: Prompt = PROMPT) -> Answer[Text]:
    return asyncio.run(llm.ask(prompt, Text))


def test_an_answer_is_cached_and_never_paid_for_twice() -> None:
    model, store = Model(), Store()
    first = ask(paid_answers(model, store))
    again = ask(paid_answers(model, store))  # as after a restart
    assert (first.value, first.usage, first.kept) == (Text(text="hello"), Usage(70, 30), False)
    assert (again.value, again.usage, again.kept) == (Text(text="hello"), Usage(), True)
    assert len(model.asked) == 1
    (paid,) = store.kept
    assert (paid.key, paid.first_seq, paid.last_seq, paid.stage, paid.model) == (KEY, 0, 1, "summary", "tiny")
    assert (paid.day, paid.usage, paid.raw) == (DAY, Usage(70, 30), '{"text": "hello"}')


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"version": "2"},
        {"user": "x"},
        {"system": "x"},
        {"max_tokens": 51},
        {"temperature": 0.7},
    ],
)
def test_a_different_prompt_never_gets_an_old_answer(change: dict[str, object]) -> None:
    model, store = Model(), Store()
    ask(paid_answers(model, store))
    ask(paid_answers(model, store), replace(PROMPT, **change))  # type: ignore[arg-type]
    assert len(model.asked) == 2


def test_an_answer_is_never_reused_in_another_channel() -> None:
    model, store = Model(), Store()
    ask(paid_answers(model, store))
    elsewhere = replace(PROMPT, subject=replace(REF, key=ChannelKey("default", "other")))
    ask(paid_answers(model, store), elsewhere)
    assert len(model.asked) == 2


def test_an_unusable_answer_is_counted_but_not_cached() -> None:
    model, store = Model(error=BadAnswer("cut", "truncated", Usage(70, 50))), Store()
    with pytest.raises(BadAnswer):
        ask(paid_answers(model, store))
    assert [(paid.usage.total, paid.raw) for paid in store.kept] == [(120, "")]
    model.error = None
    assert ask(paid_answers(model, store)).kept is False


def test_a_call_that_cost_nothing_is_not_recorded() -> None:
    model, store = Model(error=LLMUnavailable("gone")), Store()
    llm = paid_answers(model, store, per_day=60)
    for _ in range(3):  # what was set aside is given back every time
        with pytest.raises(LLMUnavailable):
            ask(llm)
    assert store.kept == []


def test_beyond_the_daily_limit_the_model_is_not_asked() -> None:
    model, store = Model(), Store(before={KEY: 60})
    llm = paid_answers(model, store, per_day=200)
    ask(llm)  # 160 spent, and the next call might need 52
    ask(llm)  # kept: costs nothing
    with pytest.raises(BudgetSpent, match=r"^the day's 200 tokens are used up$"):
        ask(llm, replace(PROMPT, user="another"))
    assert len(model.asked) == 1


def test_a_channel_has_its_own_daily_limit() -> None:
    model, store = Model(), Store()
    llm = paid_answers(model, store, per_channel_day=140)
    ask(llm)
    with pytest.raises(BudgetSpent, match=r"^default/general: the day's 140 tokens are used up$"):
        ask(llm, replace(PROMPT, user="another"))
    ask(llm, replace(PROMPT, subject=replace(REF, key=ChannelKey("default", "other"))))
    assert len(model.asked) == 2


def test_concurrent_calls_do_not_exceed_the_daily_limit() -> None:
    spending = TokenBudget(lambda _: {}, per_day=100, today=lambda: DAY)
    spending.reserve(KEY, 60)
    with pytest.raises(BudgetSpent):
        spending.reserve(KEY, 60)
    spending.settle(KEY, 60, Usage(10, 10))
    spending.reserve(KEY, 60)


def test_a_new_day_starts_with_the_full_limit() -> None:
    today = [DAY]
    spending = TokenBudget(lambda day: {KEY: 100} if day == DAY else {}, per_day=100, today=lambda: today[0])
    with pytest.raises(BudgetSpent):
        spending.reserve(KEY, 1)
    today[0] = date(2026, 3, 3)
    spending.reserve(KEY, 100)


def test_processes_share_the_rest_of_the_daily_limit() -> None:
    spending = TokenBudget(lambda _: {KEY: 60}, per_day=100, processes=2, today=lambda: DAY)
    spending.reserve(KEY, 20)
    with pytest.raises(BudgetSpent):
        spending.reserve(KEY, 1)


def test_tokens_are_counted_locally_if_the_server_does_not_report_them() -> None:
    @dataclass
    class Silent(Model):
        async def ask(self, prompt: Prompt, schema: type[Text]) -> Answer[Text]:
            answer = await Model.ask(self, prompt, schema)
            return replace(answer, usage=Usage())

    store = Store()
    ask(paid_answers(Silent(), store))
    (paid,) = store.kept
    assert paid.usage == Usage(2, 6)
