"""The JSON API; `/openapi.json` describes it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated

import orjson
from fastapi import APIRouter, Header, HTTPException, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from backscroll.connectors.lancedb.reader import ChannelEntry, StoredWindow
from backscroll.operators.catchup.digest_json import CatchUpFields
from backscroll.operators.memory.search import Hit
from backscroll.operators.messages import Turn
from backscroll.operators.summary.citations import Passage
from backscroll.operators.summary.record import Summary
from backscroll.web.dependencies import (
    Channel,
    CurrentUser,
    catch_up_of,
    entries_called,
    library_of,
    watcher_of,
)
from backscroll.web.events import ChannelMarks
from backscroll.web.library import Card

__all__ = ["CardView", "MessageView", "SearchHit", "router"]

router = APIRouter(prefix="/api", tags=["api"])

Count = Annotated[int, Query(ge=1, le=200)]
Place = Annotated[int, Query(ge=0, lt=1 << 62)]
Words = Annotated[str, Query(min_length=1, max_length=1000)]


Name = Annotated[str | None, Query(min_length=1, max_length=512)]


class JSONBytes(Response):
    """A response whose body is already JSON."""

    media_type = "application/json"


@dataclass(frozen=True, slots=True)
class Writer:
    """The author of a message."""

    id: str
    name: str
    bot: bool


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message and its position `seq` in the channel; a deleted message has no author and no text."""

    seq: int
    id: str
    ts: datetime
    author: Writer
    text: str
    thread: str | None
    reply_to: str | None
    permalink: str | None
    late: bool
    edited: datetime | None
    deleted: bool

    @classmethod
    def of(cls, turn: Turn) -> MessageView:
        """The view of a turn."""
        names = (name for name in cls.__dataclass_fields__ if name != "author")
        author = Writer(turn.author.id, turn.author.name, turn.author.bot)
        return cls(author=author, **{name: getattr(turn, name) for name in names})


@dataclass(frozen=True, slots=True)
class CardView:
    """A window with its summary, if it has one, and the messages that each passage of the summary cites."""

    namespace: str
    channel: str
    window: StoredWindow
    summary: Summary | None
    passages: tuple[Passage, ...]

    @classmethod
    def of(cls, card: Card) -> CardView:
        """The view of a card."""
        return cls(card.namespace, card.channel, card.window, card.summary, card.passages)


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A matching message and the query words that it contains."""

    message: MessageView
    words: tuple[str, ...]

    @classmethod
    def of(cls, hits: Iterable[Hit]) -> list[SearchHit]:
        """The views of hits, best first."""
        return [cls(MessageView.of(hit.turn), hit.words) for hit in hits]


@router.get("/channels")
def channels(request: Request, user: CurrentUser) -> list[ChannelEntry]:
    """List the channels you can access, most recent first."""
    return library_of(request).store.channels(user.namespaces)


@router.get("/catchup", response_class=JSONBytes, responses={200: {"model": CatchUpFields}})
def catchup(
    request: Request,
    user: CurrentUser,
    *,
    since: Words,
    channel: Name = None,
    until: Name = None,
    me: Name = None,
    max_tokens: Annotated[int, Query(ge=32, le=4000)] = 400,
) -> Response:
    """What happened in one channel, or in all, since a time or a message. What concerns `me` comes first.

    Returns the same JSON as `backscroll catchup --as json`. `since` and `until` accept `2d`, `yesterday`,
    an ISO 8601 time or a message id; `until` also accepts `latest`.
    """
    catch_up = catch_up_of(request)
    entries = entries_called(request, user, channel)
    found = catch_up.missed(entries, since=since, until=until, me=me, max_tokens=max_tokens)
    return JSONBytes(found.to_json(catch_up.zone_name))


@router.get("/channels/{namespace}/{channel}")
def channel(entry: Channel) -> ChannelEntry:
    """One channel."""
    return entry


@router.get("/channels/{namespace}/{channel}/summaries")
def summaries(
    request: Request,
    entry: Channel,
    before: Annotated[int | None, Query(ge=0, lt=1 << 62)] = None,
    on: date | None = None,
    limit: Count = 20,
) -> list[CardView]:
    """List windows with their summaries, newest first: all, before turn `before`, or up to day `on` (UTC)."""
    cards = library_of(request).cards(entry.key, before=before, on=on, limit=limit)
    return [CardView.of(card) for card in cards]


@router.get("/channels/{namespace}/{channel}/summaries/{seq}")
def summary(request: Request, entry: Channel, seq: int) -> CardView:
    """The window that contains turn `seq`, with its summary."""
    found = library_of(request).card_of(entry.key, seq) if 0 <= seq < entry.turns else None
    if found is None:
        raise HTTPException(404, f"message {seq} not found in this channel")
    return CardView.of(found)


@router.get("/channels/{namespace}/{channel}/messages")
def messages(
    request: Request, entry: Channel, first_seq: Place = 0, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> list[MessageView]:
    """List messages from position `first_seq`, in channel order."""
    return [
        MessageView.of(turn)
        for turn in library_of(request).store.turns(entry.key, first_seq, first_seq + limit - 1)
    ]


@router.get("/channels/{namespace}/{channel}/message")
def message(
    request: Request,
    entry: Channel,
    id: Annotated[str, Query(min_length=1, max_length=512)],
    around: Annotated[int, Query(ge=0, le=100)] = 0,
) -> list[MessageView]:
    """Get a message by its id, with `around` messages before and after it."""
    library = library_of(request)
    found = library.store.find(entry.key, id)
    if found is None:
        raise HTTPException(404, "message not found in this channel")
    return [MessageView.of(turn) for turn in library.context(entry.key, found.seq, around)]


@router.get("/channels/{namespace}/{channel}/search")
def search(request: Request, entry: Channel, q: Words, limit: Count = 20) -> list[SearchHit]:
    """Search the channel's history, with the same retrieval that builds memories."""
    return SearchHit.of(library_of(request).search(entry.key, q, limit))


@router.get("/channels/{namespace}/{channel}/events", response_class=EventSourceResponse)
async def events(
    request: Request,
    entry: Channel,
    since: Annotated[int, Query(ge=-1, lt=1 << 62)] = -1,
    revision: Place = 0,
    last_event_id: Annotated[str | None, Header()] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events named `summary`: each window and its summary as it is written (null once erased).

    Starts with the windows after turn `since` and those updated since `revision`.
    """
    library = library_of(request)
    marks = ChannelMarks(library.store, entry.key, *ChannelMarks.resume(last_event_id, since, revision))

    def news() -> list[ServerSentEvent]:
        cards = library.cards_at(entry.key, marks.news())
        return marks.sent("summary", [orjson.dumps(CardView.of(card)).decode() for card in cards])

    async for event in watcher_of(request).events(news):
        yield event
