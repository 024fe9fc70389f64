"""Listen to a chat platform on a separate thread, and fill its inbox."""

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
    """A person asks in a channel what they missed.

    `channel` is the channel's name, `person` their id, `name` their name, `since` the time span as they
    wrote it.
    """

    channel: str
    person: str
    name: str
    since: str


# Returns the parts of the answer; no part is longer than the given number of characters.
ChatResponder: TypeAlias = Callable[[ChatRequest, int], Awaitable[list[str]]]


class Platform(Protocol):
    """A chat platform to listen to."""

    async def listen(self, inbox: Inbox, listener: Listener) -> None:
        """Fill the inbox until cancelled; retries by itself during outages.

        Raises:
            ChatError: the platform cannot be read, and retrying would not help.
        """
        ...


class OptOut:
    """Tells which messages must not be stored: those that contain a configured word.

    >>> OptOut("#nolog").asked_in("off the record #NoLog, please"), OptOut("#nolog").asked_in("#nologs")
    (True, False)
    >>> OptOut("").asked_in("anything")
    False
    """

    def __init__(self, word: str) -> None:
        word = word.strip()
        self._pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE) if word else None

    def asked_in(self, text: str) -> bool:
        """Whether the text contains the word."""
        return self._pattern is not None and self._pattern.search(text) is not None


class Listener:
    """Runs a platform's `listen` on a thread until it fails or is closed.

    Args:
        name: the platform's name, also the name of its partition.
        platform: the platform to listen to.
        path: the inbox file.
    """

    def __init__(self, name: str, platform: Platform, path: Path) -> None:
        self.name = name
        self.path = path
        self.error: BaseException | None = None
        self.answering: float | None = None  # since when the platform answers; monotonic seconds
        self.is_current = False  # whether all missed messages have been read
        self.ends: Mapping[str, int] = {}
        self._platform = platform
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name=f"listen-{name}", daemon=True)

    def start(self) -> None:
        """Start listening."""
        self._thread.start()

    def close(self, seconds: float = 2.0) -> None:
        """Stop the thread; waits at most `seconds`."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # the loop is closing by itself
                self._loop.call_soon_threadsafe(self._cancel)
            self._thread.join(seconds)

    def connected(self, is_connected: bool) -> None:
        """Note whether the platform answers."""
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
            self.error = ChatError(f"cannot use inbox {self.path}: {err}")
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
