from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.messages import (
    NOBODY,
    Author,
    ChannelKey,
    DeadLetter,
    Message,
    MessageError,
    channels_called,
    format_time,
    parse_message,
)
from support.building import message

POST: dict[str, Any] = {
    "channel": "general",
    "id": "m1",
    "ts": "2026-03-02T10:00:00+01:00",
    "author": "Ana",
    "text": "hello",
}
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def test_a_post_is_read_with_its_time_in_utc_and_the_default_namespace() -> None:
    assert parse_message(POST) == Message(
        op="post",
        key=ChannelKey("default", "general"),
        id="m1",
        ts=datetime(2026, 3, 2, 9, 0, tzinfo=UTC),
        author=Author("Ana", "Ana"),
        text="hello",
    )


def test_json_bytes_and_a_decoded_object_are_the_same_message() -> None:
    assert parse_message(orjson.dumps(POST)) == parse_message(POST)


def test_every_optional_field_is_kept_and_unknown_ones_are_ignored() -> None:
    fields = {
        **POST,
        "op": "edit",
        "namespace": "acme",
        "author": {"id": "u1", "name": "Ana", "bot": True, "team": 7},
        "thread": "m0",
        "reply_to": "m0",
        "permalink": "https://chat.example.com/m1",
        "reactions": [],
    }
    assert parse_message(fields, namespace="other") == Message(
        op="edit",
        key=ChannelKey("acme", "general"),
        id="m1",
        ts=datetime(2026, 3, 2, 9, 0, tzinfo=UTC),
        author=Author("u1", "Ana", bot=True),
        text="hello",
        thread="m0",
        reply_to="m0",
        permalink="https://chat.example.com/m1",
    )


def test_an_optional_field_that_is_null_is_absent() -> None:
    assert parse_message({**POST, "thread": None, "reply_to": None, "permalink": None}) == parse_message(POST)


def test_a_message_without_a_namespace_gets_its_sources_namespace() -> None:
    assert parse_message(POST, namespace="acme").key == ChannelKey("acme", "general")


def test_the_text_of_a_post_may_be_empty_but_not_missing() -> None:
    assert parse_message({**POST, "text": ""}).text == ""
    with pytest.raises(MessageError, match=r"^text is missing$"):
        parse_message({name: value for name, value in POST.items() if name != "text"})


def test_an_author_is_a_name_or_an_object() -> None:
    def author(value: object) -> Author:
        return parse_message({**POST, "author": value}).author

    assert author("Ana") == Author("Ana", "Ana", bot=False)
    assert author({"name": "Ana"}) == Author("Ana", "Ana", bot=False)
    assert author({"id": None, "name": "Ana"}) == Author("Ana", "Ana", bot=False)
    assert author({"id": "u1", "name": "Ana", "bot": True}) == Author("u1", "Ana", bot=True)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        (" Ana ", "Ana"),
        ("Ana\nBen: yes", "Ana Ben: yes"),
        ("Ana\r\n\u2028Ben", "Ana Ben"),
        ("Ana\x85\x0b\x1cBen", "Ana Ben"),
        ("Ana  Maria", "Ana Maria"),
    ],
)
def test_white_space_in_an_author_name_collapses_so_that_it_cannot_forge_a_turn(name: str, kept: str) -> None:
    assert parse_message({**POST, "author": name}).author == Author(kept, kept)


@given(name=names)
@settings(database=None)
def test_no_author_name_keeps_a_line_break_or_is_empty(name: str) -> None:
    try:
        kept = parse_message({**POST, "author": name}).author.name
    except MessageError:
        assert not name.strip() or "\0" in name
    else:
        assert kept.splitlines() == [kept]
        assert kept.split() == name.split()


def test_a_post_needs_an_author_and_an_edit_keeps_the_original_one() -> None:
    fields = {name: POST[name] for name in ("channel", "id", "ts", "text")}
    with pytest.raises(MessageError, match=r"^author is missing$"):
        parse_message(fields)
    assert parse_message({**fields, "op": "edit"}).author == NOBODY


def test_a_delete_needs_no_author_and_has_no_text() -> None:
    fields = {"op": "delete", "channel": "general", "id": "m1", "ts": "2026-03-02T09:00:00Z"}
    expected = Message(
        "delete",
        ChannelKey("default", "general"),
        "m1",
        datetime(2026, 3, 2, 9, 0, tzinfo=UTC),
        Author("", "-"),
        "",
    )
    assert parse_message(fields) == expected
    assert parse_message({**fields, "text": "gone"}) == expected
    assert parse_message({**fields, "author": "Ana"}) == replace(expected, author=Author("Ana", "Ana"))


