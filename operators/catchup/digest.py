"""The data of a catch-up: the channel that was read, the lines of its digest, and what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from backscroll.operators.catchup.act_items import CatchupItem, Kind
from backscroll.operators.catchup.context import EarlierMessage
from backscroll.operators.catchup.due_dates import Due
from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.language.phrasebook import PhraseBook
from backscroll.operators.messages import ChannelKey, Turn
from backscroll.operators.stream.windows import WindowRef
from backscroll.operators.summary.record import Summary

__all__ = ["SECTIONS", "Advice", "ChannelDigest", "ChannelRead", "DigestItem", "LeftOut", "Suggested", "line"]

Advice: TypeAlias = Literal["read", "skim", "skip"]
SECTIONS = ("for_me", "decisions", "actions", "questions", "highlights")


@dataclass(frozen=True)
class ChannelRead:
    """A channel as read for a catch-up.

    Args:
        key: the channel.
        history: its closed windows.
        open: the turns after the closed windows, in order.
        record: returns the finished summary of a closed window, or None.
    """

    key: ChannelKey
    history: ChannelHistory
    open: tuple[Turn, ...] = ()
    record: Callable[[WindowRef], Summary | None] = lambda _: None

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """Every turn in order, including deleted ones."""
        return (*self.history.turns(0, self.history.recorded_until - 1), *self.open)


@dataclass(frozen=True, slots=True)
class DigestItem:
    """A line of a digest: its kind, its text, the messages it cites, and the earlier ones that explain it.

    Quoted text comes from the first message; text that a model wrote may cite several. `for_me` is why
    the line concerns the user, and `written` is true for text by a model.
    """

    kind: Kind
    text: str
    messages: tuple[Turn, ...]
    explained: tuple[EarlierMessage, ...] = ()
    owner: str | None = None
    due: Due | None = None
    for_me: Literal["question", "action", "mention", "reply"] | None = None
    written: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many messages and lines are not shown.

    `bots` and `deleted` count messages of the period, `unmentioned` those that no line cites, `items` the
    lines over the token limit, and `dropped` a model's lines that its messages do not support.
    """

    bots: int = 0
    deleted: int = 0
    unmentioned: int = 0
    items: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class ChannelDigest:
    """What happened in a channel.

    `messages` counts the messages of the period that are not deleted, and `people` are their authors.
    `sections` holds the lines by section, in time order; `quoted` is set when there is only one message.
    `reused` counts windows with a stored summary, `provisional` the others. `degraded` is the reason why
    the model's items are missing.
    """

    key: ChannelKey
    book: PhraseBook
    advice: Advice
    messages: int
    people: tuple[str, ...]
    first: Turn
    last: Turn
    sections: Mapping[str, tuple[DigestItem, ...]]
    left_out: LeftOut
    quoted: Turn | None = None
    reused: int = 0
    provisional: int = 0
    degraded: str | None = None

    @property
    def items(self) -> Iterator[DigestItem]:
        """Every line."""
        for name in SECTIONS:
            yield from self.sections.get(name, ())


@dataclass(frozen=True, slots=True)
class Suggested:
    """A model's items for a channel, how many were dropped, and the reason if the model failed."""

    items: tuple[CatchupItem, ...] = ()
    dropped: int = 0
    degraded: str | None = None


def line(item: DigestItem) -> str:
    """The text of a line with its explanations in brackets, as used to count tokens."""
    words = item.text if item.written else f"{item.messages[0].author.name}: {item.text}"
    notes = "".join(f" [{earlier.turn.author.name}: {earlier.text}]" for earlier in item.explained)
    tail = " ".join(part for part in (item.owner, item.due.text if item.due else None) if part)
    return f"{words}{notes} {tail}".rstrip()
