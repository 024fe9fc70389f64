"""Server-sent events that report what is new in a store as it is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from fastapi.concurrency import run_in_threadpool
from fastapi.sse import ServerSentEvent

from backscroll.connectors.lancedb.reader import StoreReader
from backscroll.operators.history.store import HistoryError
from backscroll.operators.messages import ChannelKey

__all__ = ["ChannelMarks", "StoreWatcher"]


class StoreWatcher:
    """Polls the store for changes, once for all listeners.

    Args:
        store: the store to poll.
        seconds: the time between polls.
    """

    def __init__(self, store: StoreReader, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self._polled = asyncio.Condition()
        self._version = 0
        self._listeners = 0
        self.stopping: Callable[[], bool] = lambda: False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Poll until the context ends."""
        task = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            task.cancel()

    async def events(self, news: Callable[[], Sequence[ServerSentEvent]]) -> AsyncIterator[ServerSentEvent]:
        """Yield what `news` returns, at once and after each change of the store, until the server stops."""
        self._listeners += 1
        try:
            seen = -1
            while not self.stopping():
                if seen != self._version:
                    seen = self._version
                    for event in await run_in_threadpool(news):
                        yield event
                else:
                    async with self._polled:
                        await self._polled.wait()
        finally:
            self._listeners -= 1

    async def _poll(self) -> None:
        while True:
            if self._listeners:
                with suppress(HistoryError):  # the store may be back at the next poll
                    self._version = await run_in_threadpool(lambda: self._store.version)
                async with self._polled:
                    self._polled.notify_all()
            await asyncio.sleep(self._seconds)


class ChannelMarks:
    """Tracks which summaries of a channel are new or changed since the last check.

    Args:
        store: the store to read.
        key: the channel.
        since: windows that start after this turn are new.
        revision: the highest revision already seen; summaries with a higher one are new.
    """

    def __init__(self, store: StoreReader, key: ChannelKey, since: int, revision: int) -> None:
        self._store = store
        self._key = key
        self._since = since
        self._revision = revision
        self._known: dict[int, int] | None = None

    def news(self) -> list[int]:
        """The first turns of the windows with new or changed summaries, in order."""
        marks = self._store.marks(self._key)
        if self._known is None:
            news = [at for at, mark in marks.items() if at > self._since or mark > self._revision]
        else:
            news = [at for at, mark in marks.items() if self._known.get(at) != mark]
        self._known = marks
        self._since = max([self._since, *marks])
        self._revision = max([self._revision, *marks.values()])
        return sorted(news)

    def sent(self, name: str, bodies: Sequence[str]) -> list[ServerSentEvent]:
        """The events for what `news` returned. Only the last carries the position, so that none is lost."""
        ends = [None] * (len(bodies) - 1) + [self.position]
        return [
            ServerSentEvent(event=name, raw_data=body, id=at) for body, at in zip(bodies, ends, strict=False)
        ]

    @property
    def position(self) -> str:
        """Where a broken connection resumes, as an event id."""
        return f"{self._since}.{self._revision}"

    @staticmethod
    def resume(last_event_id: str | None, since: int, revision: int) -> tuple[int, int]:
        """The position the client sends, if it is further than the one in the URL."""
        first, _, second = (last_event_id or "").partition(".")
        if not (first.isascii() and first.isdigit() and second.isascii() and second.isdigit()):
            return since, revision
        return max(since, int(first)), max(revision, int(second))