def test_a_flush_needs_only_a_channel_and_a_time() -> None:
    fields = {"op": "flush", "channel": "general", "ts": "2026-03-02T09:00:00Z"}
    expected = Message(
        "flush",
        ChannelKey("default", "general"),
        "",
        datetime(2026, 3, 2, 9, 0, tzinfo=UTC),
        NOBODY,
        "",
    )
    assert parse_message(fields) == expected
    assert parse_message({**fields, "id": "m9", "author": "Ana", "text": "x"}) == expected
    with pytest.raises(MessageError, match=r"^ts is missing$"):
        parse_message({"op": "flush", "channel": "general"})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"op": "join"}, "op is 'join': use one of post, edit, delete, flush"),
        ({"op": None}, "op is None: use one of post, edit, delete, flush"),
        ({"op": ["post"]}, "op is ['post']: use one of post, edit, delete, flush"),
        ({"channel": None}, "channel is missing"),
        ({"channel": 7}, "channel must be a string, not int"),
        ({"channel": " "}, "channel is empty"),
        ({"namespace": ""}, "namespace is empty"),
        ({"id": ""}, "id is empty"),
        ({"id": 12}, "id must be a string, not int"),
        ({"id": "m" * 513}, "id has 513 characters: at most 512 are allowed"),
        ({"id": "\U0001f6a2" * 129}, "id takes 516 bytes as JSON: at most 512 are allowed"),
        ({"id": "\x01" * 100}, "id takes 600 bytes as JSON: at most 512 are allowed"),
        ({"id": "m\ud800"}, "id is not valid Unicode"),
        ({"author": "A" * 1_000_000}, "author name has 1,000,000 characters: at most 512 are allowed"),
        ({"channel": "c" * 513}, "channel has 513 characters: at most 512 are allowed"),
        ({"permalink": "h" * 4097}, "permalink has 4,097 characters: at most 4,096 are allowed"),
        ({"text": None}, "text is missing"),
        ({"text": {"body": "x"}}, "text must be a string, not dict"),
        ({"text": "a\0b"}, "text contains a NUL character"),
        ({"id": "m\0"}, "id contains a NUL character"),
        ({"channel": "\0"}, "channel contains a NUL character"),
        ({"thread": "\0"}, "thread contains a NUL character"),
        ({"thread": 3}, "thread must be a string, not int"),
        ({"permalink": ""}, "permalink is empty"),
        ({"author": None}, "author is missing"),
        ({"author": 7}, "author must be a string or an object, not int"),
        ({"author": ["Ana"]}, "author must be a string or an object, not list"),
        ({"author": " \n"}, "author name is empty"),
        ({"author": {"id": "u1"}}, "author name is missing"),
        ({"author": {"name": "A\0"}}, "author name contains a NUL character"),
        ({"author": {"id": 1, "name": "Ana"}}, "author id must be a string, not int"),
        ({"author": {"name": "Ana", "bot": "yes"}}, "author bot must be true or false, not str"),
        ({"ts": None}, "ts is missing"),
        ({"ts": 1772442000}, "ts must be an ISO 8601 string, not int"),
        ({"ts": ""}, "ts '' is not a valid ISO 8601 time: use one such as 2026-03-02T09:00:00Z"),
        (
            {"ts": "yesterday"},
            "ts 'yesterday' is not a valid ISO 8601 time: use one such as 2026-03-02T09:00:00Z",
        ),
        (
            {"ts": "2026-02-30T09:00:00Z"},
            "ts '2026-02-30T09:00:00Z' is not a valid ISO 8601 time: use one such as 2026-03-02T09:00:00Z",
        ),
        (
            {"ts": "2026-03-02T09:00:00"},
            "ts '2026-03-02T09:00:00' has no time zone: end it with Z or an offset like +01:00",
        ),
        ({"ts": "2026-03-02"}, "ts '2026-03-02' has no time zone: end it with Z or an offset like +01:00"),
        (
            {"ts": "0001-01-01T00:00+05:00"},
            "ts '0001-01-01T00:00+05:00' is not a valid ISO 8601 time: use one such as 2026-03-02T09:00:00Z",
        ),
        (
            {"ts": "9999-12-31T23:59-05:00"},
            "ts '9999-12-31T23:59-05:00' is not a valid ISO 8601 time: use one such as 2026-03-02T09:00:00Z",
        ),
    ],
)
def test_an_error_names_the_field_and_what_is_expected(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(MessageError) as caught:
        parse_message({**POST, **change})
    assert str(caught.value) == reason


@pytest.mark.parametrize("id_", ["m" * 512, "\U0001f6a2" * 128, "\x01" * 85])
def test_an_id_of_at_most_512_bytes_is_admitted(id_: str) -> None:
    assert parse_message({**POST, "id": id_}).id == id_


@pytest.mark.parametrize("op", ["edit", "delete"])
def test_a_message_with_a_long_id_that_an_earlier_version_admitted_can_still_be_changed(op: str) -> None:
    long = "\U0001f6a2" * 512
    assert parse_message({**POST, "op": op, "id": long}).id == long


def test_anything_but_a_json_object_is_refused() -> None:
    with pytest.raises(MessageError, match=r"^not JSON: "):
        parse_message(b'{"channel": ')
    with pytest.raises(MessageError, match=r"^not JSON: "):
        parse_message(b'{"channel": "\xff"}')
    with pytest.raises(MessageError, match=r"^a message must be a JSON object, not list$"):
        parse_message(b"[]")


@given(
    fields=st.dictionaries(
        st.sampled_from(["op", "namespace", "channel", "id", "ts", "author", "text", "thread"]),
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=5)
        | st.sampled_from(["post", "flush", "2026-03-02T09:00:00Z"])
        | st.dictionaries(st.sampled_from(["id", "name", "bot"]), st.none() | st.text(max_size=3)),
    )
)
@settings(database=None)
def test_any_object_is_a_message_in_utc_or_a_message_error(fields: dict[str, Any]) -> None:
    with contextlib.suppress(MessageError):
        parsed = parse_message(fields)
        assert parsed.ts.tzinfo is UTC
        assert parsed.author.name.strip() == parsed.author.name != ""


