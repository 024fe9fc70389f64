"""Format `discord`: a channel exported to JSON by DiscordChatExporter.

    {"guild": {"id", "name"}, "channel": {"id", "type", "category", "name"}, "messages": [
      {"id", "type": "Default", "timestamp": "2026-03-02T09:00:00+00:00", "timestampEdited", "content",
       "author": {"id", "name", "nickname", "isBot"}, "attachments": [], "embeds": [], "mentions": [],
       "reference": {"messageId"}}, ...], "messageCount": 1}

Each thread has its own file, with the parent channel's name in `category`; its messages go to the
parent's channel. https://github.com/Tyrrrz/DiscordChatExporter
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import tzinfo
from functools import partial
from typing import Any

from backscroll.connectors.files.base.fields import identifier, iso_time, object_in, objects_in, text_in
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
    file_name,
    stem,
)
from backscroll.connectors.files.base.json_stream import Element, element_object, stream_file
from backscroll.operators.messages import MessageError

__all__ = ["FORMAT"]

_MESSAGES = ("messages", "*")
_POSTS = {"Default", "Reply", "ChatInputCommand", "ContextMenuCommand", "0", "19", "20", "23"}
_MARKUP = re.compile(r"<(?:(@!?|@&|#)(\d+)|a?(:\w+:)\d+)>")
_SIGNS = (
    rb'"guild"\s*:\s*\{',
    rb'"channel"\s*:\s*\{',
    rb'"dateRange"\s*:|"exportedAt"\s*:|"messages"\s*:\s*\[',
)


def _read(path: StrPath, tz: tzinfo | None) -> Iterator[ReadItem]:
    """Yield one item per message, in file order; `origin` names the file and the message's number.

    Raises:
        FormatError: the file cannot be read or has no list of messages.
    """
    del tz
    about: dict[str, dict[str, Any]] = {"guild": {}, "channel": {}}
    number = 0
    for element in stream_file(path, [_MESSAGES]):
        if element.path == _MESSAGES:
            number += 1
            yield attempted(path, f"message {number}", element.raw, partial(_message, element, about, path))
        elif element.path in (("guild",), ("channel",)) and not number:
            try:
                about[element.path[0]] = element_object(element)
            except MessageError:
                continue  # the messages are still readable without the channel's name
    if not number and not about["channel"]:
        msg = 'expected {"guild": {...}, "channel": {...}, "messages": [...]}'
        raise FormatError(f"{file_name(path)}: not a DiscordChatExporter file: {msg}")


def _recognises(head: Head) -> bool:
    return head.is_json_with(_SIGNS)


def _message(
    element: Element, about: Mapping[str, dict[str, Any]], path: StrPath
) -> dict[str, Any] | Skipped:
    message = element_object(element)
    if (identifier(message, "type") or "Default") not in _POSTS:
        return NOTICE
    channel, channel_id = about["channel"], identifier(about["channel"], "id")
    guild_id, message_id = identifier(about["guild"], "id"), identifier(message, "id")
    is_thread = text_in(channel, "type").endswith("Thread")
    text = _text(message)
    if not text:
        return EMPTY
    author = object_in(message, "author")
    name = text_in(author, "nickname", "name")
    value: dict[str, Any] = {
        "channel": (is_thread and text_in(channel, "category")) or text_in(channel, "name") or stem(path),
        "id": message_id,
        "ts": iso_time(message.get("timestamp"), "timestamp"),
        "author": {"id": identifier(author, "id") or name, "name": name, "bot": author.get("isBot") is True},
        "text": text,
    }
    if is_thread and channel_id:
        value["thread"] = channel_id
    if answered := identifier(object_in(message, "reference"), "messageId"):
        value["reply_to"] = answered
    if channel_id and guild_id:
        place = "@me" if guild_id == "0" else guild_id
        value["permalink"] = f"https://discord.com/channels/{place}/{channel_id}/{message_id}"
    return value


def _text(message: dict[str, Any]) -> str:
    """The text with ids replaced by names; ids occur in exports made with `--markdown false`."""
    names = {
        identifier(user, "id"): text_in(user, "nickname", "name") for user in objects_in(message, "mentions")
    }

    def resolved(match: re.Match[str]) -> str:
        sign, identity, emoji = match.groups()
        return (
            emoji or f"{sign[0]}{names.get(identity) or {'#': 'channel', '@&': 'role'}.get(sign, 'someone')}"
        )

    parts = [_MARKUP.sub(resolved, text_in(message, "content")).strip()]
    if not parts[0]:
        for embed in objects_in(message, "embeds"):
            parts += [text_in(embed, "title"), text_in(embed, "description")]
    text = "\n".join(part for part in parts if part)
    files = [text_in(file, "fileName") for file in objects_in(message, "attachments")]
    return " ".join([text, *(f"[file: {name}]" for name in files if name)]).strip()


FORMAT = Format(_read, _recognises)
