"""The real Slack client against a small Slack on this machine."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from backscroll.connectors.chat.errors import ChatError
from backscroll.connectors.chat.listener import ChatRequest, Listener, OptOut
from backscroll.connectors.chat.slack.events import arrival
from backscroll.connectors.chat.slack.live import SlackLive
from support.inboxes import events, held, listening, told
from support.local_server import until
from support.slack_server import APP_TOKEN, BOT, BOT_TOKEN, SlackServer

GENERAL, ROPES = "C1", "C2"


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    with SlackServer() as server:
        server.channel(GENERAL, "general")
        yield server


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "slack.inbox"


def live(slack: SlackServer, **options: Any) -> SlackLive:
    given: dict[str, Any] = {"app_token": SecretStr(APP_TOKEN), "bot_token": SecretStr(BOT_TOKEN)}
    given |= {"backfill": timedelta(days=30), "opt_out": OptOut("#nolog"), "api_url": f"{slack.url}/api/"}
    return SlackLive(**{**given, "ping_seconds": 0.2, **options})


def settled(slack: SlackServer, listener: Listener, envelope: str) -> None:
    """Wait until an envelope is acknowledged and its event is passed on."""
    until(lambda: envelope in slack.acked and listener.is_current, f"{envelope} is handed on")


def test_posts_edits_and_deletions_are_passed_on_in_readable_form(slack: SlackServer, path: Path) -> None:
    with listening(live(slack), path) as listener:
        first = slack.post(GENERAL, "U1", "Ask <@U2> or <@U9> about <#C1>")
        slack.post(GENERAL, "U2", "Will do", thread_ts=first)
        slack.edit(GENERAL, first, "Ask <@U2> &amp; nobody else")
        slack.delete(GENERAL, first)
        settled(slack, listener, "envelope-4")
    post, reply, edit, delete = events(path)
    assert post == {
        "channel": "general",
        "id": first,
        "ts": post["ts"],
        "author": {"id": "U1", "name": "Ana", "bot": False},
        "text": "Ask @Ben Roth or @Zoe about #general",
        "permalink": f"https://acme.slack.com/archives/C1/p{first.replace('.', '')}",
    }
    assert (reply["thread"], reply["reply_to"], reply["author"]["name"]) == (first, first, "Ben Roth")
    assert (edit["op"], edit["id"], edit["text"]) == ("edit", first, "Ask @Ben Roth & nobody else")
    assert edit["ts"] > post["ts"]
    assert (delete["op"], delete["id"]) == ("delete", first)


def test_unfurls_joins_and_repeated_deliveries_change_nothing(slack: SlackServer, path: Path) -> None:
    with listening(live(slack), path) as listener:
        ts = slack.post(GENERAL, "U1", "see <https://example.com>")
        message = slack.messages[GENERAL][ts]
        unfurled = {**message, "attachments": [{"title": "Example", "text": "a page"}]}
        slack.changed(GENERAL, message, unfurled, slack.ts())
        slack.event(
            {
                "type": "message",
                "subtype": "channel_join",
                "user": "U2",
                "text": "joined",
                "ts": slack.ts(),
                "channel": GENERAL,
            }
        )
        slack.event({**message, "channel": GENERAL, "event_ts": ts})
        slack.post(GENERAL, BOT, "built", subtype="bot_message", bot_id="B1", username="ci")
        settled(slack, listener, "envelope-5")
    assert told(path) == [("post", "see https://example.com"), ("post", "built")]
    assert events(path)[1]["author"]["bot"] is True


def test_history_is_read_page_by_page_with_threads_despite_rate_limits(
    slack: SlackServer, path: Path
) -> None:
    posts = [slack.post(GENERAL, "U1", f"m{number}") for number in range(7)]
    slack.post(GENERAL, "U2", "reply", thread_ts=posts[2])
    slack.limited.update({"conversations.history": 1})
    with listening(live(slack), path):
        pass
    assert told(path) == [("post", f"m{number}") for number in range(7)] + [("post", "reply")]
    assert slack.calls["conversations.history"] == 4  # three pages, one of them asked for twice


def test_history_before_the_backfill_limit_is_not_read(slack: SlackServer, path: Path) -> None:
    slack.post(GENERAL, "U1", "an hour ago")
    with listening(live(slack, backfill=timedelta(minutes=5)), path) as listener:
        assert told(path) == []
        old = next(iter(slack.messages[GENERAL]))
        slack.edit(GENERAL, old, "an hour ago, edited")
        settled(slack, listener, "envelope-2")
    assert told(path) == [("edit", "an hour ago, edited")]  # for a history that knows it from elsewhere


def test_events_missed_while_offline_are_found_without_duplicates(slack: SlackServer, path: Path) -> None:
    with listening(live(slack), path) as listener:
        kept, edited, deleted = (slack.post(GENERAL, "U1", text) for text in ("kept", "edited", "deleted"))
        slack.post(GENERAL, "U2", "early reply", thread_ts=kept)
        settled(slack, listener, "envelope-4")
    slack.post(GENERAL, "U2", "late reply", thread_ts=kept)
    slack.edit(GENERAL, edited, "edited twice")
    slack.delete(GENERAL, deleted)
    slack.post(GENERAL, "U1", "new")
    before = len(told(path))
    for _ in range(2):
        with listening(live(slack), path):
            pass
    assert told(path)[before:] == [
        ("edit", "edited twice"), ("post", "late reply"), ("post", "new"), ("delete", deleted),
    ]  # fmt: skip


def test_a_new_connection_finds_events_sent_while_disconnected(slack: SlackServer, path: Path) -> None:
    with listening(live(slack), path) as listener:
        slack.deaf = True
        slack.post(GENERAL, "U1", "said into the void")
        slack.deaf = False
        slack.refresh()
        until(lambda: len(told(path)) == 1 and listener.is_current, "the gap is read")
        slack.post(GENERAL, "U1", "heard")
        until(lambda: len(told(path)) == 2, "the new connection is used")
    assert told(path) == [("post", "said into the void"), ("post", "heard")]


def test_an_acknowledged_envelope_is_on_disk_before_it_is_processed(slack: SlackServer, path: Path) -> None:
    with listening(live(slack), path) as listener:
        slack.limited.update({"users.info": 1_000})  # the worker waits for a name
        slack.post(GENERAL, "U9", "before the crash")
        until(lambda: slack.acked == ["envelope-1"], "the envelope is acknowledged")
        assert told(path) == []
        assert not listener.is_current
    slack.limited.clear()
    slack.messages[GENERAL].clear()  # so that no history can tell it
    with listening(live(slack), path):
        pass
    assert told(path)[0] == ("post", "before the crash")


def test_a_channel_the_app_is_invited_to_is_read_with_its_history(slack: SlackServer, path: Path) -> None:
    with listening(live(slack), path) as listener:
        slack.channel(ROPES, "ropes")
        slack.deaf = True
        slack.post(ROPES, "U1", "long before")
        slack.deaf = False
        slack.event({"type": "member_joined_channel", "user": BOT, "channel": ROPES})
        slack.post(ROPES, "U2", "welcome")
        settled(slack, listener, "envelope-3")
    assert [(event["channel"], event["text"]) for event in events(path)] == [
        ("ropes", "long before"),
        ("ropes", "welcome"),
    ]


def test_a_message_with_the_opt_out_word_is_never_stored_and_adding_the_word_deletes_it(
    slack: SlackServer, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for client in ("slack_sdk", "aiohttp"):
        caplog.set_level(logging.CRITICAL, client)
    slack.post(GENERAL, "U1", "sekret past #NoLog")
    with listening(live(slack), path) as listener:
        slack.post(GENERAL, "U1", "sekret one #nolog")
        second = slack.post(GENERAL, "U1", "harmless")
        slack.edit(GENERAL, second, "sekret two #nolog")
        slack.edit(GENERAL, second, "sekret three")
        settled(slack, listener, "envelope-5")
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        on_disk = held(path)
        assert b"harmless" in on_disk
        assert b"sekret" not in on_disk
    assert told(path) == [("post", "harmless"), ("delete", second)]
    with listening(live(slack), path):
        pass
    assert len(told(path)) == 2
    assert "sekret" not in caplog.text


def test_only_its_author_sees_the_answer_to_a_command(slack: SlackServer, path: Path) -> None:
    asked = list[ChatRequest]()

    async def answer(question: ChatRequest, limit: int) -> list[str]:
        asked.append(question)
        return [f"part {number} of at most {limit}" for number in range(7)]

    with listening(live(slack, answer=answer), path):
        envelope = slack.command(GENERAL, "U1", " 2d ")
        until(lambda: len(slack.answers) == 7, "all parts came")
        slack.command("C404", "U1", "2d")
        until(lambda: len(slack.answers) == 8, "the other answer came")
    assert envelope in slack.acked
    assert asked == [ChatRequest("general", "U1", "Ana", "2d")]
    assert {part["response_type"] for part in slack.answers} == {"ephemeral"}
    assert [part["text"] for part in slack.answers[:7]] == [f"part {n} of at most 4000" for n in range(7)]
    assert slack.calls["chat.postEphemeral"] == 2  # an address takes five
    assert slack.answers[7]["text"].startswith("I cannot read this channel yet")


def test_a_rejected_token_is_reported_in_one_line(slack: SlackServer, path: Path) -> None:
    with listening(live(slack, app_token=SecretStr("xapp-wrong")), path) as listener:
        error = until(lambda: listener.error, "it fails")
    assert isinstance(error, ChatError)
    assert str(error) == "slack: a token was rejected (invalid_auth): check the app token and the bot token"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "message", "text": "hi", "ts": "1.0", "channel": "C1"}, "post"),
        ({"type": "message", "text": "hi", "ts": "1.0", "channel": "D1", "channel_type": "im"}, None),
        ({"type": "reaction_added"}, None),
        ({"type": "message", "subtype": "message_deleted", "previous_message": {"ts": "1.0"}}, "delete"),
        (
            {"type": "message", "subtype": "message_changed", "message": {"ts": "1", "subtype": "tombstone"}},
            "delete",
        ),
        ({"type": "message", "subtype": "message_changed"}, "edit"),
        ({}, None),
    ],
)  # fmt: skip
def test_an_event_is_reduced_to_the_fields_that_matter(event: dict[str, Any], kind: str | None) -> None:
    found = arrival(event, OptOut("#nolog"))
    assert (found and found["kind"]) == kind