@given(namespace=names, channel=names)
@settings(database=None)
def test_any_channel_key_can_be_parsed_from_its_text(namespace: str, channel: str) -> None:
    key = ChannelKey(namespace, channel)
    text = str(key)
    assert ChannelKey.parse(text) == key
    assert text.count("/") == 1
    assert ":" not in text
    assert "\n" not in text


def test_the_text_of_a_channel_key_escapes_the_separators() -> None:
    assert str(ChannelKey("acme/eu", "a b:c%")) == "acme%2Feu/a b%3Ac%25"
    assert ChannelKey.parse("acme%2Feu/a b%3Ac%25") == ChannelKey("acme/eu", "a b:c%")


def test_a_key_without_a_separator_is_a_channel_of_the_default_namespace() -> None:
    assert ChannelKey.parse("general") == ChannelKey("default", "general")


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("dock", ["acme/dock"]),
        ("#dock", ["acme/#dock"]),
        ("acme/dock", ["acme/dock"]),
        ("acme/#dock", ["acme/#dock"]),
        ("crane", ["acme/#crane"]),
        ("acme/crane", ["acme/#crane"]),
        ("#pier", ["acme/pier", "lab/pier"]),
        ("lab/#pier", ["lab/pier"]),
        ("#lab/pier", ["lab/pier"]),
        ("dev/ops", ["lab/dev%2Fops"]),
        ("lab/dev%2Fops", ["lab/dev%2Fops"]),
        ("##dock", []),
        ("doc", []),
        ("lab/dock", []),
    ],
)
def test_a_channel_is_named_with_or_without_a_hash_and_the_exact_name_wins(
    name: str, called: list[str]
) -> None:
    keys = [
        *(ChannelKey("acme", channel) for channel in ("dock", "#dock", "#crane", "pier")),
        *(ChannelKey("lab", channel) for channel in ("pier", "dev/ops")),
    ]
    assert [str(key) for key in channels_called(keys, name)] == called


def test_equal_content_has_an_equal_digest_whatever_the_id() -> None:
    post = message("m1", "hello", "Ana", 3, thread="t", reply_to="r")
    same = message("m2", "hello", "Ana", 3, thread="t", reply_to="r", permalink="https://x.example")
    assert post.digest == same.digest
    elsewhere = replace(post, ts=post.ts.astimezone(timezone(timedelta(hours=1))).astimezone(UTC))
    assert elsewhere.digest == post.digest


@pytest.mark.parametrize(
    "other",
    [
        message("m1", "hello!", "Ana", 3, thread="t", reply_to="r"),
        message("m1", "hello", "Ben", 3, thread="t", reply_to="r"),
        message("m1", "hello", "Ana", 4, thread="t", reply_to="r"),
        message("m1", "hello", "Ana", 3, thread="u", reply_to="r"),
        message("m1", "hello", "Ana", 3, thread="t"),
        message("m1", "hello", "Ana", 3, thread="r", reply_to="t"),
    ],
)
def test_other_content_has_another_digest(other: Message) -> None:
    assert other.digest != message("m1", "hello", "Ana", 3, thread="t", reply_to="r").digest


@given(text=st.text(st.characters()))
@settings(database=None)
def test_a_digest_fits_64_signed_bits(text: str) -> None:
    assert -(2**63) <= message("m1", text).digest < 2**63


@pytest.mark.parametrize(
    ("ts", "text"),
    [
        (datetime(2026, 3, 2, 9, 0, tzinfo=UTC), "2026-03-02T09:00:00Z"),
        (datetime(2026, 3, 2, 9, 0, 0, 250_000, tzinfo=UTC), "2026-03-02T09:00:00.250000Z"),
        (datetime(2026, 3, 2, 1, 0, tzinfo=timezone(timedelta(hours=2))), "2026-03-01T23:00:00Z"),
    ],
)
def test_times_are_written_in_utc_with_a_z(ts: datetime, text: str) -> None:
    assert format_time(ts) == text


def test_a_dead_letter_shows_its_origin_reason_and_bytes() -> None:
    letter = DeadLetter((("file", "a.jsonl"), ("line", 3)), "text is missing", b'{"id": "\xff"}')
    assert orjson.loads(letter.to_json()) == {
        "file": "a.jsonl",
        "line": 3,
        "reason": "text is missing",
        "raw": '{"id": "\\xff"}',
    }
