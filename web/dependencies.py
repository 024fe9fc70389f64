"""Channel URLs, and the dependencies that check access for every route."""

from __future__ import annotations

import re
from typing import Annotated, cast
from urllib.parse import quote

from fastapi import Depends, HTTPException, Request

from backscroll.connectors.lancedb.reader import ChannelEntry
from backscroll.operators.messages import ChannelKey, channels_called
from backscroll.web.access import User, user_of
from backscroll.web.catchup import CatchUp
from backscroll.web.events import StoreWatcher
from backscroll.web.library import Library
from backscroll.web.times import Times

__all__ = [
    "Channel",
    "CurrentUser",
    "catch_up_of",
    "channel_path",
    "entries_called",
    "library_of",
    "open_channel",
    "times_of",
    "watcher_of",
]

_DOTS = re.compile(r"\.+")

CurrentUser = Annotated[User, Depends(user_of)]


def channel_path(key: ChannelKey) -> str:
    """The `namespace/channel` part of a URL: names are escaped, then the whole is escaped once more."""
    # Browsers remove `.` and `..` from a URL, so names made only of dots are escaped too.
    names = [re.sub(r"\.", "%2E", name) if _DOTS.fullmatch(name) else name for name in str(key).split("/")]
    return "/".join(quote(name, safe="") for name in names)


def library_of(request: Request) -> Library:
    """The library of the application."""
    return cast(Library, request.app.state.library)


def catch_up_of(request: Request) -> CatchUp:
    """The application's catch-ups.

    Raises:
        HTTPException: 403 if the request comes from another site's page, because it may cost tokens.
    """
    if request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
        raise HTTPException(403, "a catch-up cannot be requested from another site")
    return cast(CatchUp, request.app.state.catch_up)


def times_of(request: Request) -> Times:
    """How the application writes times now."""
    return cast(CatchUp, request.app.state.catch_up).times


def watcher_of(request: Request) -> StoreWatcher:
    """The application's store watcher."""
    return cast(StoreWatcher, request.app.state.watch)


def open_channel(namespace: str, channel: str, user: CurrentUser, request: Request) -> ChannelEntry:
    """The channel named in the URL, with or without its `#`.

    Raises:
        HTTPException: 404, whether the channel does not exist or the user has no access to it.
    """
    key = ChannelKey.parse(f"{namespace}/{channel}")
    found = library_of(request).channel(key) if user.may_read(key.namespace) else None
    if found is None:
        raise HTTPException(404, "channel not found")
    return found


def entries_called(request: Request, user: User, name: str | None) -> list[ChannelEntry]:
    """The user's channel with this name, given with or without its namespace and `#`; all for no name.

    Raises:
        HTTPException: 404 if the user has no channel of that name, 400 if they have several.
    """
    entries = library_of(request).store.channels(user.namespaces)
    if not name:
        return entries
    called = channels_called((entry.key for entry in entries), name)
    found = [entry for entry in entries if entry.key in called]
    if not found:
        raise HTTPException(404, "channel not found")
    if len(found) > 1:
        names = ", ".join(str(entry.key) for entry in found)
        raise HTTPException(400, f"channel {name!r} is in several namespaces: use one of {names}")
    return found


Channel = Annotated[ChannelEntry, Depends(open_channel)]
