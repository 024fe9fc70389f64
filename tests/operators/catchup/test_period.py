from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.operators.catchup.period import PeriodError, parse_moment, parse_period
from backscroll.operators.messages import ChannelKey, Turn
from support.chats import KEY, START, chat

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)  # half an hour after the clocks of Berlin went ahead
BERLIN = ZoneInfo("Europe/Berlin")
OTHER = ChannelKey("default", "random")
TURNS = chat(*(f"Ana: line {number}" for number in range(8)))


def held(since: str, until: str | None = None, turns: list[Turn] = TURNS) -> list[str]:
    found = parse_period(since, until, {KEY: turns}, now=NOW, zone=UTC)
    return [turn.id for turn in turns if found.holds(KEY, turn)]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2d", "2026-03-27T02:30:00+01:00"),
        ("90m", "2026-03-29T01:00:00+01:00"),
        ("1W", "2026-03-22T02:30:00+01:00"),
        ("today", "2026-03-29T00:00:00+01:00"),
        ("yesterday", "2026-03-28T00:00:00+01:00"),
        ("now", "2026-03-29T03:30:00+02:00"),
        ("2026-03-02", "2026-03-02T00:00:00+01:00"),
        ("2026-03-02T09:15", "2026-03-02T09:15:00+01:00"),
        ("2026-03-02T09:15Z", "2026-03-02T10:15:00+01:00"),
    ],
)
def test_times_are_in_the_time_zone_of_the_user(text: str, moment: str) -> None:
    found = parse_moment(text, NOW, BERLIN)
    assert found is not None
    assert found.isoformat() == moment


def test_a_start_time_is_included_and_an_end_time_is_not() -> None:
    assert held("2026-03-02T09:10", "2026-03-02T09:25") == ["m2", "m3", "m4"]


def test_a_start_message_is_excluded_and_an_end_message_is_included() -> None:
    assert held("m2") == ["m3", "m4", "m5", "m6", "m7"]
    assert held("m2", "m5") == ["m3", "m4", "m5"]
    assert held("m7") == []


def test_latest_includes_the_newest_message_and_times_ago_count_from_it() -> None:
    assert held("10m", "latest") == ["m6", "m7"]  # ten minutes before just after m7


def test_a_message_id_limits_other_channels_by_its_time() -> None:
    other = chat("Ben: before", "Ben: after", minutes=12, key=OTHER)
    other = [turn.__class__(**{**_fields(turn), "id": f"x{turn.seq}"}) for turn in other]
    found = parse_period("m1", None, {KEY: TURNS, OTHER: other}, now=NOW, zone=UTC)
    assert [turn.id for turn in other if found.holds(OTHER, turn)] == ["x1"]


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        ("m99", None, "'m99' is neither a time nor a message id"),
        ("2026-13-02", None, "'2026-13-02' is not a valid ISO 8601 time"),
        ("999999w", None, "'999999w' is too long ago"),
        ("m5", "m1", "the period ends before it starts: from 2026-03-02 09:25 to 2026-03-02 09:05"),
    ],
)
def test_an_invalid_period_gets_a_clear_error(since: str, until: str | None, message: str) -> None:
    with pytest.raises(PeriodError, match=message):
        held(since, until)


def test_a_message_id_in_two_channels_is_refused_and_both_are_named() -> None:
    with pytest.raises(PeriodError, match="several channels: use one of default/ops, default/random"):
        parse_period("m0", None, {KEY: TURNS, OTHER: chat("Ben: hi", key=OTHER)}, now=NOW, zone=UTC)


@given(st.integers(-5, 50), st.integers(-5, 50))
def test_adjacent_periods_contain_each_turn_once(first: int, middle: int) -> None:
    begin, end = sorted((first, middle))
    since, until = ((START + timedelta(minutes=at)).isoformat() for at in (begin, end))
    assert held(since, until) + held(until) == held(since)
    assert held(since) == [turn.id for turn in TURNS if turn.ts >= START + timedelta(minutes=begin)]


@given(st.integers(0, 7), st.integers(0, 7))
def test_a_period_between_messages_contains_exactly_those_between(first: int, last: int) -> None:
    begin, end = sorted((first, last))
    assert held(f"m{begin}", f"m{end}") == [f"m{seq}" for seq in range(begin + 1, end + 1)]
    assert held(f"m{begin}", f"m{end}") + held(f"m{end}") == held(f"m{begin}")


@given(st.text(max_size=30))
def test_any_text_gives_an_aware_moment_none_or_a_period_error(text: str) -> None:
    try:
        found = parse_moment(text, NOW, BERLIN)
    except PeriodError:
        return
    assert found is None or found.tzinfo is not None


def _fields(turn: Turn) -> dict[str, object]:
    return {name: getattr(turn, name) for name in turn.__slots__}
