from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backscroll.connectors.chat.errors import ChatError
from backscroll.connectors.chat.inbox import Inbox
from backscroll.connectors.chat.listener import Listener
from backscroll.connectors.chat.source import InboxSource
from backscroll.operators.runtime.feed import Feed
from support.local_server import until


class Telling:
    """A platform that sends three messages, then either fails or stays silent."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    async def listen(self, inbox: Inbox, listener: Listener) -> None:
        for number in range(3):
            author = {"id": "U1", "name": "Ana", "bot": False}
            message = {"channel": "general", "id": str(number), "author": author, "text": f"m{number}"}
            inbox.offer({**message, "ts": f"2026-03-02T09:0{number}:00Z"}, b"")
        if self.fails:
            raise ChatError("slack: a token was rejected")
        listener.is_current = True
        await asyncio.Event().wait()


class Told:
    """A feed that records what the source reports."""

    def __init__(self) -> None:
        self.throttled = self.stopping = False
        self.failure: Exception | None = None
        self.at_end: bool | None = None

    def feed(self) -> Feed:
        def fail(err: Exception) -> None:
            self.failure = err

        def at_end(_: str, reached: bool) -> None:
            self.at_end = reached

        return Feed(
            throttled=lambda: self.throttled,
            stopping=lambda: self.stopping,
            fail=fail,
            lost=lambda *_: None,
            at_end=at_end,
        )


def opened(path: Path, told: Told, resume: Any = None, **options: Any) -> tuple[Any, Listener]:
    listener = Listener("slack", Telling(**options), path)
    source = InboxSource(listener, feed=told.feed(), keep=timedelta(days=7))
    assert source.list_parts() == ["slack"]
    return source.build_part("messages", "slack", resume), listener


def texts(part: Any) -> Callable[[], list[str]]:
    return lambda: [received.value["text"] for received in part.next_batch()]


def test_a_partition_resumes_after_its_snapshot_and_knows_when_it_reached_the_end(tmp_path: Path) -> None:
    told = Told()
    part, listener = opened(tmp_path / "slack.inbox", told)
    until(lambda: listener.is_current, "all is told")
    told.throttled = True
    assert part.next_batch() == []
    told.throttled = False
    first = part.next_batch()
    assert [received.value["text"] for received in first] == ["m0", "m1", "m2"]
    assert first[1].origin == (("source", "slack"), ("channel", "general"), ("id", "1"))
    assert str(first[2].watermark) == "2026-03-02 09:02:00+00:00"
    assert told.at_end is False
    assert part.next_batch() == []
    assert told.at_end is True
    version, offset, greatest = part.snapshot()
    assert (version, offset) == (1, 3)
    told.stopping = True
    with pytest.raises(StopIteration):
        part.next_batch()
    part.close()

    again, listener = opened(tmp_path / "slack.inbox", Told(), (version, 2, greatest))
    assert until(texts(again), "what the snapshot was not past") == ["m2"]
    again.close()


def test_an_error_of_the_platform_ends_the_input(tmp_path: Path) -> None:
    told = Told()
    part, listener = opened(tmp_path / "slack.inbox", told, fails=True)
    until(lambda: listener.error, "it fails")
    with pytest.raises(StopIteration):
        part.next_batch()
    assert str(told.failure) == "slack: a token was rejected"
    part.close()
