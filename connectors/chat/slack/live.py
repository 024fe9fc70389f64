"""Live Slack: reads events over Socket Mode, and missed messages from the channels' history.

An event is written to disk before its envelope is acknowledged. Events that were not acknowledged, or
were sent while nobody listened, are found by reading the history again, at the start and after each
reconnect.
https://docs.slack.dev/apis/events-api/using-socket-mode
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

import aiohttp
import orjson
from pydantic import SecretStr
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from backscroll.connectors.chat.inbox import Inbox
from backscroll.connectors.chat.listener import ChatRequest, ChatResponder, Listener, OptOut
from backscroll.connectors.chat.slack.answers import CHARACTERS, send_answer
from backscroll.connectors.chat.slack.events import arrival, raw_text
from backscroll.connectors.chat.slack.messages import slack_message
from backscroll.connectors.chat.slack.web import SlackWeb, api_error, refused
from backscroll.connectors.files.base.fields import object_in, text_in, utc_time
from backscroll.connectors.files.base.format import DELETED, Skipped
from backscroll.operators.messages import MessageError, format_time

__all__ = ["SlackLive"]

_LOG = logging.getLogger(__name__)
_ALIVE_SECONDS = 10.0
_AFTER_A_START, _AFTER_A_GAP = timedelta(days=1), timedelta(minutes=10)  # how far back to read again
_THREADS = timedelta(days=7)  # older messages are not checked for new replies


@dataclass(frozen=True, slots=True)
class SlackLive:
    """A Slack app to listen with; it reads the channels that the app was invited to.

    Args:
        app_token: the `xapp-...` token, for the Socket Mode connection.
        bot_token: the `xoxb-...` token, for the Web API.
        backfill: how much history to read when a channel is first seen.
        opt_out: which messages must not be stored.
        answer: answers the command `/catchup`; None to ignore it.
        api_url: the URL of the Web API.
        ping_seconds: seconds between pings of the connection.
    """

    app_token: SecretStr
    bot_token: SecretStr
    backfill: timedelta
    opt_out: OptOut
    answer: ChatResponder | None = None
    api_url: str = "https://slack.com/api/"
    ping_seconds: float = 5.0

    async def listen(self, inbox: Inbox, listener: Listener) -> None:
        """Fill the inbox until cancelled.

        Raises:
            ChatError: a token is rejected, or a scope is missing.
        """
        logging.getLogger("slack_sdk").setLevel(logging.CRITICAL)  # we log these errors ourselves
        await _SlackSession(self, inbox, listener).run()


class _SlackSession:
    """One run: a connection that stores arrivals, and a worker that processes them in order."""

    def __init__(self, slack: SlackLive, inbox: Inbox, listener: Listener) -> None:
        self._slack = slack
        self._web = SlackWeb(slack.bot_token.get_secret_value(), slack.api_url)
        self._inbox = inbox
        self._listener = listener
        self._client: Any = None
        self._next_gap = _AFTER_A_START
        self._gap: timedelta | None = None  # how far back to read again, if needed
        self._wake = asyncio.Event()
        self._answers = set[asyncio.Task[None]]()
        self._noted = 0.0

    async def run(self) -> None:
        """Connect, and process events until cancelled."""
        await self._going_on(lambda: self._web.introduce(self._slack.app_token.get_secret_value()))
        async with self._connection():
            while True:
                await self._going_on(self._work)

    async def _going_on(self, step: Callable[[], Awaitable[None]]) -> None:
        """Run a step, and retry it until it succeeds.

        Raises:
            ChatError: retrying would not help.
        """
        pause = 1.0
        while True:
            try:
                await step()
            except SlackApiError as err:
                final = refused(err)
                if final is not None:
                    raise final from None
                why = api_error(err)
            except (aiohttp.ClientError, TimeoutError, OSError) as err:
                why = type(err).__name__
            else:
                return
            _LOG.warning("slack: request failed (%s): retrying", why)
            self._listener.is_current = False
            await asyncio.sleep(pause)
            pause = min(pause * 2, 60.0)

    # The connection

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[None]:
        client = self._client = SocketModeClient(
            self._slack.app_token.get_secret_value(),
            web_client=self._web.client,
            ping_interval=self._slack.ping_seconds,
        )
        client.message_listeners.append(self._on_message)
        client.socket_mode_request_listeners.append(self._on_envelope)
        try:
            await client.connect()  # type: ignore[no-untyped-call]
            yield
        finally:
            for task in self._answers:
                task.cancel()
            await client.close()  # type: ignore[no-untyped-call]

    async def _on_message(self, client: Any, message: dict[str, Any], raw: str | None = None) -> None:
        del client, raw
        if message.get("type") == "hello":
            self._listener.connected(True)
            self._listener.is_current = False  # events may have been missed while disconnected
            self._gap, self._next_gap = self._gap or self._next_gap, _AFTER_A_GAP
            self._wake.set()

    async def _on_envelope(self, client: Any, envelope: SocketModeRequest) -> None:
        """Store an event, then acknowledge it; Slack resends an event that is not acknowledged."""
        payload = envelope.payload
        if envelope.type == "events_api":
            found = arrival(object_in(payload, "event"), self._slack.opt_out)
            if found is not None:
                self._inbox.arrive(found)
                self._listener.is_current = False
                self._wake.set()
        elif envelope.type == "slash_commands" and self._slack.answer is not None:
            task = asyncio.create_task(self._reply(payload, self._slack.answer))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)
        await client.send_socket_mode_response(SocketModeResponse(envelope_id=envelope.envelope_id))

    # The worker

    async def _work(self) -> None:
        """Read missed messages; else process an arrival; else wait for one."""
        if self._gap is not None:
            gap, self._gap = self._gap, None
            try:
                await self._read_again(gap)
            except BaseException:
                self._gap = gap
                raise
            return
        waiting = self._inbox.next_arrival()
        if waiting is not None:
            await self._take(waiting[0], orjson.loads(waiting[1]))
        else:
            self._listener.is_current = self._listener.answering is not None
            self._wake.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _ALIVE_SECONDS)
            if not await self._client.is_connected():
                self._listener.connected(False)
        self._note_alive()

    def _note_alive(self) -> None:
        """Note the time up to which no event has been missed."""
        now = time.monotonic()
        if (
            self._listener.answering is not None
            and self._gap is None
            and now - self._noted > _ALIVE_SECONDS / 2
        ):
            self._noted = now
            self._inbox.note("alive", f"{time.time():.6f}")

    async def _take(self, number: int, found: dict[str, Any]) -> None:
        """Pass on an arrival, in one transaction with its removal."""
        kind, channel = found["kind"], text_in(found, "channel")
        message = object_in(found, "message")
        if kind == "user":
            self._web.workspace.learn_user(found["user"])
        elif kind == "joined":
            if found["user"] == self._web.me:
                await self._open(channel, None)
        elif self._inbox.begins(channel) is None:
            await self._open(channel, _AFTER_A_START)
        await self._web.learn_people([message])
        with self._inbox.transaction():
            if kind in ("post", "edit"):
                self._offer(channel, message, text_in(found, "edited"))
            elif kind in ("delete", "withhold") and found["id"]:
                name, stored = self._inbox.channel_name(channel), found.get("was_stored", True)
                self._inbox.erase(name, found["id"], _now(), was_stored=stored)
            self._inbox.drop_arrival(number)
        self._listener.ends = {self._listener.name: self._inbox.end}

    def _offer(self, channel: str, message: Mapping[str, Any], edited: str = "") -> None:
        """Pass on a message in its current form."""
        name = self._inbox.channel_name(channel)
        if self._slack.opt_out.asked_in(raw_text(message)):
            self._inbox.erase(name, text_in(message, "ts"), _now(), was_stored=False)
            return
        try:
            value = slack_message(message, self._web.workspace, channel=name, channel_id=channel)
            if isinstance(value, Skipped):
                if value is DELETED:
                    self._inbox.erase(name, text_in(message, "ts"), _now())
                return
            when = edited or text_in(object_in(message, "edited"), "ts")
            self._inbox.offer(
                value,
                blake2b(raw_text(message).encode(errors="surrogatepass"), digest_size=8).digest(),
                edited=utc_time(when, "edited") if when else None,
                is_new=value["id"] >= (self._inbox.begins(channel) or ""),
            )
        except MessageError as err:
            _LOG.warning("slack: skipped a message in %s: %s", name, err)

    # History

    async def _read_again(self, gap: timedelta) -> None:
        """Compare every channel's recent history with what was passed on."""
        async for channel, name in self._web.channels():
            self._inbox.channel_name(channel, name)
            await self._read_channel(channel, gap)
        self._noted = 0.0
        self._note_alive()

    async def _open(self, channel: str, gap: timedelta | None) -> None:
        """Start reading a channel that was not listed."""
        _, name = await self._web.channel(channel)
        self._inbox.channel_name(channel, name)
        await self._read_channel(channel, gap)

    async def _read_channel(self, channel: str, gap: timedelta | None) -> None:
        """Pass on what is new or changed in a channel's history, and delete what has disappeared from it.

        For a channel that was read before, this starts `gap` before the time last noted as alive.
        """
        name = self._inbox.channel_name(channel)
        begins, alive = self._inbox.begins(channel), self._inbox.fact("alive")
        oldest = listed = begins or _ts(time.time() - self._slack.backfill.total_seconds())
        if begins is not None and alive is not None and gap is not None:
            oldest = max(begins, _ts(float(alive) - gap.total_seconds()))
            listed = max(begins, _ts(float(oldest) - _THREADS.total_seconds()))
        known = self._inbox.known_since(name, oldest)
        roots = {one.thread for one in known if one.thread is not None}
        found = await self._web.history(channel, listed=listed, oldest=oldest, roots=roots)
        if found is None:
            _LOG.warning("slack: channel %s can no longer be read", name)
            return
        with self._inbox.transaction():
            for ts in sorted(found):
                self._offer(channel, found[ts])
            for one in known:
                if one.id not in found and one.digest is not None:
                    self._inbox.erase(name, one.id, _now())
            self._inbox.begin(channel, begins or oldest)
        self._listener.ends = {self._listener.name: self._inbox.end}

    # The command

    async def _reply(self, command: Mapping[str, Any], answer: ChatResponder) -> None:
        """Answer `/catchup`, visible only to the person who asked."""
        channel, person = text_in(command, "channel_id"), text_in(command, "user_id")
        try:
            if self._inbox.begins(channel) is None:
                parts = ["I cannot read this channel yet. Please invite me first."]
            else:
                name = self._web.workspace.names.users.get(person) or text_in(command, "user_name") or person
                asked = text_in(command, "text").strip()
                question = ChatRequest(self._inbox.channel_name(channel), person, name, asked)
                parts = await answer(question, CHARACTERS)
            await send_answer(self._web.client, command, parts)
        except Exception as err:  # keep listening; the error's text may hold chat
            _LOG.warning("slack: could not answer a catch-up request: %s", type(err).__name__)


def _ts(seconds: float) -> str:
    """A time as Slack writes it, which is also an id; padded, so that times compare as text."""
    return f"{max(seconds, 0.0):017.6f}"


def _now() -> str:
    return format_time(datetime.now(UTC))
