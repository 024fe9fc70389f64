"""What a user has missed in the channels they can access.

The flow decides how a digest is made: by rules or with a language model. Because models cost money, a
digest is cached until the store changes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Protocol

from backscroll.connectors.lancedb.reader import ChannelEntry
from backscroll.operators.catchup.catch_up import in_span
from backscroll.operators.catchup.digest import ChannelDigest, ChannelRead
from backscroll.operators.catchup.digest_json import to_json
from backscroll.operators.catchup.people import Person
from backscroll.operators.catchup.period import Period, parse_period
from backscroll.operators.messages import ChannelKey
from backscroll.web.library import Library
from backscroll.web.times import Times

__all__ = ["BusyError", "CatchUp", "CaughtUp", "Digesting"]

_CHANNELS = 16  # that one catch-up reads

_KEPT = 64  # digests


class BusyError(RuntimeError):
    """Too many catch-ups are running already."""


class Digesting(Protocol):
    """Makes the digests of channels."""

    def __call__(
        self, channels: Sequence[ChannelRead], found: Period, *, me: Person | None, max_tokens: int
    ) -> list[ChannelDigest]:
        """The digests of the channels with messages in the period, busiest first."""
        ...


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """What happened: the digests, the period, the user's name in the chat, and the other channels.

    `quiet` channels have no messages in the period. `unread` channels may have some, but were not read
    because there are too many. `newest` is the time of the newest message in any channel.
    """

    digests: list[ChannelDigest]
    spans: Period
    me: str | None
    quiet: list[ChannelKey]
    unread: list[ChannelKey]
    newest: datetime | None

    def to_json(self, zone_name: str) -> bytes:
        """The JSON that `backscroll catchup --as json` prints."""
        return to_json(
            self.digests,
            self.spans,
            time_zone=zone_name,
            me=self.me,
            quiet=self.quiet,
            unread=self.unread,
        )


class CatchUp:
    """Makes catch-ups for users, and caches them.

    Args:
        library: the store to read.
        digest: makes the digests.
        zone: the time zone of days and of displayed times.
        zone_name: the name of that zone.
        at_once: how many catch-ups may run at the same time.
        patience: how long further requests wait for their turn, in seconds.
        now: tells the current time; the clock when None.
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
        now: Callable[[], datetime] | None = None,
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
        self._now = now or partial(datetime.now, UTC)

    @property
    def times(self) -> Times:
        """How the pages write times now."""
        return Times(self.zone, self.zone_name, self._now().astimezone(self.zone).year)

    def missed(
        self,
        entries: Sequence[ChannelEntry],
        *,
        since: str,
        until: str | None = None,
        me: str | None = None,
        max_tokens: int = 400,
    ) -> CaughtUp:
        """What happened in a user's channels.

        Args:
            entries: the channels, most recent first; no other channel is read. Of those that may have
                messages in the period, only the first 16 are read.
            since: the start of the period, as `catchup.period` parses it.
            until: the end of the period, in the same form; None for now.
            me: the user's name or id.
            max_tokens: the limit for all lines together.

        Raises:
            PeriodError: `since` or `until` is invalid.
            BusyError: too many catch-ups are running already.
        """
        found = self._spans(entries, since, until)
        may = [entry for entry in entries if _may_hold(entry, found)]
        channels = [self._library.read(entry.key) for entry in may[:_CHANNELS]]
        person = None
        if me is not None:
            authors = [turn.author for one in channels for turn in one.turns if not turn.deleted]
            person = Person.named(me, authors)
        digests = self._made(channels, found, person, max_tokens)
        covered, unread = {digest.key for digest in digests}, [entry.key for entry in may[_CHANNELS:]]
        return CaughtUp(
            digests,
            found,
            None if person is None else person.name,
            [entry.key for entry in entries if entry.key not in covered and entry.key not in unread],
            unread,
            max((entry.end for entry in entries), default=None),
        )

    def _spans(self, entries: Sequence[ChannelEntry], since: str, until: str | None) -> Period:
        ids = [text for text in (since, until) if text]
        turns = self._library.store.named([entry.key for entry in entries], ids)
        if until is not None and until.strip().lower() == "latest" and entries:
            turns.setdefault(entries[0].key, []).extend(self._library.latest(entries[0]))
        return parse_period(since, until, turns, now=self._now(), zone=self.zone)

    def _made(
        self, channels: Sequence[ChannelRead], found: Period, me: Person | None, max_tokens: int
    ) -> list[ChannelDigest]:
        places = tuple(
            (channel.key, tuple(turn.seq for turn in in_span(channel, found))) for channel in channels
        )
        key = places, me, max_tokens
        version = self._library.store.version
        with self._lock:
            if version != self._version:  # erased messages must leave the cache
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
    """Whether a channel may have messages in the period; a message after another may have an older time."""
    since, until = found.since, found.until
    if entry.key in (since.key, until and until.key):
        return True
    return entry.end >= since.moment and (until is None or entry.start <= until.moment)
