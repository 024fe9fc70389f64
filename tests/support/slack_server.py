"""A small Slack: a workspace with its Web API, Socket Mode and response addresses."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from aiohttp import WSMsgType, web

from support.local_server import LocalServer, until

APP_TOKEN, BOT_TOKEN, BOT = "xapp-1-test", "xoxb-test", "U0BOT"


class SlackServer(LocalServer):
    """`limited` counts, by method, the calls that are still answered with 429; `acked` are envelopes."""

    def __init__(self) -> None:
        super().__init__()
        self.users = {
            "U1": {"id": "U1", "profile": {"display_name": "Ana"}},
            "U2": {"id": "U2", "profile": {"display_name": "", "real_name": "Ben Roth"}},
            BOT: {"id": BOT, "is_bot": True, "profile": {"display_name": "backscroll"}},
        }
        self.unlisted = {"U9": {"id": "U9", "profile": {"display_name": "Zoe"}}}
        self.names: dict[str, str] = {}
        self.messages: dict[str, dict[str, dict[str, Any]]] = {}
        self.page = 3
        self.limited: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.acked: list[str] = []
        self.answers: list[dict[str, Any]] = []
        self.sockets: list[web.WebSocketResponse] = []
        self.deaf = False  # whether nobody is told of what happens
        self._clock = itertools.count()
        self._start_time = time.time() - 3600
        self._envelopes = itertools.count(1)
        self.app.router.add_route("*", "/api/{method}", self._api)
        self.app.router.add_get("/link", self._link)
        self.app.router.add_post("/respond", self._respond)

    # What people do

    def channel(self, id_: str, name: str) -> None:
        self.names[id_] = name
        self.messages[id_] = {}

    def ts(self) -> str:
        return f"{self._start_time + next(self._clock):.6f}"

    def post(self, channel: str, user: str, text: str, **fields: Any) -> str:
        ts = self.ts()
        message = {"type": "message", "user": user, "text": text, "ts": ts, **fields}
        self.messages[channel][ts] = message
        root = fields.get("thread_ts")
        if root:
            parent = self.messages[channel][root]
            parent |= {"thread_ts": root, "latest_reply": ts, "reply_count": parent.get("reply_count", 0) + 1}
        self.event({**message, "channel": channel, "event_ts": ts, "channel_type": "channel"})
        return ts

    def edit(self, channel: str, ts: str, text: str) -> None:
        former = dict(self.messages[channel][ts])
        when = self.ts()
        self.messages[channel][ts] |= {"text": text, "edited": {"user": former["user"], "ts": when}}
        self.changed(channel, former, self.messages[channel][ts], when)

    def changed(self, channel: str, former: dict[str, Any], message: dict[str, Any], when: str) -> None:
        event = {"type": "message", "subtype": "message_changed", "hidden": True, "channel": channel}
        self.event({**event, "message": message, "previous_message": former, "ts": when, "event_ts": when})

    def delete(self, channel: str, ts: str) -> None:
        former, when = self.messages[channel].pop(ts), self.ts()
        event = {"type": "message", "subtype": "message_deleted", "hidden": True, "channel": channel}
        self.event({**event, "deleted_ts": ts, "previous_message": former, "ts": when, "event_ts": when})

    def command(self, channel: str, user: str, text: str) -> str:
        payload = {"command": "/catchup", "text": text, "channel_id": channel, "user_id": user}
        return self.envelope("slash_commands", {**payload, "response_url": f"{self.url}/respond"})

    # The connection

    def event(self, event: dict[str, Any]) -> str:
        return self.envelope("events_api", {"type": "event_callback", "event": event})

    def envelope(self, kind: str, payload: dict[str, Any]) -> str:
        id_ = f"envelope-{next(self._envelopes)}"
        if self.sockets and not self.deaf:
            body = {"envelope_id": id_, "type": kind, "payload": payload, "accepts_response_payload": False}
            with suppress(ConnectionError):  # the client was killed a moment ago
                self.run(self.sockets[-1].send_json(body))
        return id_

    def refresh(self) -> None:
        """Ask for a new connection, as Slack does every few hours."""
        (old,) = self.sockets
        self.run(old.send_json({"type": "disconnect", "reason": "refresh_requested"}))
        until(lambda: self.sockets and self.sockets != [old], "a new connection")

    async def _link(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1})
        self.sockets.append(socket)
        try:
            async for message in socket:
                if message.type == WSMsgType.TEXT:
                    self.acked.append(message.json()["envelope_id"])
        finally:
            self.sockets.remove(socket)
        return socket

    # The Web API

    async def _respond(self, request: web.Request) -> web.Response:
        self.answers.append(await request.json())
        return web.Response(text="ok")

    async def _api(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        self.calls[method] += 1
        arguments = {**request.query}
        if request.content_type == "application/json":
            arguments |= await request.json()
        else:
            arguments |= dict(await request.post())
        token = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if request.headers.get("Authorization") != f"Bearer {token}":
            return web.json_response({"ok": False, "error": "invalid_auth"})
        if self.limited[method] > 0:
            self.limited[method] -= 1
            return web.json_response(
                {"ok": False, "error": "ratelimited"}, status=429, headers={"Retry-After": "0"}
            )
        answer = getattr(self, f"_{method.replace('.', '_')}")(arguments)
        return web.json_response({"ok": True, **answer} if "error" not in answer else {"ok": False, **answer})

    def _auth_test(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"url": "https://acme.slack.com/", "user_id": BOT, "team": "acme"}

    def _apps_connections_open(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"url": f"{self.url.replace('http', 'ws')}/link"}

    def _users_list(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return self._paged("members", list(self.users.values()), arguments)

    def _users_info(self, arguments: dict[str, Any]) -> dict[str, Any]:
        found = {**self.users, **self.unlisted}.get(arguments["user"])
        return {"user": found} if found else {"error": "user_not_found"}

    def _users_conversations(self, arguments: dict[str, Any]) -> dict[str, Any]:
        channels = [{"id": id_, "name": name} for id_, name in self.names.items()]
        return self._paged("channels", channels, arguments)

    def _conversations_info(self, arguments: dict[str, Any]) -> dict[str, Any]:
        id_ = arguments["channel"]
        return (
            {"channel": {"id": id_, "name": self.names[id_]}}
            if id_ in self.names
            else {"error": "channel_not_found"}
        )

    def _conversations_history(self, arguments: dict[str, Any]) -> dict[str, Any]:
        found = [
            message
            for ts, message in sorted(self.messages[arguments["channel"]].items(), reverse=True)
            if ts >= arguments["oldest"] and message.get("thread_ts", ts) == ts
        ]
        return self._paged("messages", found, arguments)

    def _conversations_replies(self, arguments: dict[str, Any]) -> dict[str, Any]:
        root, of_channel = arguments["ts"], self.messages[arguments["channel"]]
        if root not in of_channel:
            return {"error": "thread_not_found"}
        found = [
            message
            for ts, message in sorted(of_channel.items())
            if ts == root or (message.get("thread_ts") == root and ts >= arguments["oldest"])
        ]
        return self._paged("messages", found, arguments)

    def _chat_postEphemeral(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.answers.append({"response_type": "ephemeral", **arguments})
        return {"message_ts": self.ts()}

    def _paged(self, name: str, items: list[Any], arguments: dict[str, Any]) -> dict[str, Any]:
        start = int(arguments.get("cursor") or 0)
        end = start + min(self.page, int(arguments.get("limit") or 100))
        cursor = str(end) if end < len(items) else ""
        return {name: items[start:end], "response_metadata": {"next_cursor": cursor}}
