"""Which messages a reader has missed: a span of time, or what came after a message.

>>> from zoneinfo import ZoneInfo
>>> berlin = ZoneInfo("Europe/Berlin")
>>> now = datetime(2026, 3, 11, 8, tzinfo=UTC)
>>> parse_moment("yesterday", now, berlin).isoformat()
'2026-03-10T00:00:00+01:00'
>>> parse_moment("2d", now, berlin).isoformat(), parse_moment("m17", now, berlin)
('2026-03-09T09:00:00+01:00', None)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo

from backscroll.operators.errors import BackscrollError
from backscroll.operators.messages import ChannelKey, Turn

__all__ = ["Endpoint", "Period", "PeriodError", "parse_moment", "parse_period"]

_AGO = re.compile(r"(\d{1,6})\s*(m|min|h|d|w)", re.IGNORECASE)


_UNITS = {"m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


_DAYS = {"today": 0, "yesterday": 1}


class PeriodError(BackscrollError):
    """A span cannot be found; one line says why and what would be right."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A moment, and in the channel `key`, where it was given by a message, the place of that one."""

    moment: datetime
    key: ChannelKey | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Period:
    """The span in every channel: turns after `since` and until `until`.

    A moment `since` is part of the span, and a moment `until` is not; with messages it is the other
    way round: what came after the one that was read last, up to and with the one named.
    """

    since: Endpoint
    until: Endpoint | None

    def holds(self, key: ChannelKey, turn: Turn) -> bool:
        """Whether a turn is in the span."""
        since, until = self.since, self.until
        after = (
            turn.seq > since.seq
            if since.seq is not None and since.key == key
            else (turn.ts > since.moment if since.seq is not None else turn.ts >= since.moment)
        )
        if not after or until is None:
            return after
        if until.seq is not None:
            return turn.seq <= until.seq if until.key == key else turn.ts <= until.moment
        return turn.ts < until.moment


def parse_moment(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    """The moment that a text names, aware, in `zone`; None where it looks like the id of a message.

    `30m`, `5h`, `2d` and `1w` count back from `now`; `today` and `yesterday` begin at midnight; ISO
    8601 times and dates without an offset are in `zone`.

    Raises:
        SpanError: it is a time that there is not.
    """
    word = text.strip()
    local = now.astimezone(zone)
    if ago := _AGO.fullmatch(word):
        try:
            return (now - timedelta(**{_UNITS[ago[2].lower()]: int(ago[1])})).astimezone(zone)
        except OverflowError as err:
            raise PeriodError(f"{text!r} is longer ago than there are dates") from err
    if word.lower() in _DAYS:
        return datetime.combine(local.date() - timedelta(days=_DAYS[word.lower()]), time(), zone)
    if word.lower() == "now":
        return local
    try:
        moment = datetime.fromisoformat(word)
    except ValueError as err:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}.*", word):
            raise PeriodError(f"{text!r} is not a possible ISO 8601 time") from err
        return None
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(zone)
    except OverflowError as err:
        raise PeriodError(f"{text!r} is not a possible ISO 8601 time") from err


def parse_period(
    since: str, until: str | None, turns: Mapping[ChannelKey, Sequence[Turn]], *, now: datetime, zone: tzinfo
) -> Period:
    """The span that `since` and `until` name over the turns of channels.

    Times ago count back from `until`, where it is given, and from `now` elsewhere; `latest` is the
    newest message, and the span holds it. A message id is looked up in the channels.

    Raises:
        SpanError: a text is no time and no message, or the span ends before it begins.
    """
    end = None
    if until is not None:
        end = _latest(turns) if until.strip().lower() == "latest" else _bound(until, turns, now, zone)
    begin = _bound(since, turns, now if end is None else end.moment, zone)
    if end is not None and end.moment < begin.moment:
        first, last = (f"{moment:%Y-%m-%d %H:%M}" for moment in (begin.moment, end.moment))
        raise PeriodError(f"the span ends before it begins: from {first} to {last}")
    return Period(begin, end)


def _latest(turns: Mapping[ChannelKey, Sequence[Turn]]) -> Endpoint | None:
    """Just after the newest message; nothing to end at where there is none."""
    newest = max((turn.ts for of_channel in turns.values() for turn in of_channel), default=None)
    if newest is None or newest > datetime.max.replace(tzinfo=UTC) - timedelta(days=2):
        return None
    return Endpoint(newest + timedelta(microseconds=1))


def _bound(text: str, turns: Mapping[ChannelKey, Sequence[Turn]], now: datetime, zone: tzinfo) -> Endpoint:
    found = [(key, turn) for key, of_channel in turns.items() for turn in of_channel if turn.id == text]
    if len(found) > 1:
        names = ", ".join(str(key) for key, _ in found)
        raise PeriodError(f"message {text!r} is in several channels: name one of {names}")
    if found:
        key, turn = found[0]
        return Endpoint(turn.ts.astimezone(zone), key, turn.seq)
    moment = parse_moment(text, now, zone)
    if moment is None:
        raise PeriodError(
            f"{text!r} is no message here and no time: "
            "use 2d, 5h, yesterday, 2026-03-02T09:00 or the id of a message"
        )
    return Endpoint(moment)
