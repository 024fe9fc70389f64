"""Reduce events of Slack's Events API to what the inbox needs, before anything is written to disk.

Link unfurls arrive as edits with unchanged text, and are ignored. A message that must not be stored loses
its text here. https://docs.slack.dev/reference/events
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backscroll.connectors.chat.listener import OptOut
from backscroll.connectors.chat.slack.messages import message_text
from backscroll.connectors.chat.slack.text import SlackNames
from backscroll.connectors.files.base.fields import object_in, text_in

__all__ = ["arrival", "raw_text"]

_UNKNOWN = SlackNames()


def arrival(event: Mapping[str, Any], opt_out: OptOut) -> dict[str, Any] | None:
    """The event in reduced form, or None if it can be ignored.

    `kind` is `post`, `edit` (with the time `edited`), `delete`, `withhold` (the message must not be stored),
    `joined` or `user`. `message` holds the message, `id` its id.
    """
    kind = text_in(event, "type")
    if kind in ("user_change", "team_join"):
        return {"kind": "user", "user": object_in(event, "user")}
    if kind == "member_joined_channel":
        return {"kind": "joined", "channel": text_in(event, "channel"), "user": text_in(event, "user")}
    if kind != "message" or event.get("channel_type") in ("im", "mpim", "app_home"):
        return None
    place = {"channel": text_in(event, "channel"), "at": text_in(event, "event_ts", "ts")}
    subtype = text_in(event, "subtype")
    if subtype == "message_deleted":
        former = object_in(event, "previous_message")
        return {"kind": "delete", **place, "id": text_in(event, "deleted_ts") or text_in(former, "ts")}
    if subtype == "message_changed":
        return _changed(event, place, opt_out)
    if opt_out.asked_in(raw_text(event)):
        return {"kind": "withhold", **place, "id": text_in(event, "ts"), "was_stored": False}
    return {"kind": "post", **place, "message": dict(event)}


def raw_text(message: Mapping[str, Any]) -> str:
    """The text with ids of people and channels, so that it does not depend on their names."""
    return message_text(message, _UNKNOWN)


def _changed(event: Mapping[str, Any], place: Mapping[str, str], opt_out: OptOut) -> dict[str, Any] | None:
    message, former = object_in(event, "message"), object_in(event, "previous_message")
    id_, text = text_in(message, "ts"), raw_text(message)
    if text_in(message, "subtype") == "tombstone":  # a deleted message that has replies
        return {"kind": "delete", **place, "id": id_}
    if opt_out.asked_in(text):
        return {"kind": "withhold", **place, "id": id_, "was_stored": True}
    if former and raw_text(former) == text:
        return None
    edited = text_in(object_in(message, "edited"), "ts") or place["at"]
    return {"kind": "edit", **place, "message": message, "edited": edited}
