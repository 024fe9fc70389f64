"""Catch-ups as JSON, for programs and the web page; `docs/catchup.md` explains every field.

Times are ISO 8601 in UTC. Texts are exactly as written: escape them before you display them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NotRequired

import orjson
from typing_extensions import TypedDict

from backscroll.operators.catchup.act_items import Kind
from backscroll.operators.catchup.digest import Advice, ChannelDigest, DigestItem
from backscroll.operators.catchup.period import Period
from backscroll.operators.messages import ChannelKey, Turn, format_time

__all__ = ["VERSION", "CatchUpFields", "to_json"]

VERSION = 1


class MessageFields(TypedDict):
    """A message and its position `seq` in the channel."""

    id: str
    seq: int
    author: str
    ts: str
    permalink: NotRequired[str]


class QuotedFields(MessageFields):
    """A message and a quote from it."""

    text: str


class DueFields(TypedDict):
    """A due date: the words in the message, and the date they mean (ISO 8601)."""

    text: str
    date: str


class ItemFields(TypedDict):
    """A line: quoted text, or a model's text if `written`, and the messages it cites."""

    kind: Kind
    for_me: Literal["question", "action", "mention", "reply"] | None
    text: str
    written: bool
    messages: list[MessageFields]
    explained: list[QuotedFields]
    owner: str | None
    due: DueFields | None


class LeftOutFields(TypedDict):
    """How many messages and lines are not shown."""

    bots: int
    deleted: int
    unmentioned: int
    items: int
    dropped: int


class WindowsFields(TypedDict):
    """How many windows had a stored summary, and how many did not."""

    reused: int
    provisional: int


class ChannelFields(TypedDict):
    """What happened in a channel."""

    namespace: str
    channel: str
    advice: Advice
    language: str
    messages: int
    people: list[str]
    first: MessageFields
    last: MessageFields
    quoted: QuotedFields | None
    for_me: list[ItemFields]
    decisions: list[ItemFields]
    actions: list[ItemFields]
    questions: list[ItemFields]
    highlights: list[ItemFields]
    left_out: LeftOutFields
    windows: WindowsFields
    degraded: str | None


class CatchUpFields(TypedDict):
    """What happened, busiest channel first. `quiet` channels have nothing new; `unread` were not read."""

    version: int
    since: str
    until: str | None
    time_zone: str
    me: str | None
    messages: int
    channels: list[ChannelFields]
    quiet: list[str]
    unread: list[str]


def to_json(
    digests: Sequence[ChannelDigest],
    spans: Period,
    *,
    time_zone: str,
    me: str | None,
    quiet: Sequence[ChannelKey] = (),
    unread: Sequence[ChannelKey] = (),
) -> bytes:
    """The digests as one indented JSON object.

    Args:
        digests: the channels with something new.
        spans: the period the user has missed.
        time_zone: the name of the user's time zone.
        me: the user's name.
        quiet: channels with nothing new.
        unread: channels that may have something new and were not read.
    """
    fields: CatchUpFields = {
        "version": VERSION,
        "since": format_time(spans.since.moment),
        "until": None if spans.until is None else format_time(spans.until.moment),
        "time_zone": time_zone,
        "me": me,
        "messages": sum(digest.messages for digest in digests),
        "channels": [_channel(digest) for digest in digests],
        "quiet": [str(key) for key in quiet],
        "unread": [str(key) for key in unread],
    }
    return orjson.dumps(fields, option=orjson.OPT_INDENT_2)


def _channel(digest: ChannelDigest) -> ChannelFields:
    left_out = digest.left_out

    def items(section: str) -> list[ItemFields]:
        return [_item(item) for item in digest.sections.get(section, ())]

    return {
        "namespace": digest.key.namespace,
        "channel": digest.key.channel,
        "advice": digest.advice,
        "language": digest.book.code,
        "messages": digest.messages,
        "people": list(digest.people),
        "first": _message(digest.first),
        "last": _message(digest.last),
        "quoted": None if digest.quoted is None else _quoted(digest.quoted, digest.quoted.text),
        "for_me": items("for_me"),
        "decisions": items("decisions"),
        "actions": items("actions"),
        "questions": items("questions"),
        "highlights": items("highlights"),
        "left_out": {
            "bots": left_out.bots,
            "deleted": left_out.deleted,
            "unmentioned": left_out.unmentioned,
            "items": left_out.items,
            "dropped": left_out.dropped,
        },
        "windows": {"reused": digest.reused, "provisional": digest.provisional},
        "degraded": digest.degraded,
    }


def _item(item: DigestItem) -> ItemFields:
    due = item.due
    return {
        "kind": item.kind,
        "for_me": item.for_me,
        "text": item.text,
        "written": item.written,
        "messages": [_message(turn) for turn in item.messages],
        "explained": [_quoted(one.turn, one.text) for one in item.explained],
        "owner": item.owner,
        "due": None if due is None else {"text": due.text, "date": due.date.isoformat()},
    }


def _quoted(turn: Turn, text: str) -> QuotedFields:
    return {**_message(turn), "text": text}


def _message(turn: Turn) -> MessageFields:
    fields: MessageFields = {
        "id": turn.id,
        "seq": turn.seq,
        "author": turn.author.name,
        "ts": format_time(turn.ts),
    }
    if turn.permalink is not None:
        fields["permalink"] = turn.permalink
    return fields
