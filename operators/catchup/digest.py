"""What a catch-up is made of: a channel as it was read, the lines of its digest, what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from backscroll.operators.catchup.context import EarlierMessage
from backscroll.operators.catchup.due_dates import Due
from backscroll.operators.catchup.rule_items import CatchupItem, Kind
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
    """A channel as it was read.

    Args:
        key: the channel.
        history: its closed windows.
        open: the turns after them, in order.
        record: the finished summary of a closed window, if there is one.
    """

    key: ChannelKey
    history: ChannelHistory
    open: tuple[Turn, ...] = ()
    record: Callable[[WindowRef], Summary | None] = lambda _: None

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """Every turn, in order, deleted ones too."""
        return (*self.history.turns(0, self.history.recorded_until - 1), *self.open)


@dataclass(frozen=True, slots=True)
class DigestItem:
    """A line: its kind, words, the messages it rests on, and the earlier ones that explain it.

    The first message is the one that the words are of; a model's words may rest on several. `for_me`
    says why it concerns the reader.
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
    """Messages and lines that are not shown.

    Messages of the span from bots, deleted ones, those that no line rests on, lines over the limit,
    and lines of a model that no message holds.
    """

    bots: int = 0
    deleted: int = 0
    unmentioned: int = 0
    items: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class ChannelDigest:
    """What happened in a channel.

    `messages` counts those of the span that are there, `people` who wrote them; `sections` hold the
    lines by name, in the order of time, and `quoted` is the only message where there is but one.
    `reused` windows were summarised before, `provisional` ones not. `degraded` says why a model's
    part is missing.
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
    """The items of a model for a channel's span, how many were dropped, and why there are none."""

    items: tuple[CatchupItem, ...] = ()
    dropped: int = 0
    degraded: str | None = None


def line(item: DigestItem) -> str:
    """The words of a line, with what explains them in brackets, as they are counted."""
    words = item.text if item.written else f"{item.messages[0].author.name}: {item.text}"
    notes = "".join(f" [{earlier.turn.author.name}: {earlier.text}]" for earlier in item.explained)
    tail = " ".join(part for part in (item.owner, item.due.text if item.due else None) if part)
    return f"{words}{notes} {tail}".rstrip()
