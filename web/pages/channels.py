"""The pages that live: the list of channels, and a channel's timeline."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import blake2b
from typing import Annotated

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from backscroll.connectors.lancedb.reader import ChannelEntry, StoreReader
from backscroll.web.access import User
from backscroll.web.api import Place
from backscroll.web.cookies import mark_seen, seen_windows
from backscroll.web.dependencies import Channel, CurrentUser, library_of, watcher_of
from backscroll.web.events import ChannelMarks
from backscroll.web.library import Card, Library
from backscroll.web.rendering import page, templates

__all__ = ["router"]

router = APIRouter(include_in_schema=False)


_PAGE = 20  # cards


@dataclass(frozen=True, slots=True)
class _Listed:
    """A channel in the list: how many windows are new (None where none was seen), and its latest one.

    `since` is the id of the last message that was seen, where there are newer ones.
    """

    entry: ChannelEntry
    new: int | None
    latest: Card | None
    since: str | None = None


@router.get("/")
def channels(request: Request, reader: CurrentUser) -> Response:
    """All channels with what is new since the last visit."""
    store = library_of(request).store
    state = _state(store, reader)  # before what is shown: what comes meanwhile is then news
    listed = _listed(request, store.channels(reader.namespaces), latest=True)
    return page(request, "channels.html", reader=reader, listed=listed, state=state)


def _known_state(request: Request, reader: CurrentUser, state: str = "") -> str:
    """The state of the reader's channels that a page shows; the present one without it."""
    return state or _state(library_of(request).store, reader)


@router.get("/events", response_class=EventSourceResponse)
async def changes(
    request: Request, reader: CurrentUser, last: Annotated[str, Depends(_known_state)]
) -> AsyncIterator[ServerSentEvent]:
    """Tells the list of channels that a channel of the reader has changed since a `state` of them."""
    store = library_of(request).store

    def news() -> list[ServerSentEvent]:
        nonlocal last
        before, last = last, _state(store, reader)
        return [ServerSentEvent(event="change", raw_data="channels")] if last != before else []

    async for event in watcher_of(request).events(news):
        yield event


@router.get("/c/{namespace}/{channel}")
def timeline(
    request: Request,
    reader: CurrentUser,
    entry: Channel,
    before: Annotated[int | None, Query(ge=0, lt=1 << 62)] = None,
    on: str = "",
) -> Response:
    """The cards of a channel, the newest first."""
    library, day = library_of(request), _day(on)
    cards = library.cards(entry.key, before=before, on=day, limit=_PAGE + 1)
    more, cards = len(cards) > _PAGE, cards[:_PAGE]
    marks = library.store.marks(entry.key)
    newest = before is None and day is None
    seen = seen_windows(request, entry.key) if newest else None
    response = page(
        request,
        "timeline.html",
        reader=reader,
        entry=entry,
        key=entry.key,
        cards=cards,
        more=more,
        newest=newest,
        on=day,
        seen=seen,
        unread=_last_seen(library, entry, seen),
        others=_listed(request, library.store.channels(reader.namespaces)[:50], latest=False),
        # Where the live cards go on: all that is on the page, or older, is no news.
        since=max([-1, *(card.window.first_seq for card in cards if card.summary)]),
        revision=max([0, *marks.values()]),
    )
    if newest:
        mark_seen(request, response, entry.key, entry.windows)
    return response


@router.post("/c/{namespace}/{channel}/seen")
def seen(request: Request, entry: Channel) -> Response:
    """The reader has seen the cards that came while the page was open."""
    response = Response(status_code=204)
    mark_seen(request, response, entry.key, entry.windows)
    return response


@router.get("/c/{namespace}/{channel}/events", response_class=EventSourceResponse)
async def live_cards(
    request: Request,
    entry: Channel,
    since: Annotated[int, Query(ge=-1, lt=1 << 62)] = -1,
    revision: Place = 0,
    last_event_id: Annotated[str | None, Header()] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Cards as they come, drawn."""
    library = library_of(request)
    marks = ChannelMarks(library.store, entry.key, *ChannelMarks.resume(last_event_id, since, revision))
    template = templates.get_template("live_card.html")

    def news() -> list[ServerSentEvent]:
        cards = library.cards_at(entry.key, marks.news())
        return marks.sent(
            "summary", [template.render(card=card, key=entry.key, fresh=True) for card in cards]
        )

    async for event in watcher_of(request).events(news):
        yield event


def _state(store: StoreReader, reader: User) -> str:
    """What tells one state of the reader's channels from another."""
    activity = sorted(store.activity(reader.namespaces).items())
    state = repr((store.channels(reader.namespaces), activity))
    return blake2b(state.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _listed(request: Request, entries: Sequence[ChannelEntry], *, latest: bool) -> list[_Listed]:
    library, listed = library_of(request), list[_Listed]()
    for entry in entries:
        seen = seen_windows(request, entry.key)
        new = None if seen is None else max(0, entry.windows - seen)
        cards = library.cards(entry.key, limit=1) if latest else []
        since = _last_seen(library, entry, seen) if latest else None
        listed.append(_Listed(entry, new, cards[0] if cards else None, since))
    return listed


def _last_seen(library: Library, entry: ChannelEntry, seen: int | None) -> str | None:
    """The id of the last message that was seen at the last visit, where there are newer ones."""
    if not seen or seen >= entry.windows:
        return None
    window = library.store.windows(entry.key)[seen - 1]
    return next((turn.id for turn in library.store.turns_at(entry.key, [window.last_seq])), None)


def _day(text: str) -> date | None:
    """The day of a form's field; an empty one is none.

    Raises:
        HTTPException: 400 where it is no day.
    """
    try:
        return date.fromisoformat(text) if text.strip() else None
    except ValueError as err:
        raise HTTPException(400, f"{text[:40]!r} is not a date: write it like 2026-03-09") from err
