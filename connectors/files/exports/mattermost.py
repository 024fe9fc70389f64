"""Format `mattermost`: a bulk export, as the JSON Lines file or as the zip that holds it.

    {"type": "version", "version": 1}
    {"type": "user", "user": {"username": "ana", "nickname": "", "first_name": "Ana", "last_name": "Li"}}
    {"type": "post", "post": {"team": "acme", "channel": "town-square", "user": "ana", "message": "hi",
     "create_at": 1772442000000, "replies": [{"user": "ben", "message": "ho", "create_at": 1772442060000}]}}
    {"type": "direct_post", "direct_post": {"channel_members": ["ana", "ben"], "user": "ana", ...}}

An export is not sorted by time, and replies are nested in their post; the reader sorts them all by time.
Posts have no ids, so ids are made of time and author. If there are several teams, channels are named
`team/channel`.
https://docs.mattermost.com/administration-guide/onboard/bulk-loading-data.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import partial
from itertools import chain
from typing import Any

import orjson

from backscroll.connectors.chat.slack.text import block_text
from backscroll.connectors.files.base.archives import is_zip, open_archive, open_member
from backscroll.connectors.files.base.channel_names import ChannelNames
from backscroll.connectors.files.base.fields import (
    identifier,
    list_in,
    object_in,
    objects_in,
    text_in,
    utc_time,
)
from backscroll.connectors.files.base.format import (
    EMPTY,
    NOTICE,
    Format,
    FormatError,
    Head,
    ReadItem,
    Skipped,
    StrPath,
    attempted,
    entry_object,
    entry_received,
    file_name,
    open_file,
)
from backscroll.connectors.files.base.jsonl import read_lines
from backscroll.connectors.files.base.time_order import in_time_order
from backscroll.operators.messages import MessageError, Received

__all__ = ["FORMAT"]

_KINDS = (
    "version",
    "scheme",
    "role",
    "emoji",
    "team",
    "channel",
    "user",
    "bot",
    "post",
    "direct_channel",
    "direct_post",
)
_MENTION = re.compile(r"(?<![\w@./])@([a-z0-9][a-z0-9._-]*)")


@dataclass(slots=True)
class _Server:
    people: dict[str, str] = field(default_factory=dict)
    bots: set[str] = field(default_factory=set)
    teams: set[str] = field(default_factory=set)
    names: ChannelNames = field(default_factory=ChannelNames)


def _read(path: StrPath, tz: tzinfo | None) -> Iterator[ReadItem]:
    """Yield posts and replies by time; `origin` names the file, the line and the reply's number.

    Raises:
        FormatError: the file cannot be read or has no bulk export line.
    """
    del tz
    with open_file(path) as file:
        if not is_zip(file.read(4)):
            file.seek(0)
            yield from in_time_order(_items(path, read_lines(file, file_name(path))))
            return
    with open_archive(path, lambda name: name.endswith(".jsonl")) as archive:
        yield from in_time_order(
            chain.from_iterable(_member(path, archive, name) for name in sorted(archive.names))
        )


def _member(path: StrPath, archive: Any, name: str) -> Iterator[ReadItem]:
    try:
        with open_member(archive, name) as file:
            yield from _items(path, read_lines(file, f"{file_name(path)}/{name}"))
    except MessageError as err:
        yield entry_received(path, name, b"", err)


def _recognises(head: Head) -> bool:
    if head.members:
        return any(name.endswith(".jsonl") for name in head.members)
    for line in head.start.splitlines()[:20]:
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(entry, dict) and entry.get("type") in _KINDS and entry["type"] in entry:
            return True
    return False


def _items(path: StrPath, lines: Iterable[Received]) -> Iterator[ReadItem]:
    server, known = _Server(), 0
    for line in lines:
        place = f"line {line.origin[1][1]}"
        try:
            entry = _line(line)
        except MessageError as err:
            yield entry_received(path, place, line.raw, err)
            continue
        kind = text_in(entry, "type")
        known += kind in _KINDS
        body = object_in(entry, kind)
        if kind in ("post", "direct_post"):
            yield from _thread(path, place, line.raw, body, server)
        elif kind in ("user", "bot", "team"):
            _learn(kind, body, server)
        elif kind not in _KINDS:
            damage = MessageError(
                f"type {kind[:40]!r} is unknown: expected a bulk export line, such as a post"
            )
            yield entry_received(path, place, line.raw, damage)
    if not known:
        msg = 'expected lines like {"type": "post", "post": {...}}'
        raise FormatError(f"{file_name(path)}: not a Mattermost bulk export: {msg}")


def _line(line: Received) -> dict[str, Any]:
    if isinstance(line.value, MessageError):
        raise line.value
    try:
        return entry_object(orjson.loads(line.raw))
    except orjson.JSONDecodeError as err:
        raise MessageError(f"not JSON: {err}") from err


def _learn(kind: str, body: Mapping[str, Any], server: _Server) -> None:
    if kind == "team":
        server.teams.add(text_in(body, "name"))
        return
    username = text_in(body, "username")
    full = " ".join(part for part in (text_in(body, "first_name"), text_in(body, "last_name")) if part)
    server.people[username] = text_in(body, "nickname", "display_name") or full or username
    if kind == "bot":
        server.bots.add(username)


def _thread(
    path: StrPath, place: str, raw: bytes, post: dict[str, Any], server: _Server
) -> Iterator[ReadItem]:
    """A post and its replies."""
    root = attempted(path, place, raw, partial(_message, post, post, server))
    yield root
    answered = root.value["id"] if isinstance(root, Received) and isinstance(root.value, dict) else None
    for number, reply in enumerate(objects_in(post, "replies"), start=1):
        yield attempted(
            path, f"{place} reply {number}", raw, partial(_message, reply, post, server, answered)
        )


def _message(
    entry: Mapping[str, Any], post: Mapping[str, Any], server: _Server, answered: str | None = None
) -> dict[str, Any] | Skipped:
    """The message of a post, or of a reply to it; `answered` is the post's id if this is a reply."""
    if text_in(entry, "type").startswith("system_"):
        return NOTICE
    props = object_in(entry, "props")
    text = text_in(entry, "message").strip() or block_text(props)
    text = _MENTION.sub(lambda match: _mention(match[1], server), text)
    files = [text_in(file, "path").rpartition("/")[2] for file in objects_in(entry, "attachments")]
    text = " ".join([text, *(f"[file: {name}]" for name in files if name)]).strip()
    if not text:
        return EMPTY
    user = text_in(entry, "user")
    created = identifier(entry, "create_at")
    value: dict[str, Any] = {
        "channel": _channel(post, server),
        "id": identifier(entry, "id") or f"{created}-{user}",
        "ts": utc_time(entry.get("create_at"), "create_at", per_second=1000),
        "author": {
            "id": user,
            "name": text_in(props, "override_username") or server.people.get(user, user),
            "bot": user in server.bots
            or any(props.get(sign) == "true" for sign in ("from_bot", "from_webhook")),
        },
        "text": f"*{text.strip('*')}*" if entry.get("type") == "me" else text,
    }
    return value | ({"thread": answered, "reply_to": answered} if answered else {})


def _channel(post: Mapping[str, Any], server: _Server) -> str:
    if members := sorted(str(member) for member in list_in(post, "channel_members")):
        people = sorted(server.people.get(member, member) for member in members)
        return server.names.name("\0".join(members), ", ".join(people))
    channel, team = text_in(post, "channel"), text_in(post, "team")
    return f"{team}/{channel}" if len(server.teams) > 1 and channel else channel


def _mention(username: str, server: _Server) -> str:
    """Replace `@username` by the person's name; a trailing full stop may belong to the sentence."""
    bare = username.rstrip("._-")
    for known in (username, bare):
        if known in server.people:
            return f"@{server.people[known]}{username[len(known) :]}"
    return f"@{username}"


FORMAT = Format(_read, _recognises)
