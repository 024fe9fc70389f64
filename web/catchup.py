"""What somebody has missed in the channels that they may read.

How a digest is made is the flow's: by rules, or with a language model. It is made once for a span that
has not changed since, because a model has to be paid for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Protocol

from backscroll.connectors.lancedb.reader import ChannelEntry
from backscroll.operators.catchup.catch_up import in_span
from backscroll.operators.catchup.digest import ChannelDigest, ChannelRead
from backscroll.operators.catchup.digest_json import to_json
from backscroll.operators.catchup.people import Person
from backscroll.operators.catchup.period import Period, parse_period
from backscroll.operators.messages import ChannelKey
from backscroll.web.library import HOT, Library

__all__ = ["BusyError", "CatchUp", "CaughtUp", "Digesting"]

_KEPT = 64  # digests


class BusyError(RuntimeError):
    """As many catch-ups as may be are being made."""


class Digesting(Protocol):
    """Makes the digests of channels, the busiest first."""

    def __call__(
        self, channels: Sequence[ChannelRead], found: Period, *, me: Person | None, max_tokens: int
    ) -> list[ChannelDigest]:
        """The digests of the channels with something in the span."""
        ...


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """What happened: the digests, the span, the reader as the chat calls them, and the other channels.

    `quiet` channels have nothing in the span; `unread` ones may have, and were too many. `newest` is the
    time of the newest message there is.
    """

    digests: list[ChannelDigest]
    spans: Period
    me: str | None
    quiet: list[ChannelKey]
    unread: list[ChannelKey]
    newest: datetime | None

    def to_json(self, zone_name: str) -> bytes:
        """As `backscroll catchup --as json` prints it."""
        return to_json(
            self.digests,
            self.spans,
            time_zone=zone_name,
            me=self.me,
            quiet=self.quiet,
            unread=self.unread,
        )


class CatchUp:
    """Catches readers up.

    Args:
        library: what there is to read.
        digest: how a digest is made.
        zone: in which days are meant and times are shown.
        zone_name: its name.
        at_once: how many may be caught up at the same time.
        patience: seconds that others wait for a place.
    """

    def __init__(
        self,
        library: Library,
        digest: Digesting,
        zone: tzinfo,
        zone_name: str,
        *,
        at_once: int = 4,
        patience: float = 15.0,
    ) -> None:
        self.zone = zone
        self.zone_name = zone_name
        self._library = library
        self._digest = digest
        self._kept: OrderedDict[object, list[ChannelDigest]] = OrderedDict()
        self._version = -1
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(at_once)
        self._patience = patience

    def missed(
        self,
        entries: Sequence[ChannelEntry],
        *,
        since: str,
        until: str | None = None,
        me: str | None = None,
        max_tokens: int = 400,
    ) -> CaughtUp:
        """What happened in channels of a reader.

        Args:
            entries: the channels, the latest first; nothing of any other is read. Of those that may have
                something in the span the first 16 are read.
            since: as `catchup.period` reads it.
            until: likewise; None for now.
            me: name or id of the reader.
            max_tokens: of all lines.

        Raises:
            SpanError: the span cannot be found.
            BusyError: too many others are being caught up.
        """
        found = self._spans(entries, since, until)
        may = [entry for entry in entries if _may_hold(entry, found)]
        channels = [self._library.read(entry.key) for entry in may[:HOT]]
        person = None
        if me is not None:
            authors = [turn.author for one in channels for turn in one.turns if not turn.deleted]
            person = Person.named(me, authors)
        digests = self._made(channels, found, person, max_tokens)
        told, unread = {digest.key for digest in digests}, [entry.key for entry in may[HOT:]]
        return CaughtUp(
            digests,
            found,
            None if person is None else person.name,
            [entry.key for entry in entries if entry.key not in told and entry.key not in unread],
            unread,
            max((entry.end for entry in entries), default=None),
        )

    def _spans(self, entries: Sequence[ChannelEntry], since: str, until: str | None) -> Period:
        ids = [text for text in (since, until) if text]
        turns = self._library.store.named([entry.key for entry in entries], ids)
        if until is not None and until.strip().lower() == "latest" and entries:
            turns.setdefault(entries[0].key, []).extend(self._library.latest(entries[0]))
        return parse_period(since, until, turns, now=datetime.now(UTC), zone=self.zone)

    def _made(
        self, channels: Sequence[ChannelRead], found: Period, me: Person | None, max_tokens: int
    ) -> list[ChannelDigest]:
        places = tuple(
            (channel.key, tuple(turn.seq for turn in in_span(channel, found))) for channel in channels
        )
        key = places, me, max_tokens
        version = self._library.store.version
        with self._lock:
            if version != self._version:  # what was erased is not kept
                self._version = version
                self._kept.clear()
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        with self._place():
            digests = self._digest(channels, found, me=me, max_tokens=max_tokens)
        with self._lock:
            if version == self._version and not any(digest.degraded for digest in digests):
                self._kept[key] = digests
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return digests

    @contextmanager
    def _place(self) -> Iterator[None]:
        if not self._places.acquire(timeout=self._patience):
            raise BusyError("too many catch-ups are running: try again shortly")
        try:
            yield
        finally:
            self._places.release()


def _may_hold(entry: ChannelEntry, found: Period) -> bool:
    """Whether a channel may have messages in the span; those after a message may be older by the clock."""
    since, until = found.since, found.until
    if entry.key in (since.key, until and until.key):
        return True
    return entry.end >= since.moment and (until is None or entry.start <= until.moment)
