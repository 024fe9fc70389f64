"""Addresses of channels, and the door that every route of a channel goes through."""

from __future__ import annotations

import re
from typing import Annotated, cast
from urllib.parse import quote

from fastapi import Depends, HTTPException, Request

from connectors.lancedb_reading import ChannelEntry
from operators.messages import ChannelKey
from web.access import Reader, reader_of
from web.library import Library
from web.live import Watch

__all__ = ["Channel", "ReaderOf", "channel_path", "library_of", "open_channel", "watch_of"]

_DOTS = re.compile(r"\.+")

ReaderOf = Annotated[Reader, Depends(reader_of)]


def channel_path(key: ChannelKey) -> str:
    """`namespace/channel` in an address: names are escaped, and the whole once more."""
    # A browser takes `.` and `..` out of an address, so names of dots alone are escaped as well.
    names = [re.sub(r"\.", "%2E", name) if _DOTS.fullmatch(name) else name for name in str(key).split("/")]
    return "/".join(quote(name, safe="") for name in names)


def library_of(request: Request) -> Library:
    """The library of the application."""
    return cast(Library, request.app.state.library)


def watch_of(request: Request) -> Watch:
    """The watch of the application."""
    return cast(Watch, request.app.state.watch)


def open_channel(namespace: str, channel: str, reader: ReaderOf, request: Request) -> ChannelEntry:
    """The channel that an address names.

    Raises:
        HTTPException: 404, the same whether it is not there or is not the reader's.
    """
    key = ChannelKey.parse(f"{namespace}/{channel}")
    found = library_of(request).channel(key) if reader.may_read(key.namespace) else None
    if found is None:
        raise HTTPException(404, "there is no such channel")
    return found


Channel = Annotated[ChannelEntry, Depends(open_channel)]
