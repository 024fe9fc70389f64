"""Format `matrix`: events of rooms, from Element's "Export chat" (JSON), the API, or one a line.

    {"room_name": "Harbor", "messages": [
      {"type": "m.room.message", "event_id": "$1", "room_id": "!r:example.org",
       "sender": "@ana:example.org", "origin_server_ts": 1772442000000,
       "content": {"msgtype": "m.text", "body": "hi",
                   "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"},
                   "m.new_content": {"msgtype": "m.text", "body": "hello"}}}]}

`chunk` instead of `messages`, and a list without anything around it, are read as well. An edit counts
if its sender wrote the message; redactions were judged by the server. https://spec.matrix.org/latest
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import partial
from typing import Any
from urllib.parse import quote

from connectors.channel_names import ChannelNames
from connectors.fields import object_in, text_in, utc_time
from connectors.files import (
    CHANGED,
    DELETED,
    EMPTY,
    NOTICE,
    Format,
    FormatError,
    Head,
    Item,
    Skipped,
    StrPath,
    attempted,
    entry_received,
    file_name,
    stem,
)
from connectors.json_stream import Element, element_object, parse_element, stream_rows
from connectors.time_order import in_time_order
from operators.messages import MessageError, Received

__all__ = ["FORMAT"]

_PLACES = (("messages", "*"), ("chunk", "*"), ("*",))
_SIGNS = (rb'"origin_server_ts"\s*:', rb'"event_id"\s*:', rb'"sender"\s*:')
_MXID = re.compile(r"@[a-z0-9._=/+-]+:[A-Za-z0-9.-]+(?::\d+)?")
_UNREADABLE = Skipped("messages that were exported without the key to decrypt them")
_FILES = ("m.file", "m.image", "m.video", "m.audio")


@dataclass(slots=True)
class _Rooms:
    """What all events together say; known when the last one has been read."""

    name: str = ""
    titles: dict[str, str] = field(default_factory=dict)
    people: dict[tuple[str, str], str] = field(default_factory=dict)  # room and sender
    edits: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)  # event and sender
    redacted: set[str] = field(default_factory=set)
    names: ChannelNames = field(default_factory=ChannelNames)


def _read(path: StrPath, tz: tzinfo | None) -> Iterator[Item]:
    """Yield messages by time, in their last version; `origin` names the file and the event's id.

    Raises:
        FormatError: the file cannot be read or holds no event.
    """
    del tz
    rooms = _Rooms()
    for item in in_time_order(_items(path, rooms)):
        if isinstance(item, Received) and isinstance(item.value, dict):
            value = _final(item.value, rooms, path)
            yield value if isinstance(value, Skipped) else Received(value, item.origin, item.raw)
        else:
            yield item


def _recognises(head: Head) -> bool:
    return head.is_json_with(_SIGNS)


def _items(path: StrPath, rooms: _Rooms) -> Iterator[Item]:
    number = 0
    for element in stream_rows(path, _PLACES):
        if element.path in _PLACES:
            number += 1
            try:
                event = element_object(element)
            except MessageError as err:
                yield entry_received(path, f"event {number}", element.raw, err)
                continue
            place = text_in(event, "event_id") or f"event {number}"
            yield attempted(path, place, element.raw, partial(_message, event, rooms))
        elif element.path == ("room_name",):
            rooms.name = _string(element)
    if not number:
        msg = 'expected {"messages": [{"type", "event_id", "content"}, ...]}'
        raise FormatError(f"{file_name(path)}: no Matrix events in it: {msg}")


def _string(element: Element) -> str:
    try:
        value = parse_element(element)
    except MessageError:
        return ""
    return value if isinstance(value, str) else ""


def _message(event: dict[str, Any], rooms: _Rooms) -> dict[str, Any] | Skipped:
    """A message as it was sent, or what else an event is; what it changes is noted in `rooms`."""
    kind, content = text_in(event, "type"), object_in(event, "content")
    room, sender = text_in(event, "room_id"), text_in(event, "sender")
    if kind == "m.room.redaction":
        rooms.redacted.add(text_in(event, "redacts") or text_in(content, "redacts"))
        return CHANGED
    if kind == "m.room.encrypted":
        return DELETED if _is_redacted(event) else _UNREADABLE
    if kind not in ("m.room.message", "m.sticker"):
        _learn(kind, event, rooms)
        return NOTICE
    if _is_redacted(event) or not content:
        return DELETED
    relation = object_in(content, "m.relates_to")
    if relation.get("rel_type") == "m.replace":
        _note_edit(event, relation, rooms)
        return CHANGED
    value: dict[str, Any] = {
        "channel": room,
        "id": text_in(event, "event_id"),
        "ts": utc_time(event.get("origin_server_ts"), "origin_server_ts", per_second=1000),
        "author": {"id": sender, "name": sender, "bot": content.get("msgtype") == "m.notice"},
        "text": _text(content),
    }
    if relation.get("rel_type") == "m.thread":
        value["thread"] = text_in(relation, "event_id") or None
    falls_back = relation.get("is_falling_back") is True  # names the last message of the thread only
    answered = "" if falls_back else text_in(object_in(relation, "m.in_reply_to"), "event_id")
    return value | ({"reply_to": answered} if answered else {})


def _is_redacted(event: Mapping[str, Any]) -> bool:
    return "redacted_because" in object_in(event, "unsigned") or "redacted_because" in event


def _learn(kind: str, event: Mapping[str, Any], rooms: _Rooms) -> None:
    room, content = text_in(event, "room_id"), object_in(event, "content")
    if kind == "m.room.member" and text_in(content, "displayname"):
        person = text_in(event, "state_key") or text_in(event, "sender")
        rooms.people[room, person] = " ".join(text_in(content, "displayname").split())
    elif kind == "m.room.name":
        rooms.titles[room] = text_in(content, "name")
    elif kind == "m.room.canonical_alias":
        rooms.titles.setdefault(room, text_in(content, "alias"))


def _note_edit(event: Mapping[str, Any], relation: Mapping[str, Any], rooms: _Rooms) -> None:
    target = text_in(relation, "event_id"), text_in(event, "sender")
    text, sent = _text(object_in(object_in(event, "content"), "m.new_content")), event.get("origin_server_ts")
    when = sent if isinstance(sent, int) else 0
    if text and when >= rooms.edits.get(target, (0, ""))[0]:
        rooms.edits[target] = when, text


def _final(value: dict[str, Any], rooms: _Rooms, path: StrPath) -> dict[str, Any] | Skipped:
    """The message with what later events say about it."""
    room, sender, event = value["channel"], value["author"]["id"], value["id"]
    if event in rooms.redacted:
        return DELETED
    text = rooms.edits.get((event, sender), (0, value["text"]))[1]
    text = _MXID.sub(lambda match: _mention(match[0], room, rooms), text)
    if not text:
        return EMPTY
    name = rooms.people.get((room, sender)) or sender.removeprefix("@").partition(":")[0]
    value |= {"channel": rooms.names.name(room, rooms.name, rooms.titles.get(room, ""), room, stem(path))}
    value |= {"author": value["author"] | {"name": name}, "text": text}
    if room:
        value["permalink"] = f"https://matrix.to/#/{quote(room, safe='!:')}/{quote(event, safe='$:')}"
    return value


def _mention(mxid: str, room: str, rooms: _Rooms) -> str:
    name = rooms.people.get((room, mxid))
    return f"@{name}" if name else mxid


def _text(content: Mapping[str, Any]) -> str:
    body, file = text_in(content, "body"), text_in(content, "filename")
    if object_in(object_in(content, "m.relates_to"), "m.in_reply_to") and body.startswith("> "):
        body = re.sub(r"\A(?:>[^\n]*\n)+\n?", "", body)  # the quotation that older clients put before a reply
    body = body.strip()
    if content.get("msgtype") in _FILES:
        caption = body if file and file != body else ""
        return f"{caption} [file: {file or body}]".strip() if file or body else ""
    return f"*{body}*" if body and content.get("msgtype") == "m.emote" else body


FORMAT = Format(_read, _recognises, again=True)
