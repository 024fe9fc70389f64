"""Slack, live: events over Socket Mode, and what was missed from the channels' history.

An event is on disk before its envelope is acknowledged. What is not acknowledged, or was sent while
nobody listened, is found when the history is read again, at the start and after each connection.
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


_AFTER_A_START, _AFTER_A_GAP = timedelta(days=1), timedelta(minutes=10)  # that are read once more


_THREADS = timedelta(days=7)  # how old a message may be whose new replies are looked for


@dataclass(frozen=True, slots=True)
class SlackLive:
    """A workspace, as an app sees it: the channels it was invited to.

    Args:
        app_token: `xapp-...`, of the connection.
        bot_token: `xoxb-...`, of the Web API.
        backfill: how much of a channel's past is read when it is met first.
        opt_out: which messages must not be stored.
        answer: answers the command `/catchup`; None to have none.
        api_url: of the Web API.
        ping_seconds: between pings of the connection.
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
            LiveError: a token is refused, or a scope is missing.
        """
        logging.getLogger("slack_sdk").setLevel(logging.CRITICAL)  # it is said in our words
        await _SlackSession(self, inbox, listener).run()


class _SlackSession:
    """One run: a connection that fills the arrivals, and one worker that takes them in their order."""

    def __init__(self, slack: SlackLive, inbox: Inbox, listener: Listener) -> None:
        self._slack = slack
        self._web = SlackWeb(slack.bot_token.get_secret_value(), slack.api_url)
        self._inbox = inbox
        self._listener = listener
        self._client: Any = None
        self._next_gap = _AFTER_A_START
        self._gap: timedelta | None = None  # what has to be read once more
        self._wake = asyncio.Event()
        self._answers = set[asyncio.Task[None]]()
        self._noted = 0.0

    async def run(self) -> None:
        """Connect, and work until cancelled."""
        await self._going_on(lambda: self._web.introduce(self._slack.app_token.get_secret_value()))
        async with self._connection():
            while True:
                await self._going_on(self._work)

    async def _going_on(self, step: Callable[[], Awaitable[None]]) -> None:
        """Do a step until it succeeds: an outage passes.

        Raises:
            LiveError: it will not.
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
            _LOG.warning("slack: %s: trying again", why)
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
            self._listener.is_current = False  # something may have been sent to nobody
            self._gap, self._next_gap = self._gap or self._next_gap, _AFTER_A_GAP
            self._wake.set()

    async def _on_envelope(self, client: Any, envelope: SocketModeRequest) -> None:
        """Write, then acknowledge; without the second, Slack sends it again."""
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
        """Read what was missed; else take an arrival; else wait for one."""
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
        """Until now everything has come, as far as the connection stood."""
        now = time.monotonic()
        if (
            self._listener.answering is not None
            and self._gap is None
            and now - self._noted > _ALIVE_SECONDS / 2
        ):
            self._noted = now
            self._inbox.note("alive", f"{time.time():.6f}")

    async def _take(self, number: int, found: dict[str, Any]) -> None:
        """Hand on what arrived; it and its disappearance from the arrivals are one transaction."""
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
        """Hand on a message as it is now."""
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
            _LOG.warning("slack: a message of %s was left out: %s", name, err)

    # The past

    async def _read_again(self, gap: timedelta) -> None:
        """Compare every channel with what was handed on, since a while before the last sign of life."""
        async for channel, name in self._web.channels():
            self._inbox.channel_name(channel, name)
            await self._read_channel(channel, gap)
        self._noted = 0.0
        self._note_alive()

    async def _open(self, channel: str, gap: timedelta | None) -> None:
        """Meet a channel that was not listed."""
        _, name = await self._web.channel(channel)
        self._inbox.channel_name(channel, name)
        await self._read_channel(channel, gap)

    async def _read_channel(self, channel: str, gap: timedelta | None) -> None:
        """Hand on what is new or changed in a channel's history, and delete what is gone from it.

        Of a channel that was read before, only what is `gap` before the last sign of life, or newer.
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
            _LOG.warning("slack: channel %s cannot be read any more", name)
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
        """Answer `/catchup` so that only who asked sees it."""
        channel, person = text_in(command, "channel_id"), text_in(command, "user_id")
        try:
            if self._inbox.begins(channel) is None:
                parts = ["I have read nothing here: invite me to this channel first."]
            else:
                name = self._web.workspace.names.users.get(person) or text_in(command, "user_name") or person
                asked = text_in(command, "text").strip()
                question = ChatRequest(self._inbox.channel_name(channel), person, name, asked)
                parts = await answer(question, CHARACTERS)
            await send_answer(self._web.client, command, parts)
        except Exception as err:  # listening goes on; its text may hold chat
            _LOG.warning("slack: a catch-up was not answered: %s", type(err).__name__)


def _ts(seconds: float) -> str:
    """As Slack writes times, which are also ids: of equal length, so that they compare as texts."""
    return f"{max(seconds, 0.0):017.6f}"


def _now() -> str:
    return format_time(datetime.now(UTC))
