"""Format `slack`: a workspace export, as the zip or the unpacked folder.

    channels.json groups.json dms.json mpims.json    conversations, with their members
    users.json (org_users.json)                      people
    general/2026-03-02.json                          messages of one conversation and day

A conversation's channel is its name; a direct message is named after its people. A message's id is its
`ts`; `thread` is the `ts` of the message replied to, which may be in another day's file. Some exports
record edits and deletions as separate events; these are applied.
https://slack.com/help/articles/220556107
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson

from backscroll.connectors.chat.slack.messages import SlackWorkspace, slack_message
from backscroll.connectors.files.base.archives import Archive, open_archive, open_member
from backscroll.connectors.files.base.channel_names import ChannelNames
from backscroll.connectors.files.base.fields import list_in, object_in, text_in
from backscroll.connectors.files.base.format import (
    CHANGED,
    DELETED,
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
)
from backscroll.connectors.files.base.json_stream import parse_element, stream_json
from backscroll.operators.messages import MessageError

__all__ = ["FORMAT"]

_DAY = re.compile(r"(?:.*/)?([^/]+)/(\d{4}-\d{2}-\d{2})\.json")
_LISTS = re.compile(r"(?:.*/)?(channels|groups|dms|mpims|users|org_users)\.json")
_WORKSPACE = re.compile(rb'"permalink":\s*"https:\\?/\\?/([a-z0-9-]+)\.slack\.com\\?/')
_WHOLE_BYTES = 64 * 1024 * 1024  # a day's file up to this size is read at once


@dataclass(slots=True)
class _Workspace:
    """The export's people and channels, and the edits and deletions among its messages."""

    people: SlackWorkspace = field(default_factory=SlackWorkspace)
    channels: dict[str, tuple[str, str]] = field(default_factory=dict)  # folder: name, id
    edits: dict[tuple[str, str], str] = field(default_factory=dict)
    deleted: set[tuple[str, str]] = field(default_factory=set)


def _read(path: StrPath, tz: tzinfo | None) -> Iterator[ReadItem]:
    """Yield messages day by day, each day sorted by time; `origin` names file, member and message.

    Raises:
        FormatError: the export cannot be opened, or has no messages file.
    """
    del tz
    with open_archive(path, _is_wanted) as archive:
        days = sorted((match[2], match[1], name) for name in archive.names if (match := _DAY.fullmatch(name)))
        if not days:
            raise FormatError(
                f"{file_name(path)}: not a Slack export: expected files like general/2026-03-02.json"
            )
        workspace = _workspace(archive)
        for _, folder, name in days:
            _collect_changes(archive, folder, name, workspace)
        for _, members in groupby(days, key=itemgetter(0)):
            day = (
                item for _, folder, name in members for item in _day(path, archive, folder, name, workspace)
            )
            yield from (item for _, item in sorted(day, key=itemgetter(0)))


def _day(
    path: StrPath, archive: Archive, folder: str, name: str, workspace: _Workspace
) -> Iterator[tuple[str, ReadItem]]:
    """One day of a conversation, each message with its `ts`."""
    for number, (entry, raw) in enumerate(_entries(archive, name), start=1):
        ts = text_in(entry, "ts") if isinstance(entry, dict) else ""
        place = f"{name} {ts or number}"
        if isinstance(entry, MessageError):
            yield ts, entry_received(path, place, raw, entry)
        else:
            yield ts, attempted(path, place, entry, partial(_message, entry, folder, workspace))


def _is_wanted(name: str) -> bool:
    return not name.startswith("__MACOSX/") and bool(_DAY.fullmatch(name) or _LISTS.fullmatch(name))


def _recognises(head: Head) -> bool:
    lists = {match[1] for name in head.members if (match := _LISTS.fullmatch(name))}
    return bool(lists) and any(map(_DAY.fullmatch, head.members))


def _entries(archive: Archive, name: str) -> Iterator[tuple[Any, bytes]]:
    """The elements of a member; a `MessageError` and the bytes for one that cannot be read."""
    try:
        with open_member(archive, name) as file:
            start = file.read(_WHOLE_BYTES)
        with suppress(orjson.JSONDecodeError):
            whole = orjson.loads(start)
            yield from ((entry, b"") for entry in (whole if isinstance(whole, list) else [whole]))
            return
        # Too large or damaged: read it element by element, so that only damaged elements are lost.
        with open_member(archive, name) as file:
            for element in stream_json(file, [("*",)]):
                try:
                    yield parse_element(element), b""
                except MessageError as err:
                    yield err, element.raw
    except MessageError as err:
        yield err, b""


def _workspace(archive: Archive) -> _Workspace:
    workspace = _Workspace()
    lists: dict[str, list[dict[str, Any]]] = {}
    for name in archive.names:
        if match := _LISTS.fullmatch(name):
            entries = [entry for entry, _ in _entries(archive, name) if isinstance(entry, dict)]
            lists.setdefault(match[1], []).extend(entries)
    names = workspace.people.names
    for user in lists.get("users", []) + lists.get("org_users", []):
        workspace.people.learn_user(user)
    channel_names = ChannelNames()
    for kind in ("channels", "groups", "mpims", "dms"):
        for channel in lists.get(kind, []):
            identity, folder = text_in(channel, "id"), text_in(channel, "name") or text_in(channel, "id")
            people = [names.users.get(str(member)) or str(member) for member in list_in(channel, "members")]
            named_by_people = ", ".join(sorted(people)) if kind in ("mpims", "dms") else ""
            name = channel_names.name(identity or folder, named_by_people, folder)
            names.channels[identity] = name
            workspace.channels[folder] = name, identity
    return workspace


def _collect_changes(archive: Archive, folder: str, name: str, workspace: _Workspace) -> None:
    """Note a day's edits and deletions, and the workspace's domain from a file's permalink."""
    try:
        with open_member(archive, name) as file:
            text = file.read(_WHOLE_BYTES)
    except MessageError:
        return  # reported when the day is read
    if not workspace.people.domain and (found := _WORKSPACE.search(text)):
        workspace.people.domain = found[1].decode()
    if b'"message_changed"' not in text and b'"message_deleted"' not in text:
        return
    for entry, _ in _entries(archive, name):
        if not isinstance(entry, dict):
            continue
        if entry.get("subtype") == "message_changed":
            changed = object_in(entry, "message")
            if isinstance(changed.get("text"), str):
                workspace.edits[folder, text_in(changed, "ts")] = changed["text"]
        elif entry.get("subtype") == "message_deleted":
            former = object_in(entry, "previous_message") or object_in(entry, "original")
            workspace.deleted.add((folder, text_in(entry, "deleted_ts") or text_in(former, "ts")))


def _message(entry: object, folder: str, workspace: _Workspace) -> dict[str, Any] | Skipped:
    message = entry_object(entry)
    if text_in(message, "subtype") in ("message_changed", "message_deleted"):
        return CHANGED
    place = folder, text_in(message, "ts")
    if place in workspace.deleted:
        return DELETED
    channel, channel_id = workspace.channels.get(folder, (folder, ""))
    return slack_message(
        message, workspace.people, channel=channel, channel_id=channel_id, text=workspace.edits.get(place)
    )


FORMAT = Format(_read, _recognises, again=True)
