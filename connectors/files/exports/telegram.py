"""Format `telegram`: Telegram Desktop's `result.json`, of one chat or of all chats.

    {"name": "Harbor", "type": "private_supergroup", "id": 1234, "messages": [
      {"id": 1, "type": "message", "date": "2026-03-02T10:00:00", "date_unixtime": "1772442000",
       "from": "Ana", "from_id": "user7", "reply_to_message_id": 3,
       "text": ["see ", {"type": "link", "text": "https://example.com"}]}]}

An export of all chats is `{"chats": {"list": [...]}}`, with `left_chats` for groups that you left.
Exports from before 2022 have no `date_unixtime`; their `date` is local time of the exporting computer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import tzinfo
from functools import partial
from typing import Any

from backscroll.connectors.files.base.channel_names import ChannelNames
from backscroll.connectors.files.base.fields import identifier, iso_time, list_in, text_in, utc_time
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
)
from backscroll.connectors.files.base.json_stream import Element, element_object, parse_element, stream_file
from backscroll.operators.messages import MessageError

__all__ = ["FORMAT"]

_ONE = ("messages", "*")
_ALL = tuple((name, "list", "*", "messages", "*") for name in ("chats", "left_chats"))
_SIGNS = (
    rb'"type"\s*:\s*"(message|service|[a-z_]*(chat|group|supergroup|channel|messages))"',
    rb'"messages"\s*:\s*\[|"chats"\s*:\s*\{',
)
_ALL_SIGNS = (
    rb'"about"\s*:',
    rb'"personal_information"\s*:',
)  # in an export of all chats, contacts may fill the head
_LINKED = ("private_supergroup", "public_supergroup", "private_channel", "public_channel")


def _read(path: StrPath, tz: tzinfo | None) -> Iterator[ReadItem]:
    """Yield one item per message, chat by chat; `origin` names the chat and the message's number.

    Raises:
        FormatError: the file cannot be read or has no chats.
    """
    chat: dict[str, Any] = {}
    names = ChannelNames()
    number, chats = 0, 0
    for element in stream_file(path, [_ONE, *_ALL]):
        if element.path == _ONE or element.path in _ALL:
            number += 1
            place = f"{chat.get('name') or identifier(chat, 'id')} message {number}"
            yield attempted(path, place, element.raw, partial(_message, element, chat, tz, names))
        elif len(element.path) in (1, 4) and element.path[-1] in ("name", "type", "id"):
            if number or element.path[-1] in chat:  # the next chat in the list
                chat, number = {}, 0
            chats += 1
            try:
                chat[element.path[-1]] = parse_element(element)
            except MessageError:
                continue  # the messages are still readable without this field
    if not chats and not number:
        raise FormatError(
            f'{file_name(path)}: not a Telegram export: expected {{"name", "type", "id", "messages": [...]}}'
        )


def _recognises(head: Head) -> bool:
    return head.is_json_with(_SIGNS) or head.is_json_with(_ALL_SIGNS)


def _has_local_times(head: Head) -> bool:
    return b'"date"' in head.start and b'"date_unixtime"' not in head.start


def _message(
    element: Element, chat: Mapping[str, Any], tz: tzinfo | None, names: ChannelNames
) -> dict[str, Any] | Skipped:
    message = element_object(element)
    if message.get("type") != "message":
        return NOTICE
    text = _text(message)
    if not text:
        return EMPTY
    kind, chat_id, message_id = text_in(chat, "type"), identifier(chat, "id"), identifier(message, "id")
    author = text_in(message, "from", "author")
    author_id = identifier(message, "from_id") or author
    unix = message.get("date_unixtime")
    unnamed = "Saved Messages" if kind == "saved_messages" else f"chat {chat_id}"
    value: dict[str, Any] = {
        "channel": names.name(chat_id, text_in(chat, "name"), unnamed),
        "id": message_id,
        "ts": iso_time(message.get("date"), "date", tz) if unix is None else utc_time(unix, "date_unixtime"),
        "author": {
            "id": author_id or "deleted",
            "name": author or "Deleted Account",
            "bot": kind == "bot_chat" and author_id.removeprefix("user") == chat_id,
        },
        "text": text,
    }
    if answered := identifier(message, "reply_to_message_id"):
        value["reply_to"] = answered
    if kind in _LINKED and chat_id:
        value["permalink"] = f"https://t.me/c/{chat_id.removeprefix('-100')}/{message_id}"
    return value


def _text(message: Mapping[str, Any]) -> str:
    """The text (a string, or a list of strings and marked-up pieces), with polls, files and forwards."""
    pieces = list_in(message, "text") or [message.get("text")]
    text = "".join(_piece(piece) for piece in pieces).strip()
    question = message.get("poll")
    if isinstance(question, dict) and text_in(question, "question"):
        text = f"{text} [poll: {text_in(question, 'question')}]".strip()
    if (file := text_in(message, "file_name")) and not text_in(message, "sticker_emoji"):
        text = f"{text} [file: {file}]".strip()
    source = text_in(message, "forwarded_from")
    return f"[forwarded from {source}] {text}" if source and text else text


def _piece(piece: object) -> str:
    if isinstance(piece, str):
        return piece
    if not isinstance(piece, dict):
        return ""
    text, link = piece.get("text"), text_in(piece, "href")
    text = text if isinstance(text, str) else ""
    return f"{text} ({link})" if link and link != text else text


FORMAT = Format(_read, _recognises, _has_local_times)
