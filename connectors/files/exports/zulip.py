"""Format `zulip`: an organization export, as the tar.gz or the unpacked folder.

    realm.json             zerver_userprofile, zerver_stream, zerver_recipient, zerver_subscription, ...
    messages-000001.json   {"zerver_message": [{"id", "sender", "recipient", "subject", "content",
                            "date_sent": 1772442000.5}, ...]}

A Zulip channel is a channel and its topics are threads; a direct message is named after its people.
https://zulip.com/help/export-your-organization
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import partial
from typing import Any

from backscroll.connectors.files.base.archives import Archive, open_archive, open_member
from backscroll.connectors.files.base.channel_names import ChannelNames
from backscroll.connectors.files.base.fields import identifier, text_in, utc_time
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
)
from backscroll.connectors.files.base.json_stream import Element, element_object, stream_json
from backscroll.connectors.files.base.time_order import in_time_order
from backscroll.operators.messages import MessageError

__all__ = ["FORMAT"]

_MEMBER = re.compile(r"(?:.*/)?(realm|messages-\d+)\.json")
_MESSAGES = ("zerver_message", "*")
_PERSONAL, _STREAM, _GROUP = "1", "2", "3"
_TABLES = (
    "userprofile",
    "userprofile_mirrordummy",
    "userprofile_crossrealm",
    "stream",
    "recipient",
    "subscription",
)
_MENTION = re.compile(r"@_?\*\*([^*|\n]+)(?:\|\d+)?\*\*|@_?\*([^*\n]+)\*|#\*\*([^*\n]+)\*\*")
_UPLOAD = re.compile(r"!?\[([^\]\n]*)\]\((/user_uploads/[^)\s]*)\)")
_QUOTE = re.compile(r"^(`{3,})quote\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)


@dataclass(slots=True)
class _Realm:
    people: dict[str, str] = field(default_factory=dict)
    bots: set[str] = field(default_factory=set)
    system: set[str] = field(default_factory=set)  # Zulip's own bots, which only post notices
    streams: dict[str, str] = field(default_factory=dict)
    recipients: dict[str, tuple[str, str]] = field(default_factory=dict)  # type, and id of the stream or user
    members: dict[str, list[str]] = field(default_factory=dict)  # of recipients
    names: ChannelNames = field(default_factory=ChannelNames)


def _read(path: StrPath, tz: tzinfo | None) -> Iterator[ReadItem]:
    """Yield messages by time; `origin` names the file, the member and the message's number in it.

    Raises:
        FormatError: the export cannot be opened, or has no messages.
    """
    del tz
    with open_archive(path, lambda name: bool(_MEMBER.fullmatch(name))) as archive:
        parts = sorted(name for name in archive.names if not name.endswith("realm.json"))
        if not parts:
            raise FormatError(
                f"{file_name(path)}: not a Zulip export: expected realm.json and messages-000001.json"
            )
        realm = _Realm()
        for name in archive.names:
            if name not in parts:
                _read_realm(archive, name, realm)
        if archive.damage:
            yield entry_received(path, "archive", b"", MessageError(archive.damage))
        yield from in_time_order(item for name in parts for item in _part(path, archive, name, realm))


def _recognises(head: Head) -> bool:
    return any(_MEMBER.fullmatch(name) for name in head.members)


def _part(path: StrPath, archive: Archive, name: str, realm: _Realm) -> Iterator[ReadItem]:
    try:
        with open_member(archive, name) as file:
            number = 0
            for element in stream_json(file, [_MESSAGES]):
                if element.path == _MESSAGES:
                    number += 1
                    yield attempted(path, f"{name} {number}", element.raw, partial(_message, element, realm))
    except MessageError as err:
        yield entry_received(path, name, b"", err)


def _read_realm(archive: Archive, name: str, realm: _Realm) -> None:
    paths = [(f"zerver_{table}", "*") for table in _TABLES]
    subscriptions = list[tuple[str, str]]()
    try:
        with open_member(archive, name) as file:
            for element in stream_json(file, paths):
                if element.path in paths:
                    _learn(element, realm, subscriptions)
    except MessageError:
        pass  # names are lost, but no messages
    groups = {recipient for recipient, (kind, _) in realm.recipients.items() if kind == _GROUP}
    for recipient, user in subscriptions:
        if recipient in groups:
            realm.members.setdefault(recipient, []).append(user)


def _learn(element: Element, realm: _Realm, subscriptions: list[tuple[str, str]]) -> None:
    try:
        row = element_object(element)
    except MessageError:
        return
    table, identity = element.path[0].removeprefix("zerver_"), identifier(row, "id")
    if table == "stream":
        realm.streams[identity] = text_in(row, "name")
    elif table == "recipient":
        realm.recipients[identity] = identifier(row, "type"), identifier(row, "type_id")
    elif table == "subscription":
        subscriptions.append((identifier(row, "recipient"), identifier(row, "user_profile")))
    else:
        realm.people[identity] = text_in(row, "full_name") or text_in(row, "email").partition("@")[0]
        if table == "userprofile_crossrealm":
            realm.system.add(identity)
        elif row.get("is_bot") is True:
            realm.bots.add(identity)


def _message(element: Element, realm: _Realm) -> dict[str, Any] | Skipped:
    message = element_object(element)
    sender, topic = identifier(message, "sender"), text_in(message, "subject").removeprefix("✔ ").strip()
    if sender in realm.system:
        return NOTICE
    text = _text(text_in(message, "content"))
    if text == "(deleted)":
        return DELETED
    if not text:
        return EMPTY
    channel, is_stream = _channel(message, sender, realm)
    value: dict[str, Any] = {
        "channel": channel,
        "id": identifier(message, "id"),
        "ts": utc_time(message.get("date_sent"), "date_sent"),
        "author": {
            "id": sender,
            "name": realm.people.get(sender) or f"user {sender}",
            "bot": sender in realm.bots,
        },
        "text": f"*{text.removeprefix('/me ')}*" if text.startswith("/me ") else text,
    }
    return value | ({"thread": topic} if is_stream and topic else {})


def _channel(message: Mapping[str, Any], sender: str, realm: _Realm) -> tuple[str, bool]:
    """The conversation's name, and whether it is a Zulip channel."""
    recipient = identifier(message, "recipient")
    kind, whose = realm.recipients.get(recipient, (_STREAM, ""))
    if kind == _STREAM:
        return realm.names.name(f"stream {whose or recipient}", realm.streams.get(whose, "")), True
    people = {sender, whose} if kind == _PERSONAL else {sender, *realm.members.get(recipient, ())}
    names = sorted(realm.people.get(person) or f"user {person}" for person in people)
    return realm.names.name("direct " + ",".join(sorted(people)), ", ".join(names)), False


def _text(content: str) -> str:
    """Zulip's markup as plain text."""
    text = _MENTION.sub(lambda match: f"#{match[3]}" if match[3] else f"@{match[1] or match[2]}", content)
    text = _UPLOAD.sub(lambda match: f"[file: {match[1] or match[2].rpartition('/')[2]}]", text)
    return _QUOTE.sub(lambda match: re.sub("^", "> ", match[2], flags=re.MULTILINE), text).strip()


FORMAT = Format(_read, _recognises)
