"""Catch-ups over a real store: their content, their links, and the channels they read."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from fastapi.testclient import TestClient

from backscroll.operators.catchup.digest import ChannelDigest
from backscroll.web.app import create_app
from backscroll.web.catchup import CatchUp
from backscroll.web.dependencies import channel_path
from support.reading import HARBOR, LAB, MARKUP, SECRET, Chat, app_over, empty_chat, made_of, served

ALL = {"since": "2026-03-01", "me": "Cem"}


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chat]:
    with empty_chat(tmp_path_factory.mktemp("store")) as chat:
        chat.window(
            HARBOR,
            ("Ana", "We decided to keep the old valve at berth seven."),
            ("Ben", "Cem, can you order the oil for the pump by Friday?"),
            ("Eve", f"We decided to print {MARKUP}"),
            ("Cem", "I will call Oslo tomorrow about the missing invoice."),
        )
        chat.window(HARBOR, ("Ana", "Who has the key of the boat house?"), day=1)
        chat.window(LAB, ("Dana", "We agreed. The laser stays where it is."), ("Finn", "Great news."))
        chat.window(SECRET, ("Gus", "Cem, we decided to buy the harbor in May, tell nobody."))
        yield chat


@pytest.fixture(scope="module")
def client(chat: Chat) -> Iterator[TestClient]:
    with TestClient(app_over(chat.path), base_url="http://localhost") as client:
        yield client


def asked(client: TestClient, **query: object) -> dict[str, Any]:
    answer = client.get("/api/catchup", params={**ALL, **query})
    assert answer.status_code == 200, answer.text
    fields: dict[str, Any] = answer.json()
    return fields


def ids(items: Sequence[dict[str, Any]]) -> list[str]:
    return [item["messages"][0]["id"] for item in items]


def test_items_for_the_user_come_first_and_every_line_names_its_messages(client: TestClient) -> None:
    fields = asked(client, channel="acme/harbor")
    (harbor,) = fields["channels"]
    assert (fields["me"], fields["messages"], fields["time_zone"]) == ("Cem", 5, "UTC")
    assert (harbor["advice"], ids(harbor["for_me"])) == ("read", ["h1", "h3"])
    assert (harbor["for_me"][0]["owner"], harbor["for_me"][0]["due"]["date"]) == ("Cem", "2026-03-06")
    assert ids(harbor["decisions"]) == ["h0", "h2"]
    assert (ids(harbor["questions"]), harbor["questions"][0]["messages"][0]["seq"]) == (["h4"], 4)
    assert harbor["windows"] == {"reused": 2, "provisional": 0}


def test_all_channels_are_listed_busiest_first_and_quiet_ones_are_named(client: TestClient) -> None:
    fields = asked(client, until="latest")
    assert [one["channel"] for one in fields["channels"]] == ["harbor", "lab/2 100%", "plans"]
    later = asked(client, since="2026-03-03")
    assert ([one["channel"] for one in later["channels"]], later["messages"]) == (["harbor"], 1)
    assert later["quiet"] == ["acme/lab%2F2 100%25", "other/plans"]
    assert later["channels"][0]["quoted"]["id"] == "h4"
    none = asked(client, since="today")
    assert (none["channels"], none["messages"], len(none["quiet"])) == ([], 0, 3)


def test_a_period_can_start_after_the_last_message_read(client: TestClient) -> None:
    (harbor,) = asked(client, since="h2", channel="harbor")["channels"]
    assert (harbor["first"]["id"], harbor["last"]["id"], harbor["messages"]) == ("h3", "h4", 2)


@pytest.mark.parametrize(
    ("query", "status", "line"),
    [
        ({"since": "nope"}, 400, "'nope' is neither a time nor a message id: use 2d, 5h, yesterday,"),
        ({"since": "2026-03-05", "until": "2026-03-04"}, 400, "the period ends before it starts"),
        ({"since": "2026-13-41"}, 400, "is not a valid ISO 8601 time"),
        ({"channel": "nowhere"}, 404, "channel not found"),
        ({"max_tokens": 5}, 400, "max_tokens: Input should be greater than or equal to 32"),
    ],
)
def test_an_invalid_period_or_channel_gets_a_one_line_error(
    client: TestClient, query: dict[str, object], status: int, line: str
) -> None:
    answer = client.get("/api/catchup", params={**ALL, **query})
    assert (answer.status_code, line in answer.json()["detail"]) == (status, True), answer.text
    page = client.get("/catchup", params={key: str(value) for key, value in {**ALL, **query}.items()})
    assert page.status_code == (200 if "max_tokens" in query else status)


def test_the_page_links_every_line_to_its_message_and_escapes_markup(client: TestClient) -> None:
    page = client.get("/catchup", params={**ALL, "channel": "acme/harbor"}).text
    assert page.index("For Cem") < page.index("Decisions") < page.index("Open questions")
    assert f'href="/c/{channel_path(HARBOR)}/at/1"' in page
    assert "&lt;script&gt;document.title" in page
    assert "<script>document" not in page
    assert "<img src=x" not in page


def test_your_name_is_remembered_until_you_clear_it(chat: Chat) -> None:
    with TestClient(app_over(chat.path), base_url="http://localhost") as client:
        named = client.get("/catchup", params={"since": "2026-03-01", "me": "Cem"})
        assert "HttpOnly" in named.headers["Set-Cookie"]
        assert "For Cem" in client.get("/catchup?since=2026-03-01").text
        client.get("/catchup?since=2026-03-01&me=")
        assert "For Cem" not in client.get("/catchup?since=2026-03-01").text
        client.get("/catchup", params={"since": "2026-03-01", "me": "佐藤; ü"})
        assert 'value="佐藤; ü"' in client.get("/catchup?since=2026-03-01").text


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [("dock", 200, "A."), ("#dock", 200, "B."), ("acme/#dock", 200, "B."), ("#harbor", 200, "C.")],
)
def test_a_channel_is_named_with_or_without_a_hash(tmp_path: Path, name: str, status: int, said: str) -> None:
    with empty_chat(tmp_path) as chat:
        for channel, words in (("dock", "A."), ("#dock", "B."), ("harbor", "C.")):
            chat.window(HARBOR._replace(channel=channel), ("Ana", words))
        with TestClient(app_over(chat.path), base_url="http://localhost") as client:
            answer = client.get("/api/catchup", params={**ALL, "channel": name})
            assert answer.status_code == status
            assert [one["quoted"]["text"] for one in answer.json()["channels"]] == [said]
            path = name if "/" in name else f"acme/{name}"
            found = client.get(f"/api/channels/{path.replace('#', '%23')}/messages")
            assert [one["text"] for one in found.json()] == [said]


def test_every_page_shows_times_of_the_zone_with_a_year_that_is_not_the_current_one(
    chat: Chat, client: TestClient
) -> None:
    app = app_over(chat.path, tz="Europe/Oslo", now=datetime(2027, 1, 2, tzinfo=UTC))
    with TestClient(app, base_url="http://localhost") as oslo:
        both = (client, "UTC", "09:03", "2 Mar 09:03"), (oslo, "Europe/Oslo", "10:03", "2 Mar 2026 10:03")
        for one, zone, clock, short in both:
            channel = f"/c/{channel_path(HARBOR)}"
            assert f'{clock}</time> <span class="zone">{zone}</span>' in one.get(channel).text
            assert f'<span class="clock">{clock}</span>' in one.get(channel).text
            assert f">{clock}</time>" in one.get(f"{channel}/w/0").text
            assert f"Mon 2 Mar 2026, {clock} {zone}" in one.get(f"{channel}/search?q=invoice").text
            missed = one.get("/catchup?channel=acme/harbor&since=2026-03-01").text
            assert f">{short}</time>" in missed
        assert "last Tue 3 Mar 2026, 10:04 Europe/Oslo" in oslo.get("/").text.replace(
            '<time datetime="2026-03-03T09:04:00+00:00">', ""
        )


def test_a_day_is_one_of_the_pages_zone(tmp_path: Path) -> None:
    with empty_chat(tmp_path) as chat:
        chat.window(HARBOR, ("Ana", "It leaks."))  # 9:00 UTC on 2 March
        address = f"/c/{channel_path(HARBOR)}?on="
        for tz, first in ((None, "2026-03-02"), ("+15:00", "2026-03-03"), ("-10:00", "2026-03-01")):
            with TestClient(app_over(chat.path, tz=tz), base_url="http://localhost") as client:
                assert "It leaks." in client.get(address + first).text
                before = str(date.fromisoformat(first) - timedelta(days=1))
                assert "It leaks." not in client.get(address + before).text


def test_a_channel_name_in_two_namespaces_must_be_qualified(tmp_path: Path) -> None:
    with empty_chat(tmp_path) as chat:
        chat.window(HARBOR, ("Ana", "Hello."))
        chat.window(SECRET._replace(channel="harbor"), ("Gus", "Hello."))
        with TestClient(app_over(chat.path), base_url="http://localhost") as client:
            answer = client.get("/api/catchup", params={**ALL, "channel": "harbor"})
            assert (answer.status_code, answer.json()["detail"]) == (
                400,
                "channel 'harbor' is in several namespaces: use one of acme/harbor, other/harbor",
            )
            assert client.get("/api/catchup", params={**ALL, "channel": "other/harbor"}).status_code == 200


class Counted:
    """Makes empty digests, counts its calls, and waits for `open`."""

    def __init__(self) -> None:
        self.made = 0
        self.begun = threading.Event()
        self.open = threading.Event()
        self.open.set()

    def __call__(self, *_: object, **__: object) -> list[ChannelDigest]:
        self.made += 1
        self.begun.set()
        assert self.open.wait(10)
        return []


def test_a_digest_is_cached_until_the_store_or_the_request_changes(tmp_path: Path) -> None:
    with empty_chat(tmp_path) as chat:
        chat.window(HARBOR, ("Ana", "We decided to keep it."))
        digest, (library, _) = Counted(), made_of(chat.path)
        catch_up = CatchUp(library, digest, UTC, "UTC")
        entries = library.store.channels(None)
        for _ in range(2):
            catch_up.missed(entries, since="2026-03-01")
            catch_up.missed(entries, since="2026-03-01", me="Cem")
        assert digest.made == 2
        chat.delete(HARBOR, 0)
        catch_up.missed(entries, since="2026-03-01")
        assert digest.made == 3


def test_too_many_catch_ups_at_once_get_a_try_again_error(tmp_path: Path) -> None:
    with empty_chat(tmp_path) as chat:
        chat.window(HARBOR, ("Ana", "We decided to keep it."))
        digest, (library, _) = Counted(), made_of(chat.path)
        digest.open.clear()
        catch_up = CatchUp(library, digest, UTC, "UTC", at_once=1, patience=0.01)
        with TestClient(create_app(library, None, catch_up), base_url="http://localhost") as client:
            entries = library.store.channels(None)
            other = threading.Thread(target=catch_up.missed, args=(entries,), kwargs={"since": "2026-03-01"})
            other.start()
            try:
                assert digest.begun.wait(10)
                answer = client.get("/api/catchup?since=2026-03-01")
            finally:
                digest.open.set()
                other.join(10)
    assert (answer.status_code, "try again shortly" in answer.json()["detail"]) == (503, True)


def test_messages_being_deleted_are_left_out_of_catch_ups(tmp_path: Path) -> None:
    with empty_chat(tmp_path) as chat:
        chat.window(HARBOR, ("Ana", "We decided to sell the crane."), ("Ben", "Where is the crane driver?"))
        with TestClient(app_over(chat.path), base_url="http://localhost") as client:
            assert "sell the crane" in client.get("/api/catchup", params=ALL).text
            chat.delete(HARBOR, 0)
            after = asked(client)
    assert "sell" not in str(after)
    assert after["channels"][0]["left_out"]["deleted"] == 1


def test_many_users_can_catch_up_on_the_same_channel_at_once(chat: Chat) -> None:
    with served(chat.path) as address, ThreadPoolExecutor(8) as readers:

        def read(number: int) -> list[str]:
            asking = f"{address}/api/catchup?since=2026-03-01&me=Cem&max_tokens={400 + number}"
            with urlopen(asking, timeout=30) as answer:
                fields = json.load(answer)
            return [one["id"] for item in fields["channels"][0]["for_me"] for one in item["messages"]]

        assert list(readers.map(read, range(16))) == [["h1", "h3"]] * 16
