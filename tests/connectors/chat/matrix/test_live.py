"""The real Matrix client against a small homeserver on this machine."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from backscroll.connectors.chat.errors import ChatError
from backscroll.connectors.chat.inbox import Inbox
from backscroll.connectors.chat.listener import ChatRequest, OptOut
from backscroll.connectors.chat.matrix.live import MatrixLive
from support.inboxes import events, held, listening, told
from support.local_server import until
from support.matrix_server import BOT, TOKEN, MatrixServer

HARBOR = "!harbor:example.org"


@pytest.fixture
def matrix() -> Iterator[MatrixServer]:
    with MatrixServer() as server:
        server.room(HARBOR, "Harbor", ana="Ana", ben="Ben  Roth")
        yield server


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "matrix.inbox"


def live(matrix: MatrixServer, **options: Any) -> MatrixLive:
    given: dict[str, Any] = {"homeserver": matrix.url, "access_token": SecretStr(TOKEN)}
    given |= {"backfill": timedelta(days=30), "opt_out": OptOut("#nolog"), "wait_seconds": 2.0}
    return MatrixLive(**{**given, **options})


def read(matrix: MatrixServer, path: Path) -> None:
    """Wait until all events are processed."""

    def is_read() -> bool:
        with closing(Inbox(path)) as inbox:
            return inbox.fact("since") == f"s{len(matrix.events)}"

    until(is_read, "all is read")


def test_posts_edits_threads_and_redactions_are_passed_on_in_readable_form(
    matrix: MatrixServer, path: Path
) -> None:
    with listening(live(matrix), path):
        first = matrix.say(HARBOR, "ana", "Over to @ben:example.org")
        answer = {"m.relates_to": {"m.in_reply_to": {"event_id": first}}}
        matrix.say(HARBOR, "ben", "> <@ana:example.org> Over to\n\nWill do", **answer)
        thread = {"rel_type": "m.thread", "event_id": first, "is_falling_back": True}
        matrix.say(HARBOR, "ben", "in the thread", **{"m.relates_to": thread})
        matrix.edit(HARBOR, "ben", first, "forged")
        matrix.edit(HARBOR, "ana", first, "Over to Ben")
        matrix.add(HARBOR, "ana", "m.reaction", {"m.relates_to": {"key": "x"}})
        read(matrix, path)
        matrix.redact(HARBOR, "ana", first)
        read(matrix, path)
    post, reply, threaded, *changes = events(path)
    assert post == {
        "channel": "Harbor",
        "id": "$1",
        "ts": post["ts"],
        "author": {"id": "@ana:example.org", "name": "Ana", "bot": False},
        "text": "Over to @Ben Roth",
        "permalink": "https://matrix.to/#/!harbor:example.org/$1",
    }
    assert (reply["text"], reply["reply_to"]) == ("Will do", "$1")
    assert (threaded["thread"], threaded.get("reply_to")) == ("$1", None)
    assert [(change["op"], change["id"]) for change in changes] == [("edit", "$1"), ("delete", "$1")]
    assert changes[0]["text"] == "Over to Ben"


def test_history_is_read_up_to_the_backfill_limit_despite_rate_limits(
    matrix: MatrixServer, path: Path
) -> None:
    matrix.most = 2
    matrix.apart, matrix.began = 3600, matrix.began - 12 * 3600
    for number in range(11):
        matrix.say(HARBOR, "ana", f"m{number}")
    matrix.limited.update({"messages": 1, "sync": 1})
    with listening(live(matrix), path):
        read(matrix, path)
    assert told(path) == [("post", f"m{number}") for number in range(11)]
    assert matrix.calls["messages"] == 4  # three pages, one of them asked for twice
    second = path.with_name("second")
    with listening(live(matrix, backfill=timedelta(hours=5.5)), second):
        read(matrix, second)
    assert told(second) == [("post", f"m{number}") for number in range(6, 11)]


def test_a_gap_in_the_timeline_is_filled_after_a_restart_without_duplicates(
    matrix: MatrixServer, path: Path
) -> None:
    with listening(live(matrix), path):
        first = matrix.say(HARBOR, "ana", "before")
        read(matrix, path)
    matrix.most = 3
    for number in range(9):
        matrix.say(HARBOR, "ben", f"missed {number}")
    matrix.edit(HARBOR, "ana", first, "before, edited")
    for _ in range(2):
        with listening(live(matrix), path):
            read(matrix, path)
    assert told(path) == [
        ("post", "before"),
        *(("post", f"missed {number}") for number in range(9)),
        ("edit", "before, edited"),
    ]
    assert events(path)[1]["author"]["name"] == "Ben Roth"  # names are known after a restart, too


def test_a_room_joined_later_is_read_with_its_history(matrix: MatrixServer, path: Path) -> None:
    matrix.most = 1
    with listening(live(matrix), path):
        for text in ("one", "two", "three"):
            matrix.say("!new:example.org", "cem", text)  # in a room that the account is not in
        read(matrix, path)
        assert told(path) == []
        matrix.room("!new:example.org", "Harbor", cem="Cem")
        matrix.say("!new:example.org", "cem", "four")
        read(matrix, path)
    assert [text for _, text in told(path)] == ["one", "two", "three", "four"]
    # Another room has this name: a channel is a wall.
    assert {event["channel"] for event in events(path)} == {"Harbor (!new:example.org)"}


def test_a_message_with_the_opt_out_word_is_never_stored_and_adding_the_word_deletes_it(
    matrix: MatrixServer, path: Path
) -> None:
    matrix.say(HARBOR, "ana", "sekret past #NOLOG")
    with listening(live(matrix), path):
        matrix.say(HARBOR, "ana", "sekret one #nolog")
        second = matrix.say(HARBOR, "ana", "harmless")
        matrix.edit(HARBOR, "ana", second, "sekret two #nolog")
        matrix.edit(HARBOR, "ana", second, "sekret three")
        read(matrix, path)
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        on_disk = held(path)
    assert b"harmless" in on_disk
    assert b"sekret" not in on_disk
    assert told(path) == [("post", "harmless"), ("delete", second)]


def test_a_command_is_answered_in_a_thread_and_neither_message_is_stored(
    matrix: MatrixServer, path: Path
) -> None:
    asked = list[ChatRequest]()

    async def answer(question: ChatRequest, limit: int) -> list[str]:
        asked.append(question)
        return [f"part {number} of at most {limit}" for number in range(2)]

    matrix.limited.update({"send": 1})
    with listening(live(matrix, answer=answer), path):
        matrix.say(HARBOR, "ana", "hello")
        command = matrix.say(HARBOR, "ana", "!catchup 2d")
        until(lambda: len(matrix.events) == 4, "both parts came")
        read(matrix, path)
    assert asked == [ChatRequest("Harbor", "@ana:example.org", "Ana", "2d")]
    parts = [event for _, event in matrix.events if event["sender"] == BOT]
    assert [part["content"]["body"] for part in parts] == ["part 0 of at most 2000", "part 1 of at most 2000"]
    assert {part["content"]["msgtype"] for part in parts} == {"m.notice"}
    assert {part["content"]["m.relates_to"]["event_id"] for part in parts} == {command}
    assert told(path) == [("post", "hello")]


def test_an_encrypted_room_is_logged_as_not_read(
    matrix: MatrixServer, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with listening(live(matrix), path):
        for _ in range(2):
            matrix.add(HARBOR, "ana", "m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2"})
        read(matrix, path)
    assert told(path) == []
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "matrix: Harbor is encrypted and will not be read"
    ]


def test_listening_continues_after_an_outage(
    matrix: MatrixServer, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    matrix.broken.update({"sync": 1})
    matrix.say(HARBOR, "ana", "hello")
    with listening(live(matrix), path):
        read(matrix, path)
    assert told(path) == [("post", "hello")]
    assert [record.message.split(":")[0] for record in caplog.records if record.levelname == "WARNING"] == [
        "matrix"
    ]


def test_a_rejected_token_is_reported_in_one_line(matrix: MatrixServer, path: Path) -> None:
    with listening(live(matrix, access_token=SecretStr("wrong")), path) as listener:
        error = until(lambda: listener.error, "it fails")
    assert isinstance(error, ChatError)
    expected = "matrix: the homeserver rejected the access token (M_UNKNOWN_TOKEN): create a new one"
    assert str(error) == expected
