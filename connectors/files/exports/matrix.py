"""Format `matrix`: room events, from Element's "Export chat" (JSON), the API, or one per line.

    {"room_name": "Harbor", "messages": [
      {"type": "m.room.message", "event_id": "$1", "room_id": "!r:example.org",
       "sender": "@ana:example.org", "origin_server_ts": 1772442000000,
       "content": {"msgtype": "m.text", "body": "hi",
                   "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"},
                   "m.new_content": {"msgtype": "m.text", "body": "hello"}}}]}

`chunk` may replace `messages`, and the list may stand alone. An edit applies only if its sender wrote the
message; redactions always apply, as the server has checked them. https://spec.matrix.org/latest
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import partial
from typing import Any

from backscroll.connectors.chat.matrix.messages import is_redacted, new_body, posted, replaced, with_names
from backscroll.connectors.files.base.channel_names import ChannelNames
from backscroll.connectors.files.base.fields import object_in, text_in
from backscroll.connectors.files.base.format import (
    CHANGED,
    DELETED,
    EMPTY,
    NOTICE,
    Format,
    FormatError,
    Head,
    ReadItem,
    Skipped,
    StrPath,
    attempted,
    entry_received,
    file_name,
    stem,
)
from backscroll.connectors.files.base.json_stream import Element, element_object, parse_element, stream_rows
from backscroll.connectors.files.base.time_order import in_time_order
from backscroll.operators.messages import MessageError, Received

__all__ = ["FORMAT"]

_PLACES = (("messages", "*"), ("chunk", "*"), ("*",))
_SIGNS = (rb'"origin_server_ts"\s*:', rb'"event_id"\s*:', rb'"sender"\s*:')
_UNREADABLE = Skipped("encrypted messages, exported without the key")


@dataclass(slots=True)
class _Rooms:
    """Names, edits and redactions from all events; complete once the last event has been read."""

    name: str = ""
    titles: dict[str, str] = field(default_factory=dict)
    people: dict[tuple[str, str], str] = field(default_factory=dict)  # room and sender
    edits: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)  # event and sender
    redacted: set[str] = field(default_factory=set)
    names: ChannelNames = field(default_factory=ChannelNames)


def _read(path: StrPath, tz: tzinfo | None) -> Iterator[ReadItem]:
    """Yield messages by time, as last edited; `origin` names the file and the event's id.

    Raises:
        FormatError: the file cannot be read or has no events.
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


def _items(path: StrPath, rooms: _Rooms) -> Iterator[ReadItem]:
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
        raise FormatError(f"{file_name(path)}: no Matrix events found: {msg}")


def _string(element: Element) -> str:
    try:
        value = parse_element(element)
    except MessageError:
        return ""
    return value if isinstance(value, str) else ""


def _message(event: dict[str, Any], rooms: _Rooms) -> dict[str, Any] | Skipped:
    """The message as first sent, or why the event is skipped; `rooms` notes names, edits and redactions."""
    kind, content = text_in(event, "type"), object_in(event, "content")
    if kind == "m.room.redaction":
        rooms.redacted.add(text_in(event, "redacts") or text_in(content, "redacts"))
        return CHANGED
    if kind == "m.room.encrypted":
        return DELETED if is_redacted(event) else _UNREADABLE
    if kind not in ("m.room.message", "m.sticker"):
        _learn(kind, event, rooms)
        return NOTICE
    if is_redacted(event) or not content:
        return DELETED
    if replaced(event) is not None:
        _note_edit(event, rooms)
        return CHANGED
    return posted(event)


def _learn(kind: str, event: Mapping[str, Any], rooms: _Rooms) -> None:
    room, content = text_in(event, "room_id"), object_in(event, "content")
    if kind == "m.room.member" and text_in(content, "displayname"):
        person = text_in(event, "state_key") or text_in(event, "sender")
        rooms.people[room, person] = " ".join(text_in(content, "displayname").split())
    elif kind == "m.room.name":
        rooms.titles[room] = text_in(content, "name")
    elif kind == "m.room.canonical_alias":
        rooms.titles.setdefault(room, text_in(content, "alias"))


def _note_edit(event: Mapping[str, Any], rooms: _Rooms) -> None:
    target = replaced(event) or "", text_in(event, "sender")
    text, sent = new_body(event), event.get("origin_server_ts")
    when = sent if isinstance(sent, int) else 0
    if text and when >= rooms.edits.get(target, (0, ""))[0]:
        rooms.edits[target] = when, text


def _final(value: dict[str, Any], rooms: _Rooms, path: StrPath) -> dict[str, Any] | Skipped:
    """The message with later edits, redactions and names applied."""
    room, sender, event = value["channel"], value["author"]["id"], value["id"]
    if event in rooms.redacted:
        return DELETED
    text = rooms.edits.get((event, sender), (0, value["text"]))[1]
    if not text:
        return EMPTY
    channel = rooms.names.name(room, rooms.name, rooms.titles.get(room, ""), room, stem(path))
    return with_names(value, text, channel=channel, name_of=lambda person: rooms.people.get((room, person)))


FORMAT = Format(_read, _recognises, again=True)
