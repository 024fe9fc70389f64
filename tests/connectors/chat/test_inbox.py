from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from backscroll.connectors.chat.errors import ChatError
from backscroll.connectors.chat.inbox import Inbox
from support.inboxes import held

LATER = "2026-03-02T10:00:00Z"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recovery" / "slack.inbox"


@pytest.fixture
def inbox(path: Path) -> Iterator[Inbox]:
    with closing(Inbox(path)) as opened:
        yield opened


def message(id_: str, text: str) -> dict[str, Any]:
    author = {"id": "U1", "name": "Ana", "bot": False}
    return {"channel": "general", "id": id_, "ts": "2026-03-02T09:00:00Z", "author": author, "text": text}


def told(inbox: Inbox) -> list[tuple[int, str, str]]:
    events = [(entry.number, orjson.loads(entry.body)) for entry in inbox.read(0, 100)]
    return [(number, event.get("op", "post"), event.get("text", event["id"])) for number, event in events]


def test_a_message_is_passed_on_once_and_again_only_if_edited(inbox: Inbox) -> None:
    inbox.offer(message("1", "a"), b"a")
    inbox.offer(message("1", "a"), b"a", edited=LATER)  # such as a link unfurled
    inbox.offer(message("1", "a, odd"), b"odd")  # other, but nobody edited it
    inbox.offer(message("1", "b"), b"b", edited=LATER)
    assert told(inbox) == [(1, "post", "a"), (2, "edit", "b")]
    assert orjson.loads(inbox.read(1, 1)[0].body)["ts"] == LATER


def test_a_lone_surrogate_loses_only_that_character(inbox: Inbox) -> None:
    inbox.arrive({"text": "a \ud83d b"})
    inbox.offer(message("1", "a \ud83d b"), b"a")
    assert (inbox.next_arrival(), told(inbox)) == ((1, b'{"text": "a ? b"}'), [(1, "post", "a ? b")])


def test_a_message_that_must_not_be_stored_never_is(inbox: Inbox) -> None:
    inbox.erase("general", "1", LATER, was_stored=False)
    inbox.offer(message("1", "a"), b"a", edited=LATER)
    inbox.erase("general", "2", LATER)
    inbox.erase("general", "2", LATER)
    assert told(inbox) == [(1, "delete", "2")]


def test_a_transaction_is_written_completely_or_not_at_all(inbox: Inbox, path: Path) -> None:
    inbox.arrive({})

    def take() -> None:
        with inbox.transaction():
            inbox.offer(message("1", "a"), b"a")
            inbox.drop_arrival(1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take()
    with closing(Inbox(path)) as other:
        assert (told(other), other.next_arrival()) == ([], (1, b"{}"))


def test_offsets_are_not_reused_after_a_deletion(inbox: Inbox) -> None:
    inbox.offer(message("1", "a"), b"a")
    inbox.trim(1, timedelta())
    assert (inbox.end, told(inbox)) == (1, [])
    inbox.offer(message("2", "b"), b"b")
    assert told(inbox) == [(2, "post", "b")]


def test_deleted_text_is_removed_from_the_file_once_the_dataflow_is_past_it(inbox: Inbox, path: Path) -> None:
    inbox.offer(message("1", "sekret"), b"a")
    inbox.offer(message("2", "harmless"), b"b")
    inbox.erase("general", "1", LATER)

    inbox.trim(2, timedelta(days=7))  # it may still come back to the deletion
    assert b"sekret" in held(path)
    inbox.trim(3, timedelta(days=7))
    assert b"sekret" not in held(path)
    assert b"harmless" in held(path)
    assert told(inbox) == [(2, "post", "harmless"), (3, "delete", "1")]


def test_conversations_keep_their_first_name_and_never_share_one(inbox: Inbox) -> None:
    assert inbox.channel_name("C1", "general") == "general"
    assert inbox.channel_name("C2", "general") == "general (C2)"
    assert inbox.channel_name("C1", "renamed") == "general"
    assert inbox.channel_name("C3") == "C3"


def test_only_the_owner_can_read_the_file(inbox: Inbox, path: Path) -> None:
    assert inbox.end == 0
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_an_inbox_with_another_version_is_refused_with_one_line(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 9")
    with pytest.raises(ChatError, match="has version 9: this program reads 1"):
        Inbox(path)


def test_a_file_that_is_not_an_inbox_is_refused_with_one_line(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(ChatError, match=r"cannot open inbox .*: file is not a database"):
        Inbox(path)
