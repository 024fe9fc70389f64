"""The JSON API over a real store: answers, live events and invalid requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from fastapi.testclient import TestClient

from backscroll.connectors.lancedb.reader import StoreReader
from backscroll.operators.history.store import StoredChannel
from backscroll.operators.messages import ChannelKey
from backscroll.web.dependencies import channel_path
from backscroll.web.library import Library
from support.building import HashingEmbedder
from support.reading import FINGERPRINT, HARBOR, LAB, MARKUP, Chat, app_over, chat_of_two_namespaces, served


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chat]:
    with chat_of_two_namespaces(tmp_path_factory.mktemp("store")) as chat:
        yield chat


@pytest.fixture(scope="module")
def client(chat: Chat) -> Iterator[TestClient]:
    with TestClient(app_over(chat.path), base_url="http://localhost") as client:
        yield client


def test_channels_are_listed_most_recent_first_with_their_size(client: TestClient) -> None:
    channels = client.get("/api/channels").json()
    assert [(one["namespace"], one["channel"], one["windows"], one["turns"]) for one in channels] == [
        ("acme", "lab/2 100%", 2, 3),
        ("acme", "harbor", 2, 6),
        ("other", "plans", 1, 1),
    ]


def test_a_channel_with_separators_in_its_name_has_a_working_url(chat: Chat) -> None:
    assert channel_path(LAB) == "acme/lab%252F2%20100%2525"
    assert channel_path(ChannelKey("..", ".a")) == "%252E%252E/.a"
    with served(chat.path) as address:  # the test client decodes an address twice
        one = _read(f"{address}/api/channels/{channel_path(LAB)}")
        cards = _read(f"{address}/api/channels/{channel_path(LAB)}/summaries")
        older = _read(f"{address}/api/channels/{channel_path(LAB)}/summaries?before=2")
    assert one["channel"] == "lab/2 100%"
    # Newest first, including windows without a summary.
    assert [(card["window"]["first_seq"], card["summary"] and card["summary"]["kind"]) for card in cards] == [
        (2, None),
        (0, "abstractive"),
    ]
    assert [card["window"]["first_seq"] for card in older] == [0]


def _read(address: str) -> Any:
    with urlopen(address, timeout=10) as answer:
        return json.load(answer)


def test_summaries_are_found_by_day(client: TestClient) -> None:
    address = f"/api/channels/{channel_path(HARBOR)}/summaries"
    assert [card["window"]["index"] for card in client.get(f"{address}?on=2026-03-02").json()] == [0]
    assert [card["window"]["index"] for card in client.get(f"{address}?on=2026-03-03").json()] == [1, 0]
    assert client.get(f"{address}?on=2026-03-01").json() == []


def test_every_passage_names_its_messages(client: TestClient) -> None:
    card = client.get(f"/api/channels/{channel_path(HARBOR)}/summaries/3").json()
    text = card["summary"]["summary"]
    shown = [(text[one["start"] : one["end"]], one["seqs"], one["earlier"]) for one in card["passages"]]
    assert shown[0] == ("The old one ", [3], False)
    assert shown[1] == ("[Ana, 2026-03-02 09:00: The pump at berth seven leaks oil since Friday.]", [0], True)
    assert shown[2] == (" is fixed, no more oil at berth seven.", [3], False)


def test_messages_are_found_by_position_and_by_id_with_their_neighbours(client: TestClient) -> None:
    address = f"/api/channels/{channel_path(HARBOR)}"
    page = client.get(f"{address}/messages?first_seq=1&limit=2").json()
    assert [(one["id"], one["author"]["name"]) for one in page] == [("h1", "Ben"), ("h2", "Cem")]
    around = client.get(f"{address}/message?id=h4&around=1").json()
    assert [one["seq"] for one in around] == [3, 4, 5]
    assert around[1]["text"] == MARKUP
    missing = client.get(f"{address}/message?id=h99")
    assert (missing.status_code, missing.json()) == (
        404,
        {"detail": "message not found in this channel"},
    )


def test_search_matches_words_within_one_channel(client: TestClient) -> None:
    hits = client.get(f"/api/channels/{channel_path(HARBOR)}/search?q=Noon+lunch+pump").json()
    assert (hits[0]["message"]["id"], hits[0]["words"]) == ("h2", ["noon", "lunch"])
    assert all(hit["message"]["id"].startswith("h") for hit in hits)


@pytest.mark.parametrize(
    ("question", "status", "line"),
    [
        ("summaries?on=yesterday", 400, "on: Input should be a valid date or datetime, input is too short"),
        ("summaries?limit=0", 400, "limit: Input should be greater than or equal to 1"),
        ("summaries/6", 404, "message 6 not found in this channel"),
        ("summaries/-1", 404, "message -1 not found in this channel"),
        ("search", 400, "q: Field required"),
    ],
)
def test_an_invalid_request_gets_a_one_line_error(
    client: TestClient, question: str, status: int, line: str
) -> None:
    answer = client.get(f"/api/channels/{channel_path(HARBOR)}/{question}")
    assert (answer.status_code, answer.json()) == (status, {"detail": line})


def test_openapi_describes_every_api_route_and_no_page(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert sorted(path.removeprefix("/api/channels/{namespace}/{channel}") for path in paths) == [
        "",
        "/api/catchup",
        "/api/channels",
        "/events",
        "/message",
        "/messages",
        "/search",
        "/summaries",
        "/summaries/{seq}",
    ]
    assert all(operation["get"]["summary"] for operation in paths.values())


def test_a_message_being_deleted_is_no_longer_shown_anywhere(tmp_path: Path) -> None:
    with chat_of_two_namespaces(tmp_path) as chat:
        app = app_over(chat.path)
        with TestClient(app, base_url="http://localhost") as client:
            base = f"/api/channels/{channel_path(HARBOR)}"
            found = client.get(f"{base}/search?q=leaks+oil").json()
            assert "h0" in [hit["message"]["id"] for hit in found]
            chat.delete(HARBOR, 0)
            pages = ("search?q=leaks+oil", "summaries", "summaries/3", "messages", "message?id=h0&around=3")
            texts = [client.get(f"{base}/{page}").text for page in pages]
            texts.append(client.get(f"/c/{channel_path(HARBOR)}/at/0").text)
    assert all("leaks" not in text for text in texts)
    assert "This message was deleted." in texts[-1]


def _events(stream: Any, count: int) -> list[tuple[str | None, dict[str, Any]]]:
    """The next events of a stream: id and data."""
    found = list[tuple[str | None, dict[str, Any]]]()
    fields = dict[str, str]()
    while len(found) < count:
        name, _, value = stream.readline().decode().rstrip("\n").partition(": ")
        if name:
            assert name not in fields, "data is one line"
            fields[name] = value
        else:
            found.append((fields.get("id"), json.loads(fields["data"])))
            fields.clear()
    return found


def test_events_report_new_erased_and_updated_summaries_and_resume_after_a_break(tmp_path: Path) -> None:
    with chat_of_two_namespaces(tmp_path) as chat, served(tmp_path) as address:
        events = f"{address}/api/channels/{channel_path(HARBOR)}/events"
        with urlopen(events, timeout=10) as stream:
            first = _events(stream, 2)
            assert [(at, card["window"]["first_seq"]) for at, card in first] == [(None, 0), ("3.0", 3)]
            window = chat.window(HARBOR, ("Ana", "The ship has sailed."))
            ((at, card),) = _events(stream, 1)
            assert (at, card["summary"]["window"]["turns"]) == ("6.0", ["h6"])
            chat.delete(HARBOR, 6)
            ((_, card),) = _events(stream, 1)
            assert (card["window"]["first_seq"], card["summary"]) == (6, None)
            chat.summarise(HARBOR, window, revision=1)
            ((at, card),) = _events(stream, 1)
            assert (at, card["summary"]["revision"]) == ("6.1", 1)
        with urlopen(f"{events}?since=3&revision=0", timeout=10) as stream:
            assert [card["window"]["first_seq"] for _, card in _events(stream, 1)] == [6]
        again = Request(f"{events}?since=0", headers={"Last-Event-ID": "3.0"})
        with urlopen(again, timeout=10) as stream:
            assert [card["window"]["first_seq"] for _, card in _events(stream, 1)] == [6]
        with urlopen(f"{events}?since=6&revision=1", timeout=10) as stream:
            chat.window(HARBOR, ("Ben", "And it is back."))
            assert [card["window"]["first_seq"] for _, card in _events(stream, 1)] == [7]


def test_events_can_carry_any_text_and_are_never_cached(tmp_path: Path) -> None:
    text = "A line separator\u2028is no end of a line, nor is\x85this."
    with chat_of_two_namespaces(tmp_path) as chat, served(tmp_path) as address:
        chat.window(HARBOR, ("Ana", "The ship has sailed."), text=text)
        events = f"{address}/api/channels/{channel_path(HARBOR)}/events?since=5"
        with urlopen(events, timeout=10) as stream:
            ((_, card),) = _events(stream, 1)
            headers = stream.headers
    assert card["summary"]["summary"] == text
    assert headers.get_all("Content-Type") == ["text/event-stream; charset=utf-8"]
    assert headers.get_all("Cache-Control") == ["no-store"]
    assert headers.get_all("X-Accel-Buffering") == ["no"]


def test_updates_that_arrive_while_the_channel_list_loads_are_not_lost(tmp_path: Path) -> None:
    with chat_of_two_namespaces(tmp_path) as chat, served(tmp_path) as address:
        with urlopen(address, timeout=10) as answer:
            found = re.search(r'sse-connect="(/events[?]state=\w+)"', answer.read().decode())
        assert found is not None
        chat.window(HARBOR, ("Ana", "The ship has sailed."))
        with urlopen(f"{address}{found.group(1)}", timeout=10) as stream:
            lines = iter(stream.readline, b"")
            assert next(line for line in lines if line.startswith(b"data:")) == b"data: channels\n"


def test_a_channel_with_too_many_vectors_for_memory_is_searched_in_the_store(chat: Chat) -> None:
    embedder = HashingEmbedder()
    hot, stored = (
        Library(
            StoreReader(chat.path, FINGERPRINT, embedder.dimensions, exact_chunks=most),
            embedder,
            "backscroll",
        ).search(HARBOR, "noon lunch pump", 20)
        for most in (None, 0)
    )
    assert [hit.turn.id for hit in hot] == ["h2", "h3"]
    assert stored == hot


def test_indexes_are_kept_up_to_a_limit_and_read_again_once_the_store_has_changed(tmp_path: Path) -> None:
    embedder, loaded = HashingEmbedder(), list[ChannelKey]()

    class Reader(StoreReader):
        def load(self, key: ChannelKey) -> StoredChannel:
            loaded.append(key)
            return super().load(key)

    with chat_of_two_namespaces(tmp_path) as chat:
        reader = Reader(tmp_path, FINGERPRINT, embedder.dimensions)
        wide = Library(reader, embedder, "backscroll")
        narrow = Library(reader, embedder, "backscroll", ceiling=1)
        for library, expected in ((wide, [HARBOR, LAB]), (narrow, [HARBOR, LAB, HARBOR, LAB])):
            loaded.clear()
            for key in (HARBOR, LAB, HARBOR, LAB, LAB):
                library.search(key, "pump", 5)
            assert loaded == expected
        chat.window(HARBOR, ("Ana", "The ship has sailed."))
        assert [library.search(HARBOR, "sailed", 5)[0].turn.id for library in (wide, narrow)] == ["h6", "h6"]
