"""A digest as JSON, for programs and for the web page; `docs/catchup.md` explains every field.

Times are ISO 8601 in UTC. Texts are as they were written: who shows them has to escape them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from operators.digest import SECTIONS, ChannelDigest, Item
from operators.messages import ChannelKey, Turn, format_time
from operators.span import Spans

__all__ = ["VERSION", "digest_fields", "to_json"]

VERSION = 1


def to_json(
    digests: Sequence[ChannelDigest],
    spans: Spans,
    *,
    time_zone: str,
    me: str | None,
    quiet: Sequence[ChannelKey] = (),
) -> bytes:
    """The digests as one JSON object, indented.

    Args:
        digests: the channels with something new.
        spans: what the reader has missed.
        time_zone: the name of the reader's.
        me: the reader's name.
        quiet: channels with nothing new.
    """
    fields = {
        "version": VERSION,
        "since": format_time(spans.since.moment),
        "until": None if spans.until is None else format_time(spans.until.moment),
        "time_zone": time_zone,
        "me": me,
        "messages": sum(digest.messages for digest in digests),
        "channels": [digest_fields(digest) for digest in digests],
        "quiet": [str(key) for key in quiet],
    }
    return orjson.dumps(fields, option=orjson.OPT_INDENT_2)


def digest_fields(digest: ChannelDigest) -> dict[str, Any]:
    """A channel's digest as JSON fields."""
    left_out = digest.left_out
    return {
        "namespace": digest.key.namespace,
        "channel": digest.key.channel,
        "advice": digest.advice,
        "language": digest.book.code,
        "messages": digest.messages,
        "people": list(digest.people),
        "first": _message(digest.first),
        "last": _message(digest.last),
        "quoted": None if digest.quoted is None else {**_message(digest.quoted), "text": digest.quoted.text},
        **{name: [_item(item) for item in digest.sections.get(name, ())] for name in SECTIONS},
        "left_out": {
            name: getattr(left_out, name) for name in ("bots", "deleted", "unmentioned", "items", "dropped")
        },
        "windows": {"reused": digest.reused, "provisional": digest.provisional},
        "degraded": digest.degraded,
    }


def _item(item: Item) -> dict[str, Any]:
    due = item.due
    return {
        "kind": item.kind,
        "for_me": item.for_me,
        "text": item.text,
        "written": item.written,
        "messages": [_message(turn) for turn in item.messages],
        "explained": [{**_message(one.turn), "text": one.text} for one in item.explained],
        "owner": item.owner,
        "due": None if due is None else {"text": due.text, "date": due.date.isoformat()},
    }


def _message(turn: Turn) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": turn.id, "author": turn.author.name, "ts": format_time(turn.ts)}
    if turn.permalink is not None:
        fields["permalink"] = turn.permalink
    return fields
