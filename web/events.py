"""Server-sent events: what is new in a store is told as it is written."""

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
    """Looks whether the store was written, once for all who listen.

    Args:
        store: the store.
        seconds: between looks.
    """

    def __init__(self, store: StoreReader, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self._looked = asyncio.Condition()
        self._version = 0
        self._listeners = 0
        self.stopping: Callable[[], bool] = lambda: False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look while the context lasts."""
        task = asyncio.create_task(self._look())
        try:
            yield
        finally:
            task.cancel()

    async def events(self, news: Callable[[], Sequence[ServerSentEvent]]) -> AsyncIterator[ServerSentEvent]:
        """What `news` returns at the start and after each change of the store, until the server stops."""
        self._listeners += 1
        try:
            seen = -1
            while not self.stopping():
                if seen != self._version:
                    seen = self._version
                    for event in await run_in_threadpool(news):
                        yield event
                else:
                    async with self._looked:
                        await self._looked.wait()
        finally:
            self._listeners -= 1

    async def _look(self) -> None:
        while True:
            if self._listeners:
                with suppress(HistoryError):  # it may be there again at the next look
                    self._version = await run_in_threadpool(lambda: self._store.version)
                async with self._looked:
                    self._looked.notify_all()
            await asyncio.sleep(self._seconds)


class ChannelMarks:
    """Which summaries of a channel are new or other ones since the last time.

    Args:
        store: the store.
        key: the channel.
        since: windows that begin after this turn are new, and so are higher revisions than `revision`.
        revision: the highest that was seen.
    """

    def __init__(self, store: StoreReader, key: ChannelKey, since: int, revision: int) -> None:
        self._store = store
        self._key = key
        self._since = since
        self._revision = revision
        self._known: dict[int, int] | None = None

    def news(self) -> list[int]:
        """The first turns of their windows, in order."""
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
        """Events of what `news` told of; the last one names the position, so that none is lost halfway."""
        ends = [None] * (len(bodies) - 1) + [self.position]
        return [
            ServerSentEvent(event=name, raw_data=body, id=at) for body, at in zip(bodies, ends, strict=False)
        ]

    @property
    def position(self) -> str:
        """Where a connection that broke goes on: the id of an event."""
        return f"{self._since}.{self._revision}"

    @staticmethod
    def resume(last_event_id: str | None, since: int, revision: int) -> tuple[int, int]:
        """The position that the client names, if it is further than the one in the address."""
        first, _, second = (last_event_id or "").partition(".")
        if not (first.isascii() and first.isdigit() and second.isascii() and second.isdigit()):
            return since, revision
        return max(since, int(first)), max(revision, int(second))
