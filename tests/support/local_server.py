"""An aiohttp application on a port of its own, on a thread of its own, for tests of real clients."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from aiohttp import web

X = TypeVar("X")


class LocalServer:
    """Serves `app` on 127.0.0.1 while the context lasts."""

    def __init__(self) -> None:
        self.app = web.Application()
        self.url = ""
        self.loop = asyncio.new_event_loop()
        self._runner: web.AppRunner | None = None
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        assert self._runner is not None
        self.run(self._runner.cleanup())
        self.run(self._cancel())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, X]) -> X:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(10)

    async def _cancel(self) -> None:
        """End requests whose client has gone."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _start(self) -> None:
        self._runner = web.AppRunner(self.app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        _, port = self._runner.addresses[0][:2]
        self.url = f"http://127.0.0.1:{port}"


def until(condition: Callable[[], X], what: str, seconds: float = 15.0) -> X:
    """Poll until a condition holds; its value."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"in {seconds} s not: {what}"
        time.sleep(0.02)
    return found
