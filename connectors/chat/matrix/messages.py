"""Convert Matrix messages to the message schema, from an export, `/sync` or `/messages`.

https://spec.matrix.org/latest/client-server-api/#instant-messaging
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from backscroll.connectors.files.base.fields import object_in, text_in, utc_time

__all__ = ["is_redacted", "message_body", "new_body", "posted", "replaced", "with_names"]

_MXID = re.compile(r"@[a-z0-9._=/+-]+:[A-Za-z0-9.-]+(?::\d+)?")
_FILES = ("m.file", "m.image", "m.video", "m.audio")


def posted(event: Mapping[str, Any]) -> dict[str, Any]:
    """A message event as `parse_message` takes it, still with ids instead of names.

    Raises:
        MessageError: its time is missing or invalid.
    """
    content, sender = object_in(event, "content"), text_in(event, "sender")
    relation = object_in(content, "m.relates_to")
    value: dict[str, Any] = {
        "channel": text_in(event, "room_id"),
        "id": text_in(event, "event_id"),
        "ts": utc_time(event.get("origin_server_ts"), "origin_server_ts", per_second=1000),
        "author": {"id": sender, "name": sender, "bot": content.get("msgtype") == "m.notice"},
        "text": message_body(content),
    }
    if relation.get("rel_type") == "m.thread":
        value["thread"] = text_in(relation, "event_id") or None
    falls_back = relation.get("is_falling_back") is True  # then it only points to the thread's last message
    answered = "" if falls_back else text_in(object_in(relation, "m.in_reply_to"), "event_id")
    return value | ({"reply_to": answered} if answered else {})


def with_names(
    value: Mapping[str, Any], text: str, *, channel: str, name_of: Callable[[str], str | None]
) -> dict[str, Any]:
    """Add names of people, the room's name and a permalink to a message.

    Args:
        value: the message, as returned by `posted`.
        text: its latest text.
        channel: the room's name.
        name_of: returns the name of a person in the room.
    """
    room, sender = value["channel"], value["author"]["id"]

    def mention(match: re.Match[str]) -> str:
        name = name_of(match[0])
        return f"@{name}" if name else match[0]

    named: dict[str, Any] = {**value, "channel": channel, "text": _MXID.sub(mention, text)}
    name = name_of(sender) or sender.removeprefix("@").partition(":")[0]
    named["author"] = value["author"] | {"name": name}
    if room:
        named["permalink"] = f"https://matrix.to/#/{quote(room, safe='!:')}/{quote(value['id'], safe='$:')}"
    return named


def replaced(event: Mapping[str, Any]) -> str | None:
    """The id of the message that an event edits; None if the event is not an edit."""
    relation = object_in(object_in(event, "content"), "m.relates_to")
    return text_in(relation, "event_id") if relation.get("rel_type") == "m.replace" else None


def new_body(event: Mapping[str, Any]) -> str:
    """The new text of an edit."""
    return message_body(object_in(object_in(event, "content"), "m.new_content"))


def is_redacted(event: Mapping[str, Any]) -> bool:
    """Whether the server has emptied the event."""
    return "redacted_because" in object_in(event, "unsigned") or "redacted_because" in event


def message_body(content: Mapping[str, Any]) -> str:
    """The text of a message, without the quotation that older clients put before a reply."""
    body, file = text_in(content, "body"), text_in(content, "filename")
    if object_in(object_in(content, "m.relates_to"), "m.in_reply_to") and body.startswith("> "):
        body = re.sub(r"\A(?:>[^\n]*\n)+\n?", "", body)
    body = body.strip()
    if content.get("msgtype") in _FILES:
        caption = body if file and file != body else ""
        return f"{caption} [file: {file or body}]".strip() if file or body else ""
    return f"*{body}*" if body and content.get("msgtype") == "m.emote" else body
