from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from pydantic import BaseModel

from backscroll.operators.llm.protocol import (
    Answer,
    BadAnswer,
    CircuitOpen,
    LLMError,
    LLMUnavailable,
    Prompt,
    Usage,
)
from backscroll.operators.llm.resilience import CircuitBreaker, Limited, SecondTry
from support.building import turn, window

PROMPT = Prompt("summary", "1", "tiny", "s", "u", window([turn(0, "a")]).ref, 50)


class Text(BaseModel):
    text: str = "hello"


@dataclass
class Scripted:
    """Raises the errors of the script in order, then answers."""

    script: list[LLMError | None] = field(default_factory=list)
    asked: list[Prompt] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    async def ask(self, prompt: Prompt, schema: type[Text]) -> Answer[Text]:
        self.asked.append(prompt)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if self.script and (error := self.script.pop(0)):
            raise error
        return Answer(schema(), Usage(5, 5), "{}")


def bad(kind: str) -> BadAnswer:
    return BadAnswer("unusable", kind, Usage(3, 4))


def test_concurrent_calls_are_limited() -> None:
    model = Scripted()

    async def many() -> None:
        llm = Limited(model, 3)
        await asyncio.gather(*(llm.ask(PROMPT, Text) for _ in range(20)))

    asyncio.run(many())
    assert (model.most_running, len(model.asked)) == (3, 20)


def test_the_circuit_opens_after_consecutive_failures_and_one_call_tries_again() -> None:
    now = [0.0]
    down = LLMUnavailable("gone")
    model = Scripted([down, None, down, down, down, down, None])
    breaker = CircuitBreaker(model, failures=3, seconds=30, clock=lambda: now[0])

    def ask() -> str:
        try:
            return asyncio.run(breaker.ask(PROMPT, Text)).value.text
        except LLMError as err:
            return err.kind

    assert [ask() for _ in range(5)] == ["connection", "hello", "connection", "connection", "connection"]
    assert [ask() for _ in range(3)] == ["circuit_open"] * 3
    assert len(model.asked) == 5
    now[0] = 30.0
    assert [ask(), ask()] == ["connection", "circuit_open"]  # the trial failed: closed to calls again
    now[0] = 60.0
    assert [ask(), ask()] == ["hello", "hello"]


def test_only_one_call_tries_while_the_others_fail() -> None:
    now = [0.0]
    model = Scripted([LLMUnavailable("gone")])
    breaker = CircuitBreaker(model, failures=1, seconds=30, clock=lambda: now[0])

    async def three() -> list[object]:
        with pytest.raises(LLMUnavailable):
            await breaker.ask(PROMPT, Text)
        now[0] = 31.0
        return await asyncio.gather(*(breaker.ask(PROMPT, Text) for _ in range(3)), return_exceptions=True)

    outcomes = asyncio.run(three())
    assert [type(outcome) for outcome in outcomes] == [Answer, CircuitOpen, CircuitOpen]


def test_an_unusable_answer_does_not_open_the_circuit() -> None:
    down = LLMUnavailable("gone")
    model = Scripted([down, bad("schema"), down])
    breaker = CircuitBreaker(model, failures=2)
    for _ in range(3):
        with pytest.raises(LLMError):
            asyncio.run(breaker.ask(PROMPT, Text))
    assert not breaker.is_open


def test_an_unusable_answer_gets_a_second_try_and_both_are_counted() -> None:
    model = Scripted([bad("schema")])
    answer = asyncio.run(SecondTry(model).ask(PROMPT, Text))
    assert answer.usage == Usage(8, 9)
    assert [prompt.temperature for prompt in model.asked] == [0, 0.3]
    assert [prompt.max_tokens for prompt in model.asked] == [50, 50]


def test_a_truncated_answer_gets_a_higher_token_limit() -> None:
    model = Scripted([bad("truncated")])
    asyncio.run(SecondTry(model).ask(PROMPT, Text))
    assert [(prompt.max_tokens, prompt.temperature) for prompt in model.asked] == [(50, 0), (100, 0)]


def test_two_unusable_answers_are_a_failure_and_both_are_counted() -> None:
    model = Scripted([bad("truncated"), bad("invalid_json")])
    with pytest.raises(BadAnswer) as caught:
        asyncio.run(SecondTry(model).ask(PROMPT, Text))
    assert (caught.value.kind, caught.value.usage) == ("invalid_json", Usage(6, 8))


def test_an_unavailable_server_gets_no_second_try() -> None:
    model = Scripted([LLMUnavailable("gone")])
    with pytest.raises(LLMUnavailable):
        asyncio.run(SecondTry(model).ask(PROMPT, Text))
    assert len(model.asked) == 1
