"""Convert Slack's message markup to plain text: names for ids, readable links, no escapes.

>>> names = SlackNames(users={"U1": "Ana"}, channels={"C1": "general"})
>>> plain_text("<@U1> &amp; <!here>: see <#C1> or <https://example.com/a|the plan>", names)
'@Ana & @here: see #general or the plan (https://example.com/a)'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from backscroll.connectors.files.base.fields import object_in, objects_in, text_in

__all__ = ["SlackNames", "block_text", "plain_text", "user_name"]

_MARKUP = re.compile(r"<([^<>\s][^<>]*)>")
_ESCAPES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))  # in this order


@dataclass(slots=True)
class SlackNames:
    """The names of users and channels by id."""

    users: dict[str, str] = field(default_factory=dict)
    channels: dict[str, str] = field(default_factory=dict)


def plain_text(text: str, names: SlackNames) -> str:
    """The text with mentions, links and escapes resolved (https://docs.slack.dev/messaging/formatting-message-text)."""
    text = _MARKUP.sub(lambda match: _resolved(match[1], names), text)
    for escape, character in _ESCAPES:
        text = text.replace(escape, character)
    return text


def user_name(user: Mapping[str, Any]) -> str:
    """A user's name as the app shows it: the display name, else the real name, else `""`."""
    profile = object_in(user, "profile") or user
    name = text_in(profile, "display_name", "real_name") or text_in(user, "real_name", "name")
    return " ".join(name.split())


def block_text(message: Mapping[str, Any]) -> str:
    """The text in blocks and attachments; messages of apps may have no other text."""
    parts = list[str]()
    for block in objects_in(message, "blocks"):
        parts += [text_in(object_in(block, "text"), "text")]
        parts += [text_in(part, "text") for part in objects_in(block, "fields")]
    for attachment in objects_in(message, "attachments"):
        texts = [text_in(attachment, name) for name in ("pretext", "title", "text")]
        texts += [
            f"{text_in(part, 'title')}: {text_in(part, 'value')}" for part in objects_in(attachment, "fields")
        ]
        parts += texts if any(texts) else [text_in(attachment, "fallback")]
    return "\n".join(part for part in parts if part)


def _resolved(markup: str, names: SlackNames) -> str:
    target, _, label = markup.partition("|")
    sign, identity = target[0], target[1:]
    if sign == "@":
        return f"@{names.users.get(identity) or label or identity}"
    if sign == "#":
        return f"#{names.channels.get(identity) or label or identity}"
    if sign == "!":
        name = identity.partition("^")[0]
        return label if name == "date" else label or f"@{name}"
    address = target.removeprefix("mailto:").removeprefix("tel:")
    shown = address.removeprefix("https://").removeprefix("http://").rstrip("/")
    return address if not label or label.rstrip("/") in (shown, target, address) else f"{label} ({address})"
