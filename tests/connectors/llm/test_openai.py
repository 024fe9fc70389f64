"""The chat client against a server that misbehaves on purpose, and against a real llama.cpp server."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field

from backscroll.connectors.llm.openai import OpenAIChat, base_url
from backscroll.operators.gaps.guards import DetectedGaps
from backscroll.operators.gaps.stage import gaps_prompt
from backscroll.operators.llm.protocol import (
    Answer,
    BadAnswer,
    LLMError,
    LLMRefused,
    LLMUnavailable,
    Prompt,
    Usage,
)
from backscroll.operators.summary.stage import WrittenSummary, summary_prompt
from support.building import turn, window
from support.chat_server import ChatServer, chat_server
from support.llama import LlamaServer, llama_server
from support.pace import slowness

X = TypeVar("X")
WINDOW = window([turn(0, "The ship is late again."), turn(1, "Then we wait.", "Ben")])
PROMPT = summary_prompt(WINDOW, (), model="tiny", max_tokens=64)
GAPS_PROMPT = replace(gaps_prompt(WINDOW, model="smollm2", max_gaps=1), max_tokens=150)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as running:
        yield running


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaServer]:
    with llama_server() as running:
        yield running


def run(work: Callable[[], Awaitable[X]]) -> X:
    async def main() -> X:
        return await work()

    return asyncio.run(main())


def ask(url: str, prompt: Prompt = PROMPT, **options: object) -> Answer[WrittenSummary]:
    async def work() -> Answer[WrittenSummary]:
        chat = OpenAIChat(url, **{"timeout": 5.0, "max_retries": 0, **options})  # type: ignore[arg-type]
        try:
            return await chat.ask(prompt, WrittenSummary)
        finally:
            await chat.aclose()

    return run(work)


def test_an_answer_is_validated_against_the_schema_sent(server: ChatServer) -> None:
    answer = ask(server.url)
    assert answer.value == WrittenSummary(summary="they talked about the ship.")
    assert answer.usage == Usage(100, 10)
    (request,) = server.requests
    assert request["model"] == "tiny"
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert request["temperature"] == 0
    assert request["response_format"]["type"] == "json_schema"
    assert request["response_format"]["json_schema"]["schema"] == WrittenSummary.model_json_schema()
    assert "guided_json" not in request


def test_server_specific_options_are_sent(server: ChatServer) -> None:
    ask(server.url, extra_body={"chat_template_kwargs": {"enable_thinking": False}})
    assert server.requests[0]["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        ("truncated", "truncated"),
        ("not json", "invalid_json"),
        ("against the schema", "schema"),
        ("no choices", "schema"),
    ],
)
def test_an_unusable_answer_is_an_error_with_its_token_usage(
    server: ChatServer, behaviour: str, kind: str
) -> None:
    server.behaviours = [behaviour]
    with pytest.raises(BadAnswer) as caught:
        ask(server.url)
    assert (caught.value.kind, caught.value.usage) == (kind, Usage(100, 10))


@pytest.mark.parametrize(
    ("behaviour", "error", "kind"),
    [
        ("500", LLMUnavailable, "server"),
        ("503", LLMUnavailable, "server"),
        ("429 0", LLMUnavailable, "rate_limit"),
        ("hang", LLMUnavailable, "timeout"),
        ("stall", LLMUnavailable, "timeout"),
        ("no completion", LLMUnavailable, "server"),
        ("400", LLMRefused, "refused"),
        ("401", LLMRefused, "refused"),
        ("404", LLMRefused, "refused"),
    ],
)
def test_every_error_has_its_kind_and_contains_no_chat_text(
    server: ChatServer, behaviour: str, error: type[LLMError], kind: str
) -> None:
    server.behaviours = [behaviour]
    with pytest.raises(error) as caught:
        ask(server.url, timeout=0.5)
    assert caught.value.kind == kind
    assert "SECRET" not in str(caught.value)
    assert server.url in str(caught.value)


@pytest.mark.parametrize(
    "body",
    ["null", "[]", '"busy"', '{"choices": [{}]}', '{"choices": [{"message": null}], "usage": {}}', "7"],
)
def test_a_malformed_answer_is_an_ordinary_error(server: ChatServer, body: str) -> None:
    server.behaviours = [f"body {body}"]
    with pytest.raises((BadAnswer, LLMUnavailable)):
        ask(server.url)


def test_a_refused_connection_means_unavailable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(LLMUnavailable) as caught:
        ask(f"http://127.0.0.1:{port}")
    assert caught.value.kind == "connection"


@pytest.mark.parametrize("faults", [["500"], ["429 0"], ["hang"], ["500", "503"]])
def test_temporary_failures_are_retried(server: ChatServer, faults: list[str]) -> None:
    server.behaviours = list(faults)
    assert ask(server.url, timeout=0.5, max_retries=3).value.summary == "they talked about the ship."
    assert len(server.requests) == len(faults) + 1


@pytest.mark.timing
def test_retry_after_is_obeyed(server: ChatServer) -> None:
    server.behaviours = ["429 2"]
    ask(server.url, max_retries=1)
    first, second = server.arrivals
    assert 2.0 <= second - first < 2 + 1.5 * slowness()


def test_a_rejected_request_is_not_retried(server: ChatServer) -> None:
    server.behaviours = ["400"]
    with pytest.raises(LLMRefused):
        ask(server.url, max_retries=3)
    assert len(server.requests) == 1


@pytest.mark.timing
def test_all_attempts_together_have_a_deadline(server: ChatServer) -> None:
    server.behaviours = ["hang"] * 10
    started = time.monotonic()
    with pytest.raises(LLMUnavailable) as caught:
        ask(server.url, timeout=0.4, max_retries=9, deadline=1.5)
    assert caught.value.kind == "timeout"
    assert time.monotonic() - started < 1.5 + 1.5 * slowness()


def test_the_models_of_a_server_are_listed(server: ChatServer) -> None:
    assert OpenAIChat(server.url).models() == ["tiny"]
    server.models = None
    assert OpenAIChat(server.url).models() == []


def test_a_url_works_with_or_without_v1() -> None:
    assert base_url("http://a:1") == base_url("http://a:1/v1/") == "http://a:1/v1"


class Pick(BaseModel):
    """A schema that only a grammar can enforce: the tiny model would not follow it by itself."""

    model_config = ConfigDict(extra="forbid")
    colour: str = Field(pattern="^(red|blue)$", json_schema_extra={"enum": ["red", "blue"]})
    sure: bool


def test_a_real_server_follows_the_schema(llama: LlamaServer) -> None:
    async def work() -> Answer[Pick]:
        chat = OpenAIChat(llama.url, timeout=60)
        prompt = Prompt(
            "pick", "1", "smollm2", "Answer in JSON.", "Which colour has the sky?", WINDOW.ref, 64
        )
        try:
            return await chat.ask(prompt, Pick)
        finally:
            await chat.aclose()

    answer = run(work)
    assert answer.value.colour in ("red", "blue")
    assert answer.usage.prompt > 5
    assert answer.usage.completion > 3


def test_a_real_server_answers_the_prompts_or_reaches_the_token_limit(llama: LlamaServer) -> None:
    """Checks only the contract: a model this small writes nothing worth reading."""

    async def work() -> list[Answer[DetectedGaps] | Answer[WrittenSummary] | str]:
        chat = OpenAIChat(llama.url, timeout=120)
        found: list[Answer[DetectedGaps] | Answer[WrittenSummary] | str] = []
        try:
            try:
                found.append(await chat.ask(GAPS_PROMPT, DetectedGaps))
            except BadAnswer as err:
                found.append(err.kind)
            try:
                found.append(await chat.ask(PROMPT, WrittenSummary))
            except BadAnswer as err:
                found.append(err.kind)
        finally:
            await chat.aclose()
        return found

    gaps, summary = run(work)
    assert gaps == "truncated" or (isinstance(gaps, Answer) and isinstance(gaps.value, DetectedGaps))
    assert summary == "truncated" or (isinstance(summary, Answer) and summary.usage.completion > 0)
