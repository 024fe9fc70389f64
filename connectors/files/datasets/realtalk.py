"""Format `realtalk`: the 21-day chats of REALTALK (https://github.com/danny911kr/REALTALK).

The file is one chat, in the layout of `Chat_1_Emi_Elise.json`:

    {"name": {...}, "session_1": [{"clean_text": "Hey!", "speaker": "Emi", "dia_id": "D1:1",
     "date_time": "29.12.2023, 17:05:12", "blip_caption": "a cat"}, ...], "session_2": [...], ...}

The file `Chat_<N>_....json` becomes the channel `realtalk-<N>`; any other file's channel is its
lower-case stem. Times have no time zone and are taken as UTC. Captions of shared images are kept
(`format.text_with_caption`); white space around a text is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from backscroll.connectors.files.base.format import (
    FormatError,
    StrPath,
    entry_object,
    entry_received,
    file_name,
    load_json,
    text_field,
    text_with_caption,
)
from backscroll.connectors.files.datasets.locomo import session_names
from backscroll.operators.messages import MessageError, Received, format_time

__all__ = ["read"]

_EXPECTED = '{"session_1": [{"clean_text", "speaker", "date_time", "dia_id"}, ...], ...} (REALTALK)'
_CHAT = re.compile(r"chat_([0-9]+)(_.*)?", re.DOTALL)


def read(path: StrPath) -> Iterator[Received]:
    """Yield one `Received` per message, sessions in numeric order.

    `value` is a message in the schema, or a `MessageError` for a damaged message or session;
    `origin` names the file and the entry, such as `session_3 D3:4`.

    Raises:
        FormatError: the file cannot be read or is not a REALTALK chat.
    """
    document = load_json(path, expected=_EXPECTED)
    sessions = session_names(document) if isinstance(document, dict) else []
    if not any(isinstance(document[session], list) for session in sessions):
        raise FormatError(f"{file_name(path)}: no REALTALK sessions found: expected {_EXPECTED}")
    channel = _channel(path)
    for session in sessions:
        entries = document[session]
        if not isinstance(entries, list):
            damage = MessageError(f"{session} must be a list of messages, not {type(entries).__name__}")
            yield entry_received(path, session, entries, damage)
            continue
        for position, entry in enumerate(entries, start=1):
            dia_id = entry.get("dia_id") if isinstance(entry, dict) else None
            label = dia_id if isinstance(dia_id, str) else f"message {position}"
            value: dict[str, Any] | MessageError
            try:
                value = _message(entry, channel)
            except MessageError as err:
                value = err
            yield entry_received(path, f"{session} {label}", entry, value)


def _channel(path: StrPath) -> str:
    stem = PurePath(file_name(path)).stem.lower()
    chat = _CHAT.fullmatch(stem)
    return f"realtalk-{chat[1]}" if chat else stem


def _message(entry: object, channel: str) -> dict[str, Any]:
    message = entry_object(entry)
    time = text_field(message, "date_time")
    try:
        ts = datetime.strptime(time, "%d.%m.%Y, %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        msg = f"date_time is {time[:40]!r}: expected a time like '29.12.2023, 17:05:12'"
        raise MessageError(msg) from None
    return {
        "channel": channel,
        "id": text_field(message, "dia_id"),
        "ts": format_time(ts),
        "author": text_field(message, "speaker"),
        "text": text_with_caption(message, "clean_text").strip(),
    }
