"""A real listener and its inbox, as the dataflow sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson

from backscroll.connectors.chat.inbox import Inbox
from backscroll.connectors.chat.listener import Listener, Platform
from support.local_server import until


@contextmanager
def listening(platform: Platform, path: Path) -> Iterator[Listener]:
    """A listener, once it has read what it missed or failed."""
    listener = Listener(path.stem, platform, path)
    listener.start()
    try:
        until(lambda: listener.is_current or listener.error, "everything missed is read")
        yield listener
    finally:
        listener.close()


def events(path: Path) -> list[dict[str, Any]]:
    """What the dataflow would read."""
    with closing(Inbox(path)) as inbox:
        return [orjson.loads(entry.body) for entry in inbox.read(0, 1000)]


def told(path: Path) -> list[tuple[str, str]]:
    """Operation and text of each event."""
    return [(event.get("op", "post"), event.get("text", event["id"])) for event in events(path)]


def held(path: Path) -> bytes:
    """Every byte on disk."""
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
