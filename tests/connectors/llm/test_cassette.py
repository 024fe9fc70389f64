from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backscroll.connectors.files.base.format import FormatError
from backscroll.connectors.llm.cassette import Cassette, Recorder
from backscroll.connectors.llm.openai import OpenAIChat
from backscroll.operators.llm.protocol import LLM, Answer, BadAnswer, LLMRefused, Usage
from backscroll.operators.summary.stage import WrittenSummary, summary_prompt
from support.building import turn, window
from support.chat_server import ChatServer, chat_server

PROMPT = summary_prompt(window([turn(0, "The ship is late.")]), (), model="tiny", max_tokens=64)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as running:
        yield running


def ask(llm: LLM, chat: OpenAIChat | None = None) -> Answer[WrittenSummary]:
    async def work() -> Answer[WrittenSummary]:
        try:
            return await llm.ask(PROMPT, WrittenSummary)
        finally:
            if chat is not None:
                await chat.aclose()

    return asyncio.run(work())


def test_recorded_answers_are_replayed_without_the_server(server: ChatServer, tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    chat = OpenAIChat(server.url)
    recorded = ask(Recorder(chat, path), chat)
    cassette = Cassette(path)
    replayed = ask(cassette)
    assert (replayed.value, replayed.usage, replayed.raw) == (recorded.value, Usage(100, 10), recorded.raw)
    assert cassette.models == ["tiny"]
    assert len(server.requests) == 1
    assert path.stat().st_mode & 0o077 == 0  # answers are about somebody's chat


@pytest.mark.parametrize("behaviour", ["truncated", "not json", "against the schema"])
def test_an_unusable_answer_is_recorded_and_replayed_as_such(
    server: ChatServer, tmp_path: Path, behaviour: str
) -> None:
    path = tmp_path / "cassette.jsonl"
    server.behaviours = [behaviour]
    chat = OpenAIChat(server.url)
    with pytest.raises(BadAnswer) as live:
        ask(Recorder(chat, path), chat)
    with pytest.raises(BadAnswer) as replayed:
        ask(Cassette(path))
    assert (replayed.value.kind, replayed.value.raw) == (live.value.kind, live.value.raw)


def test_the_error_for_an_unrecorded_prompt_does_not_quote_it(server: ChatServer, tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    chat = OpenAIChat(server.url)
    ask(Recorder(chat, path), chat)
    with pytest.raises(LLMRefused, match=r"^cassette\.jsonl has no answer to this summary prompt$"):
        asyncio.run(Cassette(path).ask(replace(PROMPT, temperature=0.7), WrittenSummary))


def test_the_error_for_a_damaged_cassette_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    path.write_text('{"digest": "x"}\n')
    with pytest.raises(FormatError, match=r"cassette\.jsonl:1: not a recorded answer: expected a cassette$"):
        Cassette(path)
    with pytest.raises(FormatError, match="cannot be read"):
        Cassette(tmp_path / "missing.jsonl")


def test_resuming_never_repeats_an_answered_prompt_usable_or_not(server: ChatServer, tmp_path: Path) -> None:
    path = tmp_path / "cassette.jsonl"
    server.behaviours = ["truncated"]
    chat = OpenAIChat(server.url)
    with pytest.raises(BadAnswer):
        ask(Recorder(chat, path), chat)
    with pytest.raises(BadAnswer) as again:
        ask(Recorder(OpenAIChat(server.url), path, resume=True))
    assert (again.value.kind, len(server.requests)) == ("truncated", 1)


@pytest.mark.parametrize("torn", [b'{"digest": "a', b'{"digest": "a", "model": "b"}'])
def test_an_incomplete_last_line_is_removed_and_its_prompt_asked_again(
    server: ChatServer, tmp_path: Path, torn: bytes
) -> None:
    path = tmp_path / "cassette.jsonl"
    path.write_bytes(torn)
    chat = OpenAIChat(server.url)
    answer = ask(Recorder(chat, path, resume=True), chat)
    assert ask(Cassette(path)).value == answer.value
    assert len(path.read_bytes().splitlines()) == 1


def test_a_resumed_recording_replays_known_answers_and_asks_for_the_rest(
    server: ChatServer, tmp_path: Path
) -> None:
    path = tmp_path / "cassette.jsonl"
    chat = OpenAIChat(server.url)
    first = ask(Recorder(chat, path), chat)
    whole = path.read_bytes()
    for torn in (b"", b'{"digest":"7', whole[:-1]):  # whole, torn, and only the line break missing
        path.write_bytes(whole + torn if torn != whole[:-1] else torn)
        chat = OpenAIChat(server.url)
        assert ask(Recorder(chat, path, resume=True), chat).raw == first.raw
        assert path.read_bytes() == whole
    assert len(server.requests) == 1
    path.write_bytes(b'{"digest":"7')
    chat = OpenAIChat(server.url)
    ask(Recorder(chat, path, resume=True), chat)
    assert (len(server.requests), path.read_bytes()) == (2, whole)


@pytest.mark.parametrize("text", ['{"text": "hello"}\n{"text": "no line break"}', "no line break"])
def test_resuming_from_a_file_that_is_not_a_cassette_leaves_it_unchanged(
    server: ChatServer, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"chat\.jsonl:1: not a recorded answer"):
        Recorder(OpenAIChat(server.url), path, resume=True)
    assert path.read_text() == text
