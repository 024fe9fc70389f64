"""Code shared by the readers: time order, derived ids, channel names, dates, archives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.connectors.files.base.channel_names import ChannelNames
from backscroll.connectors.files.base.content_ids import ContentIds
from backscroll.connectors.files.base.fields import utc_time
from backscroll.connectors.files.base.format import NOTICE, FormatError
from backscroll.connectors.files.base.time_order import in_time_order
from backscroll.connectors.files.exports.whatsapp_dates import DateOrder, date_order
from backscroll.flows.settings.time_zones import time_zone
from backscroll.operators.messages import MessageError, Received, format_time
from support.golden import GOLDEN, packed, read, values

BEGIN = datetime(2026, 3, 2, tzinfo=UTC)


def received(number: int, seconds: int | None) -> Received:
    origin = (("file", "a"), ("entry", str(number)))
    if seconds is None:
        return Received(MessageError(f"damage {number}"), origin, b"\xff raw")
    return Received({"ts": format_time(BEGIN + timedelta(seconds=seconds)), "id": str(number)}, origin)


@settings(database=None, deadline=None, max_examples=60)
@given(times=st.lists(st.none() | st.integers(0, 20)))
def test_messages_are_sorted_by_time_and_errors_stay_behind_their_predecessor(
    times: list[int | None],
) -> None:
    last, keys = -1, []
    for seconds in times:
        last = last if seconds is None else seconds
        keys.append(last)
    items = list(in_time_order(received(number, seconds) for number, seconds in enumerate(times)))
    order = sorted(range(len(times)), key=lambda number: keys[number])
    assert [item.origin[1][1] for item in items if isinstance(item, Received)] == [str(n) for n in order]
    for item, number in zip(items, order, strict=True):
        before = received(number, times[number])
        assert isinstance(item, Received)
        assert (item.raw, item.origin, str(item.value)) == (before.raw, before.origin, str(before.value))


def test_skipped_entries_are_yielded_at_once() -> None:
    items = in_time_order(iter([received(1, 5), NOTICE, received(2, 3)]))
    assert next(items) is NOTICE
    assert [item.origin[1][1] for item in items if isinstance(item, Received)] == ["2", "1"]


def test_a_derived_id_is_the_same_in_a_later_export() -> None:
    said = [("t1", "ana", "hi"), ("t1", "ana", "hi"), ("t1", "ben", "hi"), ("t2", "ana", "hi")]
    first, second = ContentIds(), ContentIds()
    ids = [first.make(*one) for one in said]
    assert len(set(ids)) == 4
    assert ids[1] == f"{ids[0]}#2"
    assert [second.make(*one) for one in said[2:]] == ids[2:]


def test_conversations_with_the_same_name_stay_separate() -> None:
    names = ChannelNames()
    assert [
        names.name(*one) for one in (("1", "Ben"), ("2", "Ben"), ("1", "Benno"), ("3", "", "c"), ("4",))
    ] == [*("Ben", "Ben (2)", "Ben", "c", "4")]


@pytest.mark.parametrize("order", ["dmy", "mdy", "ymd"])
@given(start=st.dates(datetime(2010, 1, 1).date(), datetime(2060, 1, 1).date()), days=st.integers(31, 90))  # noqa: DTZ001
@settings(database=None, deadline=None, max_examples=40)
def test_a_month_of_dates_reveals_their_order(order: DateOrder, start: datetime, days: int) -> None:
    dates = [start + timedelta(days=day) for day in range(days)]
    written = {
        "dmy": [(day.day, day.month, day.year % 100) for day in dates],
        "mdy": [(day.month, day.day, day.year % 100) for day in dates],
        "ymd": [(day.year % 100, day.month, day.day) for day in dates],
    }[order]
    assert date_order(written) == order


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1772438460.000200", "2026-03-02T08:01:00.000200Z"),
        (1772438460, "2026-03-02T08:01:00Z"),
        (1772438460.25, "2026-03-02T08:01:00.250000Z"),
    ],
)
def test_times_keep_fractions_of_a_second(value: object, expected: str) -> None:
    assert utc_time(value, "ts") == expected


@pytest.mark.parametrize(
    "value", [None, True, "soon", "1e9", 10**30, float("nan"), float("inf"), [1], "9" * 5000]
)
def test_the_error_for_an_invalid_time_names_the_field(value: object) -> None:
    with pytest.raises(MessageError, match=r"^ts "):
        utc_time(value, "ts")


@pytest.mark.parametrize(
    ("name", "hours"), [("Europe/Berlin", 1), ("UTC", 0), ("+02:00", 2), ("-0330", -3.5), ("UTC+9", 9)]
)
def test_a_time_zone_is_a_name_or_an_offset(name: str, hours: float) -> None:
    assert BEGIN.astimezone(time_zone(name)).utcoffset() == timedelta(hours=hours)


@pytest.mark.parametrize("name", ["", "Nowhere/Else", "../../etc/passwd", "+99:00", "Europe", "\0"])
def test_an_unknown_time_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^no such time zone: use a name like Europe/Berlin, or an offset"):
        time_zone(name)


def test_a_damaged_member_does_not_affect_other_members(tmp_path: Path) -> None:
    archive = packed(GOLDEN / "slack", tmp_path / "slack.zip")
    whole = values(read(archive)[0])
    content = bytearray(archive.read_bytes())
    at = content.index(b"ops/2026-03-02.json") + len(b"ops/2026-03-02.json") + 40
    content[at : at + 8] = b"\xff" * 8
    archive.write_bytes(content)
    items, _ = read(archive)
    assert values(items) == [value for value in whole if value["channel"] != "ops"]
    [letter] = [item for item in items if isinstance(item.value, MessageError)]
    assert letter.origin[1] == ("entry", "ops/2026-03-02.json 1")


def test_a_truncated_tar_is_read_up_to_the_cut(tmp_path: Path) -> None:
    folder = tmp_path / "realm"
    folder.mkdir()
    for path in (GOLDEN / "zulip").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "a-last-one.bin").write_bytes(bytes(range(256)) * 200)  # the tar is written from its end
    archive = packed(folder, tmp_path / "export.tar.gz")
    whole = values(read(archive)[0])
    archive.write_bytes(archive.read_bytes()[:-60])
    items, _ = read(archive, "zulip")
    assert values(items) == whole
    assert [str(item.value)[:22] for item in items if isinstance(item.value, MessageError)] == [
        "the archive is damaged"
    ]


def test_an_archive_without_an_export_is_refused_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "photo.jpg").write_bytes(b"\xff\xd8")
    archive = packed(tmp_path / "in", tmp_path / "photos.zip")
    with pytest.raises(FormatError, match=r"photos\.zip: format not recognised"):
        read(archive)
    for format in ("slack", "zulip", "mattermost", "whatsapp"):
        try:
            assert read(archive, format)[0] == []
        except FormatError as err:
            assert "\n" not in str(err)  # noqa: PT017
