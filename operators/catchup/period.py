"""The period a user has missed, given by times or by messages.

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
    """The period is invalid; the message says in one line why and what to use."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A start or end: a moment, and the channel and position of the message if a message gave it."""

    moment: datetime
    key: ChannelKey | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Period:
    """The turns after `since` and up to `until`, in every channel.

    Given as moments, `since` is included and `until` is not. Given as messages it is the other way round:
    the period starts after the last message read and includes the message `until`.
    """

    since: Endpoint
    until: Endpoint | None

    def holds(self, key: ChannelKey, turn: Turn) -> bool:
        """Whether a turn is in the period."""
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
    """Parse a time into an aware datetime in `zone`; None if the text is not a time (it may be a message id).

    `30m`, `5h`, `2d` and `1w` count back from `now`; `today` and `yesterday` start at midnight; ISO 8601
    times and dates without an offset are in `zone`.

    Raises:
        PeriodError: the time is impossible.
    """
    word = text.strip()
    local = now.astimezone(zone)
    if ago := _AGO.fullmatch(word):
        try:
            return (now - timedelta(**{_UNITS[ago[2].lower()]: int(ago[1])})).astimezone(zone)
        except OverflowError as err:
            raise PeriodError(f"{text!r} is too long ago: use an amount such as 2d or 1w") from err
    if word.lower() in _DAYS:
        return datetime.combine(local.date() - timedelta(days=_DAYS[word.lower()]), time(), zone)
    if word.lower() == "now":
        return local
    try:
        moment = datetime.fromisoformat(word)
    except ValueError as err:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}.*", word):
            raise PeriodError(
                f"{text!r} is not a valid ISO 8601 time: use one such as 2026-03-02T09:00"
            ) from err
        return None
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(zone)
    except OverflowError as err:
        raise PeriodError(f"{text!r} is not a valid ISO 8601 time: use one such as 2026-03-02T09:00") from err


def parse_period(
    since: str, until: str | None, turns: Mapping[ChannelKey, Sequence[Turn]], *, now: datetime, zone: tzinfo
) -> Period:
    """Parse a period over the turns of channels.

    Amounts such as `2d` count back from `until` if it is given, else from `now`. `latest` is the newest
    message, which is included. A message id is looked up in the channels.

    Raises:
        PeriodError: `since` or `until` is neither a time nor a message, or the period ends before it starts.
    """
    end = None
    if until is not None:
        end = _latest(turns) if until.strip().lower() == "latest" else _bound(until, turns, now, zone)
    begin = _bound(since, turns, now if end is None else end.moment, zone)
    if end is not None and end.moment < begin.moment:
        first, last = (f"{moment:%Y-%m-%d %H:%M}" for moment in (begin.moment, end.moment))
        raise PeriodError(f"the period ends before it starts: from {first} to {last}")
    return Period(begin, end)


def _latest(turns: Mapping[ChannelKey, Sequence[Turn]]) -> Endpoint | None:
    """Just after the newest message; None if there is no message."""
    newest = max((turn.ts for of_channel in turns.values() for turn in of_channel), default=None)
    if newest is None or newest > datetime.max.replace(tzinfo=UTC) - timedelta(days=2):
        return None
    return Endpoint(newest + timedelta(microseconds=1))


def _bound(text: str, turns: Mapping[ChannelKey, Sequence[Turn]], now: datetime, zone: tzinfo) -> Endpoint:
    found = [(key, turn) for key, of_channel in turns.items() for turn in of_channel if turn.id == text]
    if len(found) > 1:
        names = ", ".join(str(key) for key, _ in found)
        raise PeriodError(f"message {text!r} is in several channels: use one of {names}")
    if found:
        key, turn = found[0]
        return Endpoint(turn.ts.astimezone(zone), key, turn.seq)
    moment = parse_moment(text, now, zone)
    if moment is None:
        raise PeriodError(
            f"{text!r} is neither a time nor a message id: "
            "use 2d, 5h, yesterday, 2026-03-02T09:00 or the id of a message"
        )
    return Endpoint(moment)
