"""A chat platform, listened to on a thread of its own: what it says goes to the inbox."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from backscroll.connectors.chat.errors import ChatError
from backscroll.connectors.chat.inbox import Inbox

__all__ = ["ChatRequest", "ChatResponder", "Listener", "OptOut", "Platform"]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Somebody asks in a channel what they missed.

    `channel` is its name, `person` their id, `name` what they are called, `since` the span in their words.
    """

    channel: str
    person: str
    name: str
    since: str


# The parts of an answer, none longer than so many characters.
ChatResponder: TypeAlias = Callable[[ChatRequest, int], Awaitable[list[str]]]


class Platform(Protocol):
    """What is listened to."""

    async def listen(self, inbox: Inbox, listener: Listener) -> None:
        """Fill the inbox until cancelled; goes on by itself where an outage may pass.

        Raises:
            LiveError: it cannot go on.
        """
        ...


class OptOut:
    """Tells which messages must not be stored: those that hold a word of the user's choice.

    >>> OptOut("#nolog").asked_in("off the record #NoLog, please"), OptOut("#nolog").asked_in("#nologs")
    (True, False)
    >>> OptOut("").asked_in("anything")
    False
    """

    def __init__(self, word: str) -> None:
        word = word.strip()
        self._pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE) if word else None

    def asked_in(self, text: str) -> bool:
        """Whether the text holds the word."""
        return self._pattern is not None and self._pattern.search(text) is not None


class Listener:
    """Runs a platform's coroutine on a thread, until it fails or is closed.

    Args:
        name: of the platform, as its partition is called.
        platform: what to listen to.
        path: of the inbox.
    """

    def __init__(self, name: str, platform: Platform, path: Path) -> None:
        self.name = name
        self.path = path
        self.error: BaseException | None = None
        self.answering: float | None = None  # since when the platform does; monotonic seconds
        self.is_current = False  # whether everything that was missed has been read
        self.ends: Mapping[str, int] = {}
        self._platform = platform
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name=f"listen-{name}", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def close(self, seconds: float = 2.0) -> None:
        """End the thread; waits that long at most."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # it ends by itself at this moment
                self._loop.call_soon_threadsafe(self._cancel)
            self._thread.join(seconds)

    def connected(self, is_connected: bool) -> None:
        """The platform answers, or does not any more."""
        self.answering = (self.answering or time.monotonic()) if is_connected else None

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        try:
            asyncio.set_event_loop(self._loop)
            self._task = self._loop.create_task(self._listen())
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except sqlite3.Error as err:
            self.error = ChatError(f"inbox {self.path} cannot be used: {err}")
        except BaseException as err:
            self.error = err
        finally:
            self.connected(False)
            with suppress(RuntimeError):
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _listen(self) -> None:
        inbox = Inbox(self.path)
        try:
            self.ends = {self.name: inbox.end}
            await self._platform.listen(inbox, self)
            raise ChatError(f"{self.name}: the connection ended")
        finally:
            inbox.close()
