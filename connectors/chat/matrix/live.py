"""Live Matrix: reads an account's rooms with `/sync`, and their history with `/messages`.

The sync token, which marks the place in the stream of events, is stored together with the events before
it, so a restart continues exactly there. Encrypted rooms are not read.
https://spec.matrix.org/latest/client-server-api/#syncing
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from typing import Any

import aiohttp
from nio import (
    AsyncClient,
    AsyncClientConfig,
    ErrorResponse,
    RoomMessagesResponse,
    RoomSendResponse,
    SyncResponse,
    WhoamiResponse,
)
from pydantic import SecretStr

from backscroll.connectors.chat.errors import ChatError
from backscroll.connectors.chat.inbox import Inbox
from backscroll.connectors.chat.listener import ChatRequest, ChatResponder, Listener, OptOut
from backscroll.connectors.chat.matrix.messages import (
    is_redacted,
    message_body,
    new_body,
    posted,
    replaced,
    with_names,
)
from backscroll.connectors.files.base.fields import object_in, text_in, utc_time
from backscroll.operators.messages import MessageError

__all__ = ["MatrixLive"]

_LOG = logging.getLogger(__name__)
_COMMAND = "!catchup"
_CHARACTERS = 2_000  # per message
_PAGE = 100  # events per request
_STALE_SECONDS = 300.0  # older commands are not answered
_REFUSED = ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED")


@dataclass(frozen=True, slots=True)
class MatrixLive:
    """A Matrix account to listen with; it reads the rooms that the account has joined.

    Args:
        homeserver: the URL of the homeserver.
        access_token: the account's access token.
        backfill: how much history to read when a room is first seen.
        opt_out: which messages must not be stored.
        answer: answers the message `!catchup`; None to ignore it.
        wait_seconds: how long the server may take to answer a sync.
    """

    homeserver: str
    access_token: SecretStr
    backfill: timedelta
    opt_out: OptOut
    answer: ChatResponder | None = None
    wait_seconds: float = 30.0

    async def listen(self, inbox: Inbox, listener: Listener) -> None:
        """Fill the inbox until cancelled.

        Raises:
            ChatError: the homeserver rejects the token.
        """
        logging.getLogger("nio").setLevel(logging.CRITICAL)  # its log lines may quote chat
        client = AsyncClient(self.homeserver, config=AsyncClientConfig(max_timeouts=0))
        client.access_token = self.access_token.get_secret_value()
        try:
            await _MatrixSession(self, client, inbox, listener).run()
        finally:
            await client.close()


class _Away(Exception):
    """The homeserver does not answer at the moment."""


class _MatrixSession:
    """One run: a series of syncs, each processed as a whole."""

    def __init__(self, matrix: MatrixLive, client: AsyncClient, inbox: Inbox, listener: Listener) -> None:
        self._matrix = matrix
        self._client = client
        self._inbox = inbox
        self._listener = listener
        self._knows_rooms = False
        self._unreadable = set[str]()  # encrypted rooms already warned about
        self._answers = set[asyncio.Task[None]]()

    async def run(self) -> None:
        """Sync until cancelled, retrying during outages."""
        pause = 1.0
        try:
            while True:
                try:
                    if not self._client.user_id:
                        me = self._checked(await self._client.whoami(), WhoamiResponse)
                        self._client.user_id = me.user_id
                    await self._sync()
                    pause = 1.0
                    continue
                except _Away as err:
                    why = str(err)
                except (aiohttp.ClientError, TimeoutError, OSError) as err:
                    why = type(err).__name__
                self._listener.connected(False)
                self._listener.is_current = False
                _LOG.warning("matrix: request failed (%s): retrying", why)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 60.0)
        finally:
            for task in self._answers:
                task.cancel()

    async def _sync(self) -> None:
        """Fetch what is new since the last sync, and pass it on."""
        since = self._inbox.fact("since")
        waiting = self._listener.is_current and self._knows_rooms
        response = self._checked(
            await self._client.sync(
                timeout=int(self._matrix.wait_seconds * 1000) if waiting else 0,
                since=since,
                full_state=not self._knows_rooms,  # after a restart, fetch all names again
            ),
            SyncResponse,
        )
        self._knows_rooms = True
        self._listener.connected(True)
        rooms = dict[str, list[dict[str, Any]]]()
        for room, info in response.rooms.join.items():
            events = [{**event.source, "room_id": room} for event in info.timeline.events]
            if (info.timeline.limited or self._inbox.begins(room) is None) and info.timeline.prev_batch:
                events = await self._past(room, info.timeline.prev_batch, since) + events
            rooms[room] = events
        self._take(rooms, response.next_batch)
        self._listener.ends = {self._listener.name: self._inbox.end}
        self._listener.is_current = True
        if since is not None and self._matrix.answer is not None:
            self._answer_all(rooms, self._matrix.answer)

    async def _past(self, room: str, start: str, since: str | None) -> list[dict[str, Any]]:
        """The events before a token, oldest first, back to the last sync or the backfill limit."""
        begins = self._inbox.begins(room)
        oldest = self._oldest() if begins is None else int(begins)
        found = list[dict[str, Any]]()
        token: str | None = start
        while token is not None:
            response = await self._client.room_messages(
                room, start=token, end=None if begins is None else since, limit=_PAGE
            )
            if isinstance(response, ErrorResponse) and response.status_code == "M_FORBIDDEN":
                _LOG.warning("matrix: no permission to read the history of room %s", room)
                break
            page = self._checked(response, RoomMessagesResponse)
            found += ({**event.source, "room_id": room} for event in page.chunk)
            token = page.end if page.chunk and page.end != token else None
            if found and _sent(found[-1]) < oldest:
                break
        return [event for event in reversed(found) if _sent(event) >= oldest]

    def _take(self, rooms: Mapping[str, Sequence[Mapping[str, Any]]], token: str) -> None:
        """Pass on the events of a sync, in one transaction with its token."""
        with self._inbox.transaction():
            for room, events in rooms.items():
                begins, name = self._inbox.begins(room), self._inbox.channel_name(room, self._room_name(room))
                for event in events:
                    try:
                        self._offer(event, room, name)
                    except MessageError as err:
                        _LOG.warning("matrix: skipped a message in %s: %s", name, err)
                if begins is None:
                    self._inbox.begin(room, str(self._oldest()))
            self._inbox.note("since", token)

    def _offer(self, event: Mapping[str, Any], room: str, name: str) -> None:
        """Pass on an event if it is a message, an edit or a redaction."""
        kind, content, id_ = text_in(event, "type"), object_in(event, "content"), text_in(event, "event_id")
        if kind == "m.room.redaction":
            target = text_in(event, "redacts") or text_in(content, "redacts")
            if target:
                self._inbox.erase(name, target, _time(event))
        elif kind == "m.room.encrypted" and room not in self._unreadable:
            self._unreadable.add(room)
            _LOG.warning("matrix: %s is encrypted and will not be read", name)
        if kind not in ("m.room.message", "m.sticker") or event.get("sender") == self._client.user_id:
            return
        if is_redacted(event) or not content:
            self._inbox.erase(name, id_, _time(event), was_stored=False)
        elif not _asks(event):
            self._offer_message(event, room, name)

    def _offer_message(self, event: Mapping[str, Any], room: str, name: str) -> None:
        target, text = replaced(event), message_body(object_in(event, "content"))
        value, edited = posted(event), None
        if target is not None:
            known = self._inbox.known(name, target)
            if known is None or known.author != event.get("sender"):
                return  # people may edit only their own messages
            value, text, edited = {**value, "id": target}, new_body(event), value["ts"]
        if not text:
            return
        if self._matrix.opt_out.asked_in(text):
            self._inbox.erase(name, value["id"], _time(event), was_stored=target is not None)
            return
        named = with_names(value, text, channel=name, name_of=lambda person: self._name_of(room, person))
        digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
        self._inbox.offer(named, digest, edited=edited)

    def _room_name(self, room: str) -> str:
        known = self._client.rooms.get(room)
        return (known.name or known.canonical_alias or room) if known is not None else room

    def _name_of(self, room: str, person: str) -> str | None:
        known = self._client.rooms.get(room)
        user = None if known is None else known.users.get(person)
        return " ".join((user.display_name or "").split()) or None if user is not None else None

    def _oldest(self) -> int:
        """Milliseconds since 1970."""
        return int((time.time() - self._matrix.backfill.total_seconds()) * 1000)

    def _checked(self, response: Any, kind: type[Any]) -> Any:
        """Return the response if it is of the expected kind.

        Raises:
            ChatError: the homeserver rejects the token.
            _Away: any other error.
        """
        if isinstance(response, kind):
            return response
        code = str(getattr(response, "status_code", "") or type(response).__name__)
        if code in _REFUSED:
            raise ChatError(f"matrix: the homeserver rejected the access token ({code}): create a new one")
        raise _Away(code)

    # The command

    def _answer_all(self, rooms: Mapping[str, Sequence[Mapping[str, Any]]], answer: ChatResponder) -> None:
        for room, events in rooms.items():
            for event in events:
                is_fresh = time.time() - _sent(event) / 1000 < _STALE_SECONDS
                if _asks(event) and is_fresh and event.get("sender") != self._client.user_id:
                    task = asyncio.create_task(self._reply(event, room, answer))
                    self._answers.add(task)
                    task.add_done_callback(self._answers.discard)

    async def _reply(self, event: Mapping[str, Any], room: str, answer: ChatResponder) -> None:
        """Answer `!catchup` in a thread, as Matrix has no message that only one person sees."""
        id_, person = text_in(event, "event_id"), text_in(event, "sender")
        asked = text_in(object_in(event, "content"), "body").strip().removeprefix(_COMMAND).strip()
        name = self._name_of(room, person) or person
        question = ChatRequest(self._inbox.channel_name(room), person, name, asked)
        thread = {
            "rel_type": "m.thread",
            "event_id": id_,
            "is_falling_back": True,
            "m.in_reply_to": {"event_id": id_},
        }
        try:
            for part in await answer(question, _CHARACTERS):
                content = {"msgtype": "m.notice", "body": part, "m.relates_to": thread, "m.mentions": {}}
                sent = await self._client.room_send(room, "m.room.message", content)
                self._checked(sent, RoomSendResponse)
        except Exception as err:  # keep listening; the error's text may hold chat
            _LOG.warning("matrix: could not answer a catch-up request: %s", type(err).__name__)


def _asks(event: Mapping[str, Any]) -> bool:
    """Whether a message is the `!catchup` command."""
    content = object_in(event, "content")
    word = text_in(content, "body").split(maxsplit=1)[:1]
    return event.get("type") == "m.room.message" and word == [_COMMAND] and replaced(event) is None


def _sent(event: Mapping[str, Any]) -> int:
    sent = event.get("origin_server_ts")
    return sent if isinstance(sent, int) else 0


def _time(event: Mapping[str, Any]) -> str:
    return utc_time(event.get("origin_server_ts"), "origin_server_ts", per_second=1000)
