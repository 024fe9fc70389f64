"""What the user's browser remembers in cookies: what they have seen, and their name in the chat.

For each channel, the cookie holds the number of windows at the last visit. Channel names are hashed, so
the cookie does not reveal them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from urllib.parse import quote, unquote

from fastapi import Request, Response

from backscroll.operators.messages import ChannelKey

__all__ = ["keep_name", "kept_name", "mark_seen", "seen_windows"]

_COOKIE = "backscroll_seen"
_NAME = "backscroll_me"
_MOST = 200  # channels: the cookie stays below 4 KB
_ENTRY = re.compile(r"([0-9a-f]{8})-([0-9a-f]{1,8})")
_LONGEST = 100  # characters of a name
_YEAR = 365 * 24 * 3600


def seen_windows(request: Request, key: ChannelKey) -> int | None:
    """How many windows the channel had at the last visit; None if it was never visited."""
    return _read(request).get(_name(key))


def mark_seen(request: Request, response: Response, key: ChannelKey, windows: int) -> None:
    """Remember that the user has seen the first `windows` windows of a channel."""
    seen = dict(_read(request))
    before = seen.pop(_name(key), 0)
    seen[_name(key)] = max(before, windows)
    entries = [f"{name}-{count:x}" for name, count in list(seen.items())[-_MOST:]]
    response.set_cookie(_COOKIE, ".".join(entries), max_age=_YEAR, httponly=True, samesite="strict")


def kept_name(request: Request) -> str:
    """The name the user last entered for a catch-up; empty if there is none."""
    return unquote(request.cookies.get(_NAME, ""))[:_LONGEST]


def keep_name(response: Response, name: str) -> None:
    """Remember the user's name; an empty name deletes the cookie."""
    if name:
        value = quote(name[:_LONGEST], safe="")
        response.set_cookie(_NAME, value, max_age=_YEAR, httponly=True, samesite="strict")
    else:
        response.delete_cookie(_NAME)


def _read(request: Request) -> Mapping[str, int]:
    entries = (_ENTRY.fullmatch(part) for part in request.cookies.get(_COOKIE, "").split("."))
    return {match[1]: int(match[2], 16) for match in entries if match}


def _name(key: ChannelKey) -> str:
    return blake2b(str(key).encode(), digest_size=4).hexdigest()
