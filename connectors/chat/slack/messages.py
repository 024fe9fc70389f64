"""Convert Slack messages to the message schema, from an export, the Web API or an event.

A message's id is its `ts`; `thread` is the `ts` of the message replied to.
https://docs.slack.dev/reference/events/message
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backscroll.connectors.chat.slack.text import SlackNames, block_text, plain_text, user_name
from backscroll.connectors.files.base.fields import object_in, objects_in, text_in, utc_time
from backscroll.connectors.files.base.format import DELETED, EMPTY, NOTICE, Skipped, text_field

__all__ = ["SlackWorkspace", "message_text", "slack_message"]

_NOTICES = re.compile(
    r"(channel|group)_(join|leave|topic|purpose|name|archive|unarchive|convert_to_p\w+|posting_permissions)"
    r"|(bot|app)_(add|remove|enable|disable)|(un)?pinned_item|reminder_\w+|app_conversation_\w+"
    r"|huddle_thread|sh_room_\w+|joiner_notification\w*|ekm_access_denied|bot_(enable|disable)d?"
    r"|message_replied|assistant_app_thread"
)


@dataclass(slots=True)
class SlackWorkspace:
    """The names behind ids, which users are bots, and the workspace's domain in permalinks."""

    names: SlackNames = field(default_factory=SlackNames)
    bots: set[str] = field(default_factory=set)
    domain: str = ""

    def learn_user(self, user: Mapping[str, Any]) -> None:
        """Learn a user's name from an entry in the list of users."""
        identity = text_in(user, "id")
        self.names.users[identity] = user_name(user)
        if user.get("is_bot") is True or identity == "USLACKBOT":
            self.bots.add(identity)


def slack_message(
    message: Mapping[str, Any],
    workspace: SlackWorkspace,
    *,
    channel: str,
    channel_id: str,
    text: str | None = None,
) -> dict[str, Any] | Skipped:
    """A message as `parse_message` takes it, or why the entry is skipped.

    Args:
        message: the message from Slack.
        workspace: its workspace.
        channel: the name of its conversation.
        channel_id: the id of its conversation, for the permalink.
        text: the text of a later edit.

    Raises:
        MessageError: a field is missing or wrong.
    """
    subtype = text_in(message, "subtype")
    if _NOTICES.fullmatch(subtype):
        return NOTICE
    ts = text_field(message, "ts")
    if subtype == "tombstone":
        return DELETED
    shown = message_text(message if text is None else {**message, "text": text}, workspace.names)
    if not shown:
        return EMPTY
    value: dict[str, Any] = {
        "channel": channel,
        "id": ts,
        "ts": utc_time(ts, "ts"),
        "author": _author(message, workspace),
        "text": f"*{shown}*" if subtype == "me_message" else shown,
    }
    root = text_in(message, "thread_ts")
    if root and root != ts:
        value |= {"thread": root, "reply_to": root}
    if workspace.domain and channel_id:
        link = f"https://{workspace.domain}.slack.com/archives/{channel_id}/p{ts.replace('.', '')}"
        value["permalink"] = f"{link}?thread_ts={root}&cid={channel_id}" if "thread" in value else link
    return value


def message_text(message: Mapping[str, Any], names: SlackNames) -> str:
    """The text of a message, or of its blocks if it has no text, followed by the names of its files."""
    text = plain_text(text_in(message, "text"), names)
    return _with_files(text.strip() or plain_text(block_text(message), names), message)


def _with_files(text: str, message: Mapping[str, Any]) -> str:
    names = [
        text_in(file, "title", "name")
        for file in objects_in(message, "files") or [object_in(message, "file")]
    ]
    return " ".join([text, *(f"[file: {name}]" for name in names if name)]).strip()


def _author(message: Mapping[str, Any], workspace: SlackWorkspace) -> dict[str, Any]:
    """The author, even without a `user`: apps, comments and accounts of other workspaces."""
    user = text_in(message, "user") or text_in(object_in(message, "comment"), "user")
    is_bot = (
        user in workspace.bots or bool(text_in(message, "bot_id")) or message.get("subtype") == "bot_message"
    )
    name = (
        workspace.names.users.get(user)
        or text_in(message, "username")
        or user_name(object_in(message, "user_profile"))
        or text_in(object_in(message, "bot_profile"), "name")
        or user
        or "unknown"
    )
    return {"id": user or text_in(message, "bot_id") or name, "name": name, "bot": is_bot}
