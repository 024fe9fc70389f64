"""A small Matrix homeserver: rooms with one timeline each, /sync, /messages, /send."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from aiohttp import web

from support.local_server import LocalServer

TOKEN, BOT = "syt-test", "@backscroll:example.org"
PREFIX = "/_matrix/client/v3"


class MatrixServer(LocalServer):
    """Tokens are counts of events.

    By path, `limited` counts the calls that are still answered with 429, `broken` those with 502.
    """

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, dict[str, Any]]] = []  # of all rooms, in order
        self.state: dict[str, list[dict[str, Any]]] = {}
        self.most = 10  # of a timeline
        self.page = 4
        self.limited: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._ids = itertools.count(1)
        self.apart = 1.0  # seconds between events
        self.began = time.time() - 60
        self._news: asyncio.Event | None = None
        self._told = set[str]()  # rooms whose state was sent
        self.app.router.add_get(f"{PREFIX}/account/whoami", self._whoami)
        self.app.router.add_get(f"{PREFIX}/sync", self._sync)
        self.app.router.add_get(PREFIX + "/rooms/{room}/messages", self._messages)
        self.app.router.add_put(PREFIX + "/rooms/{room}/send/{kind}/{transaction}", self._send)

    # What people do

    def room(self, id_: str, name: str, **people: str) -> None:
        members = [
            self._state(
                "m.room.member", f"@{person}:example.org", {"membership": "join", "displayname": shown}
            )
            for person, shown in people.items()
        ]
        bot = self._state("m.room.member", BOT, {"membership": "join", "displayname": "backscroll"})
        self.state[id_] = [self._state("m.room.name", "", {"name": name}), bot, *members]

    def say(self, room: str, person: str, body: str, **content: Any) -> str:
        return self.add(room, person, "m.room.message", {"msgtype": "m.text", "body": body, **content})

    def edit(self, room: str, person: str, event: str, body: str) -> str:
        new = {"m.new_content": {"msgtype": "m.text", "body": body}}
        relation = {"m.relates_to": {"rel_type": "m.replace", "event_id": event}}
        return self.say(room, person, f"* {body}", **new, **relation)

    def redact(self, room: str, person: str, event: str) -> str:
        for _, former in self.events:
            if former["event_id"] == event:
                former["content"] = {}
                former["unsigned"] = {"redacted_because": {"type": "m.room.redaction"}}
        return self.add(room, person, "m.room.redaction", {"redacts": event}, redacts=event)

    def add(self, room: str, person: str, kind: str, content: dict[str, Any], **fields: Any) -> str:
        number = next(self._ids)
        sender = person if person.startswith("@") else f"@{person}:example.org"
        event = {"type": kind, "event_id": f"${number}", "sender": sender, "content": content, **fields}
        event["origin_server_ts"] = int((self.began + number * self.apart) * 1000)
        self.events.append((room, event))
        if self._news is not None:
            self.loop.call_soon_threadsafe(self._news.set)
        return f"${number}"

    @staticmethod
    def _state(kind: str, key: str, content: dict[str, Any]) -> dict[str, Any]:
        event = {"type": kind, "state_key": key, "sender": key or BOT, "content": content}
        return {**event, "event_id": f"$state-{kind}-{key}", "origin_server_ts": 1}

    # The client-server API

    def _refusal(self, request: web.Request, name: str) -> web.Response | None:
        self.calls[name] += 1
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"errcode": "M_UNKNOWN_TOKEN", "error": "unknown"}, status=401)
        if self.broken[name] > 0:
            self.broken[name] -= 1
            return web.Response(status=502, text="<html>bad gateway</html>", content_type="text/html")
        if self.limited[name] > 0:
            self.limited[name] -= 1
            return web.json_response(
                {"errcode": "M_LIMIT_EXCEEDED", "error": "slow", "retry_after_ms": 20}, status=429
            )
        return None

    async def _whoami(self, request: web.Request) -> web.Response:
        return self._refusal(request, "whoami") or web.json_response({"user_id": BOT})

    async def _sync(self, request: web.Request) -> web.Response:
        if refusal := self._refusal(request, "sync"):
            return refusal
        since = int(request.query.get("since", "s0")[1:])
        wait = int(request.query.get("timeout", "0")) / 1000
        if since == len(self.events) and wait:
            self._news = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), wait)
        end = len(self.events)
        full = "since" not in request.query or request.query.get("full_state") == "true"
        rooms = {}
        for room, state in self.state.items():
            is_met = full or room not in self._told
            self._told.add(room)
            places = [place for place in range(since, end) if self.events[place][0] == room]
            shown = places[-self.most :]
            if shown or full:
                rooms[room] = {
                    "timeline": {
                        "events": [self.events[place][1] for place in shown],
                        "limited": len(places) > len(shown),
                        "prev_batch": f"s{shown[0] if shown else end}",
                    },
                    "state": {"events": state if is_met else []},
                    "ephemeral": {"events": []},
                    "account_data": {"events": []},
                }
        return web.json_response(
            {"next_batch": f"s{end}", "rooms": {"join": rooms, "invite": {}, "leave": {}}}
        )

    async def _messages(self, request: web.Request) -> web.Response:
        if refusal := self._refusal(request, "messages"):
            return refusal
        room, start = request.match_info["room"], int(request.query["from"][1:])
        stop = int(request.query.get("to", "s0")[1:])
        places = [place for place in range(stop, start) if self.events[place][0] == room][::-1]
        shown = places[: self.page]
        answer = {"start": f"s{start}", "chunk": [self.events[place][1] for place in shown], "state": []}
        if len(places) > len(shown):
            answer["end"] = f"s{shown[-1]}"
        return web.json_response(answer)

    async def _send(self, request: web.Request) -> web.Response:
        if refusal := self._refusal(request, "send"):
            return refusal
        room, kind = request.match_info["room"], request.match_info["kind"]
        return web.json_response({"event_id": self.add(room, BOT, kind, await request.json())})
