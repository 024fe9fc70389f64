"""Addresses of channels, and the door that every route of a channel goes through."""

from __future__ import annotations

import re
from typing import Annotated, cast
from urllib.parse import quote

from fastapi import Depends, HTTPException, Request

from backscroll.connectors.lancedb.reader import ChannelEntry
from backscroll.operators.messages import ChannelKey
from backscroll.web.access import User, user_of
from backscroll.web.catchup import CatchUp
from backscroll.web.events import StoreWatcher
from backscroll.web.library import Library

__all__ = [
    "Channel",
    "CurrentUser",
    "catch_up_of",
    "channel_path",
    "channels_called",
    "library_of",
    "open_channel",
    "watcher_of",
]

_DOTS = re.compile(r"\.+")


CurrentUser = Annotated[User, Depends(user_of)]


def channel_path(key: ChannelKey) -> str:
    """`namespace/channel` in an address: names are escaped, and the whole once more."""
    # A browser takes `.` and `..` out of an address, so names of dots alone are escaped as well.
    names = [re.sub(r"\.", "%2E", name) if _DOTS.fullmatch(name) else name for name in str(key).split("/")]
    return "/".join(quote(name, safe="") for name in names)


def library_of(request: Request) -> Library:
    """The library of the application."""
    return cast(Library, request.app.state.library)


def catch_up_of(request: Request) -> CatchUp:
    """What catches readers up.

    Raises:
        HTTPException: 403 where a page of another site makes the browser ask: it may cost tokens.
    """
    if request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
        raise HTTPException(403, "this address cannot be opened from another site")
    return cast(CatchUp, request.app.state.catch_up)


def watcher_of(request: Request) -> StoreWatcher:
    """The watch of the application."""
    return cast(StoreWatcher, request.app.state.watch)


def open_channel(namespace: str, channel: str, reader: CurrentUser, request: Request) -> ChannelEntry:
    """The channel that an address names.

    Raises:
        HTTPException: 404, the same whether it is not there or is not the reader's.
    """
    key = ChannelKey.parse(f"{namespace}/{channel}")
    found = library_of(request).channel(key) if reader.may_read(key.namespace) else None
    if found is None:
        raise HTTPException(404, "channel not found")
    return found


def channels_called(request: Request, reader: User, name: str | None) -> list[ChannelEntry]:
    """The reader's channel of a name, with its namespace or without; all of the reader's without a name.

    Raises:
        HTTPException: 404 where the reader has none of that name, 400 where there are several.
    """
    entries = library_of(request).store.channels(reader.namespaces)
    if not name:
        return entries
    exact = [entry for entry in entries if str(entry.key) == name]
    found = exact or [entry for entry in entries if entry.key.is_called(name)]
    if not found:
        raise HTTPException(404, "channel not found")
    if len(found) > 1:
        names = ", ".join(str(entry.key) for entry in found)
        raise HTTPException(400, f"channel {name!r} is in several namespaces: use one of {names}")
    return found


Channel = Annotated[ChannelEntry, Depends(open_channel)]
