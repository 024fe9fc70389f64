"""Catch-ups in a chat: a real store, a real inbox, no platform."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from backscroll.connectors.chat.inbox import Inbox
from backscroll.connectors.chat.listener import ChatRequest
from backscroll.flows.cli.main import main
from backscroll.flows.commands.chat_catchup import ChatCatchup, SlackForm
from backscroll.flows.settings.settings import Settings

NOW = datetime.now(UTC)
STORED = ["The berth plan is open.", "We decided to use crane two.", "Ben, can you call the pilots?"]
LATER = ["We agreed to ship on Monday <early>.", "Cem, who signs?", "I will tell the crew."]


def message(number: int, person: str, text: str, channel: str = "general") -> dict[str, object]:
    return {
        "channel": channel,
        "id": f"m{number}",
        "ts": (NOW - timedelta(hours=3) + timedelta(minutes=number)).isoformat(),
        "author": {"id": f"U-{person}", "name": person, "bot": False},
        "text": text,
        "permalink": f"https://acme.slack.com/archives/C1/{number}",
    }


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Three messages in the store, the same and three more in the inbox, and a second channel."""
    folder = tmp_path_factory.mktemp("catchup")
    stored = [message(number, "Ana", text) for number, text in enumerate(STORED)]
    later = [message(number, "Ana", text) for number, text in enumerate(LATER, start=3)]
    other = message(9, "Dan", "We decided that the secret berth is nine.", "private")
    flush = {"op": "flush", "channel": "general", "ts": stored[-1]["ts"]}
    chat = folder / "chat.jsonl"
    chat.write_text("".join(json.dumps(one) + "\n" for one in [*stored, flush]))
    done = CliRunner().invoke(
        main,
        ["ingest", str(chat), "--store", str(folder / "store"), "--embedding-model", "none",
         "--dead-letters", str(folder / "letters")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    with closing(Inbox(folder / "slack.inbox")) as inbox:
        for one in [*stored, *later, other]:
            inbox.offer(one, b"")
    return Settings(store=str(folder / "store"), embedding_model="none")


def ask(
    settings: Settings, since: str, *, name: str = "Ben", limit: int = 4000, channel: str = "general"
) -> list[str]:
    inbox = Path(settings.store or "").parent / "slack.inbox"
    catchup = ChatCatchup(settings, None, inbox, SlackForm)
    return asyncio.run(catchup.answer(ChatRequest(channel, f"U-{name}", name, since), limit))


def test_the_store_and_newer_messages_give_one_answer_with_links(settings: Settings) -> None:
    (answer,) = ask(settings, "1d")
    assert "We decided to use crane two." in answer
    assert "We agreed to ship on Monday &lt;early&gt;." in answer
    assert "<https://acme.slack.com/archives/C1/3|" in answer
    assert "secret" not in answer


def test_items_for_the_person_who_asks_come_first(settings: Settings) -> None:
    (for_ben,) = ask(settings, "1d")
    (for_cem,) = ask(settings, "1d", name="Cem")
    assert for_ben.index("can you call the pilots?") < for_ben.index("crane two")  # and has never written
    assert for_cem.index("who signs?") < for_cem.index("crane two")


def test_without_a_span_it_starts_after_the_persons_last_message(settings: Settings) -> None:
    (answer,) = ask(settings, "", name="Ana")
    assert answer.startswith("Nothing new from ")
    (answer,) = ask(settings, "m2")
    assert "crane two" not in answer
    assert "ship on Monday" in answer


def test_a_long_answer_is_cut_between_its_lines(settings: Settings) -> None:
    (whole,) = ask(settings, "1d")
    parts = ask(settings, "1d", limit=200)
    assert len(parts) > 2
    assert all(len(part) <= 200 for part in parts)
    assert "".join("\n".join(parts).split()) == "".join(whole.split())


def test_an_invalid_period_or_an_empty_channel_gets_a_clear_answer(settings: Settings) -> None:
    (wrong,) = ask(settings, "since forever")
    assert wrong.startswith("'since forever' is neither a time nor a message id")
    (unread,) = ask(settings, "1d", channel="unheard-of")
    assert unread == "I have not read any messages here yet: try again later."


def test_a_failure_is_reported_without_its_reason(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    (answer,) = ask(settings.model_copy(update={"window_tokens": 77}), "1d")
    assert answer == "That did not work. The operator of Backscroll can find the reason in its log."
    (record,) = caplog.records
    assert "a catch-up failed" in record.message
