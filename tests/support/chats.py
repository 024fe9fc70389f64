"""Short chats of one channel, as turns, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from backscroll.operators.catchup.digest import ChannelRead
from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.language.tokens import count
from backscroll.operators.messages import Author, ChannelKey, Turn

KEY = ChannelKey("default", "ops")
START = datetime(2026, 3, 2, 9, tzinfo=UTC)  # a Monday


def chat(*lines: str, minutes: int = 5, key: ChannelKey = KEY) -> list[Turn]:
    """Turns `m0`, `m1` ... of lines `Author: text`, five minutes apart; `Author>m0: text` is a reply."""
    turns = []
    for seq, line in enumerate(lines):
        name, text = line.split(": ", 1)
        name, _, reply_to = name.partition(">")
        author = Author(f"u-{name.lower()}", name, bot=name.endswith("bot"))
        turns.append(
            Turn(
                seq,
                f"m{seq}",
                START + timedelta(minutes=minutes * seq),
                author,
                text,
                count(f"{name}: {text}\n"),
                seq,
                reply_to=reply_to or None,
                permalink=f"https://chat.example.com/{key.channel}/m{seq}",
            )
        )
    return turns


def channel(turns: Sequence[Turn], key: ChannelKey = KEY) -> ChannelRead:
    """A channel whose window is still open."""
    return ChannelRead(key, ChannelHistory(key, None), tuple(turns))
