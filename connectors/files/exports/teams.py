"""Format `teams`: messages from Microsoft Graph, as a JSON document or one message per line.

    {"value": [{"id": "1772442000000", "replyToId": null, "messageType": "message",
      "createdDateTime": "2026-03-02T09:00:00Z", "deletedDateTime": null, "webUrl": "https://teams...",
      "channelIdentity": {"teamId": "...", "channelId": "19:..."}, "chatId": null,
      "from": {"user": {"id": "...", "displayName": "Ana Li"}, "application": null},
      "body": {"contentType": "html", "content": "<p>Hi</p>"}, "attachments": [], "mentions": []}]}

Graph returns the newest messages first; the reader sorts them by time. Messages hold channel ids only, so
a file with one channel or chat is named after the file; with several, channels are named by their ids.
https://learn.microsoft.com/graph/api/resources/chatmessage
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from functools import partial
from typing import Any

import orjson

from backscroll.connectors.files.base.fields import identifier, iso_time, object_in, objects_in, text_in
from backscroll.connectors.files.base.format import (
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
from backscroll.connectors.files.base.html_text import plain_text
from backscroll.connectors.files.base.json_stream import element_object, stream_rows
from backscroll.connectors.files.base.time_order import in_time_order
from backscroll.operators.messages import MessageError, Received

__all__ = ["FORMAT"]

_PLACES = (("value", "*"), ("messages", "*"), ("*",))
_SIGNS = (rb'"createdDateTime"\s*:', rb'"messageType"\s*:|"replyToId"\s*:', rb'"body"\s*:\s*\{')


def _read(path: StrPath, tz: tzinfo | None) -> Iterator[ReadItem]:
    """Yield messages and replies by time; `origin` names the file and the message's id.

    Raises:
        FormatError: the file cannot be read or has no messages.
    """
    del tz
    channels = set[str]()
    for item in in_time_order(_items(path, channels)):
        if isinstance(item, Received) and isinstance(item.value, dict):
            several = len(channels) > 1 and item.value["channel"]
            item.value["channel"] = several or stem(path)
        yield item


def _recognises(head: Head) -> bool:
    return head.is_json_with(_SIGNS)


def _items(path: StrPath, channels: set[str]) -> Iterator[ReadItem]:
    number = 0
    for element in stream_rows(path, _PLACES):
        if element.path not in _PLACES:
            continue
        number += 1
        try:
            message = element_object(element)
        except MessageError as err:
            yield entry_received(path, f"message {number}", element.raw, err)
            continue
        for one in (message, *objects_in(message, "replies")):
            place = identifier(one, "id") or f"message {number}"
            raw = element.raw if one is message else orjson.dumps(one)
            yield attempted(path, place, raw, partial(_message, one, channels))
    if not number:
        msg = 'expected {"value": [{"id", "createdDateTime", "body"}, ...]}'
        raise FormatError(f"{file_name(path)}: no Teams messages found: {msg}")


def _message(message: dict[str, Any], channels: set[str]) -> dict[str, Any] | Skipped:
    if text_in(message, "messageType") not in ("", "message"):
        return NOTICE
    if message.get("deletedDateTime") is not None:
        return DELETED
    identity = object_in(message, "channelIdentity")
    channel = text_in(identity, "channelId") or text_in(message, "chatId")
    text = _text(message)
    if not text:
        return EMPTY
    value: dict[str, Any] = {
        "channel": channel,
        "id": identifier(message, "id"),
        "ts": iso_time(message.get("createdDateTime"), "createdDateTime"),
        "author": _author(object_in(message, "from")),
        "text": text,
    }
    quoted = (
        file for file in objects_in(message, "attachments") if file.get("contentType") == "messageReference"
    )
    if channel:
        channels.add(channel)
    root = identifier(message, "replyToId")
    if root:
        value["thread"] = root
    if answered := root or next((identifier(file, "id") for file in quoted), ""):
        value["reply_to"] = answered
    if link := text_in(message, "webUrl"):
        value["permalink"] = link
    return value


def _text(message: dict[str, Any]) -> str:
    body = object_in(message, "body")
    content = text_in(body, "content")
    text = content.strip() if body.get("contentType") == "text" else plain_text(content)
    if subject := text_in(message, "subject"):
        text = f"{subject}\n{text}".strip()
    files = [text_in(file, "name") for file in objects_in(message, "attachments")]
    return " ".join([text, *(f"[file: {name}]" for name in files if name)]).strip()


def _author(sender: dict[str, Any]) -> dict[str, Any]:
    for kind in ("user", "application", "device"):
        if one := object_in(sender, kind):
            identity = identifier(one, "id")
            name = text_in(one, "displayName") or identity or "unknown"
            return {"id": identity or name, "name": name, "bot": kind != "user"}
    return {"id": "unknown", "name": "unknown", "bot": False}


FORMAT = Format(_read, _recognises, again=True)
