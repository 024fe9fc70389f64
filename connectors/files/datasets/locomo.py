"""Format `locomo`: the long dialogues of LoCoMo (https://github.com/snap-research/locomo).

The file is a list of conversations, or a single one, in the layout of `locomo10.json`:

    {"sample_id": "conv-26", "conversation": {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Caroline", "dia_id": "D1:1", "text": "Hey Mel!"}, ...], ...}}

A conversation becomes the channel `locomo-<sample_id>`. LoCoMo dates only its sessions, so the first
turn gets the session's time and each later turn is a minute after the one before. Dates have no time zone
and are taken as UTC. Captions of shared images are kept (`format.text_with_caption`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
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
from backscroll.operators.messages import MessageError, Received, format_time

__all__ = ["read", "session_names"]

_EXPECTED = 'a list of {"sample_id", "conversation": {"session_1": [...], ...}} (LoCoMo)'
_SESSION = re.compile(r"session_([0-9]{1,9})")


def read(path: StrPath) -> Iterator[Received]:
    """Yield one `Received` per turn: conversations as in the file, sessions in numeric order.

    `value` is a message in the schema, or a `MessageError` for a damaged turn, session or
    conversation; `origin` names the file and the entry, such as `conv-26 session_3 D3:4`.

    Raises:
        FormatError: the file cannot be read or has no LoCoMo conversation.
    """
    document = load_json(path, expected=_EXPECTED)
    samples = document if isinstance(document, list) else [document]
    if not any(_conversation(sample) for sample in samples):
        raise FormatError(f"{file_name(path)}: no LoCoMo conversations found: expected {_EXPECTED}")
    for number, sample in enumerate(samples, start=1):
        conversation = _conversation(sample)
        if conversation is None:
            err = MessageError("not a conversation: expected session_1, session_2, ...")
            yield entry_received(path, f"conversation {number}", sample, err)
            continue
        name = sample.get("sample_id")
        if not isinstance(name, str) or not name.strip():
            stem = PurePath(file_name(path)).stem.lower()
            name = f"{stem}-{number}" if isinstance(document, list) else stem
        for session in session_names(conversation):
            yield from _read_session(path, name, session, conversation)


def session_names(conversation: Mapping[str, Any]) -> list[str]:
    """The keys `session_1`, `session_2`, ... in numeric order. REALTALK uses the same names."""
    numbered = [(int(match[1]), key) for key in conversation if (match := _SESSION.fullmatch(key))]
    return [key for _, key in sorted(numbered)]


def _conversation(sample: object) -> dict[str, Any] | None:
    """The sessions of a sample, which may also be given without the sample around them."""
    if not isinstance(sample, dict):
        return None
    sessions = sample.get("conversation", sample)
    if not isinstance(sessions, dict) or not session_names(sessions):
        return None
    return sessions


def _read_session(path: StrPath, name: str, session: str, conversation: dict[str, Any]) -> Iterator[Received]:
    turns = conversation[session]
    if not isinstance(turns, list):
        err = MessageError(f"{session} must be a list of turns, not {type(turns).__name__}")
        yield entry_received(path, f"{name} {session}", turns, err)
        return
    for position, turn in enumerate(turns):
        dia_id = turn.get("dia_id") if isinstance(turn, dict) else None
        label = dia_id if isinstance(dia_id, str) else f"turn {position + 1}"
        value: dict[str, Any] | MessageError
        try:
            value = _message(turn, f"locomo-{name}", _turn_time(conversation, session, position))
        except MessageError as err:
            value = err
        yield entry_received(path, f"{name} {session} {label}", turn, value)


def _turn_time(conversation: dict[str, Any], session: str, position: int) -> datetime:
    name = f"{session}_date_time"
    date = text_field(conversation, name)
    try:
        start = datetime.strptime(date, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        return start + timedelta(minutes=position)
    except (ValueError, OverflowError):
        msg = f"{name} is {date[:40]!r}: expected a time like '1:56 pm on 8 May, 2023'"
        raise MessageError(msg) from None


def _message(entry: object, channel: str, ts: datetime) -> dict[str, Any]:
    turn = entry_object(entry)
    return {
        "channel": channel,
        "id": text_field(turn, "dia_id"),
        "ts": format_time(ts),
        "author": text_field(turn, "speaker"),
        "text": text_with_caption(turn, "text"),
    }
