"""Server-sent events: what is new in a store is told as it is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from fastapi.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from connectors.lancedb_reading import StoreReader
from operators.history import HistoryError
from operators.messages import ChannelKey

__all__ = ["ChannelMarks", "Watch", "event_stream", "sent_event"]

_SILENCE = 15.0  # seconds after which a comment keeps a connection open


class Watch:
    """Looks whether the store was written, once for all who listen.

    Args:
        store: the store.
        seconds: between looks.
    """

    def __init__(self, store: StoreReader, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self._changed = asyncio.Condition()
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

    async def changes(self) -> AsyncIterator[bool]:
        """Once at the start, then True after each change, and False after a silence; until the end."""
        self._listeners += 1
        try:
            seen = -1
            while not self.stopping():
                changed = seen != self._version
                seen = self._version
                yield changed
                await self._wait(seen)
        finally:
            self._listeners -= 1

    async def _wait(self, seen: int) -> None:
        waited = 0.0
        while waited < _SILENCE and self._version == seen and not self.stopping():
            try:
                async with asyncio.timeout(self._seconds), self._changed:
                    await self._changed.wait()
            except TimeoutError:
                waited += self._seconds

    async def _look(self) -> None:
        last = -1
        while True:
            if self._listeners:
                try:
                    version = await run_in_threadpool(lambda: self._store.version)
                except HistoryError:  # it may be there again at the next look
                    version = last
                if version != last:
                    last = version
                    async with self._changed:
                        self._version += 1
                        self._changed.notify_all()
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

    def sent(self, name: str, bodies: Sequence[str]) -> list[str]:
        """Events of what `news` told of; the last one names the position, so that none is lost halfway."""
        ends = [None] * (len(bodies) - 1) + [self.position]
        return [sent_event(name, body, at) for body, at in zip(bodies, ends, strict=False)]

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


def sent_event(name: str, data: str, identity: str | None = None) -> str:
    """An event as it is sent."""
    head = [f"event: {name}"] if identity is None else [f"id: {identity}", f"event: {name}"]
    return "\n".join([*head, *(f"data: {line}" for line in data.splitlines())]) + "\n\n"


def event_stream(watch: Watch, news: Callable[[], Sequence[str]]) -> StreamingResponse:
    """A response that sends what `news` returns at the start and after each change of the store."""

    async def stream() -> AsyncIterator[str]:
        async for changed in watch.changes():
            if not changed:
                yield ": nothing new\n\n"
                continue
            for event in await run_in_threadpool(news):
                yield event

    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)
