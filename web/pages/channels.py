"""The pages that update live: the list of channels and a channel's timeline."""

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
from backscroll.web.dependencies import Channel, CurrentUser, library_of, times_of, watcher_of
from backscroll.web.events import ChannelMarks
from backscroll.web.library import Card, Library
from backscroll.web.rendering import page, templates

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

_PAGE = 20  # cards


@dataclass(frozen=True, slots=True)
class _Listed:
    """A channel in the list: how many windows are new (None if it was never visited), and its latest card.

    `since` is the id of the last message seen, if there are newer ones.
    """

    entry: ChannelEntry
    new: int | None
    latest: Card | None
    since: str | None = None


@router.get("/")
def channels(request: Request, user: CurrentUser) -> Response:
    """All channels with what is new since the last visit."""
    store = library_of(request).store
    state = _state(store, user)  # taken before the list, so that later changes count as news
    listed = _listed(request, store.channels(user.namespaces), latest=True)
    return page(request, "channels.html", user=user, listed=listed, state=state)


def _known_state(request: Request, user: CurrentUser, state: str = "") -> str:
    """The state of the user's channels that the page shows; the current state if the page names none."""
    return state or _state(library_of(request).store, user)


@router.get("/events", response_class=EventSourceResponse)
async def changes(
    request: Request, user: CurrentUser, last: Annotated[str, Depends(_known_state)]
) -> AsyncIterator[ServerSentEvent]:
    """Send an event when any of the user's channels has changed since the given `state`."""
    store = library_of(request).store

    def news() -> list[ServerSentEvent]:
        nonlocal last
        before, last = last, _state(store, user)
        return [ServerSentEvent(event="change", raw_data="channels")] if last != before else []

    async for event in watcher_of(request).events(news):
        yield event


@router.get("/c/{namespace}/{channel}")
def timeline(
    request: Request,
    user: CurrentUser,
    entry: Channel,
    before: Annotated[int | None, Query(ge=0, lt=1 << 62)] = None,
    on: str = "",
) -> Response:
    """The cards of a channel, newest first."""
    library, day = library_of(request), _day(on)
    zone = times_of(request).zone
    cards = library.cards(entry.key, before=before, on=day, zone=zone, limit=_PAGE + 1)
    more, cards = len(cards) > _PAGE, cards[:_PAGE]
    marks = library.store.marks(entry.key)
    newest = before is None and day is None
    seen = seen_windows(request, entry.key) if newest else None
    response = page(
        request,
        "timeline.html",
        user=user,
        entry=entry,
        key=entry.key,
        cards=cards,
        more=more,
        newest=newest,
        on=day,
        seen=seen,
        unread=_last_seen(library, entry, seen),
        others=_listed(request, library.store.channels(user.namespaces)[:50], latest=False),
        # Live cards start after these: what is on the page, or older, is not news.
        since=max([-1, *(card.window.first_seq for card in cards if card.summary)]),
        revision=max([0, *marks.values()]),
    )
    if newest:
        mark_seen(request, response, entry.key, entry.windows)
    return response


@router.post("/c/{namespace}/{channel}/seen")
def seen(request: Request, entry: Channel) -> Response:
    """Mark the cards that arrived while the page was open as seen."""
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
    """Send new cards as rendered HTML."""
    library = library_of(request)
    marks = ChannelMarks(library.store, entry.key, *ChannelMarks.resume(last_event_id, since, revision))
    template = templates.get_template("live_card.html")

    def news() -> list[ServerSentEvent]:
        cards = library.cards_at(entry.key, marks.news())
        return marks.sent(
            "summary",
            [
                template.render(card=card, key=entry.key, fresh=True, times=times_of(request))
                for card in cards
            ],
        )

    async for event in watcher_of(request).events(news):
        yield event


def _state(store: StoreReader, user: User) -> str:
    """A hash of the user's channels and their activity, to detect changes."""
    activity = sorted(store.activity(user.namespaces).items())
    state = repr((store.channels(user.namespaces), activity))
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
    """The id of the last message seen at the last visit; None if there are no newer ones."""
    if not seen or seen >= entry.windows:
        return None
    window = library.store.windows(entry.key)[seen - 1]
    return next((turn.id for turn in library.store.turns_at(entry.key, [window.last_seq])), None)


def _day(text: str) -> date | None:
    """The date in a form field; None if it is empty.

    Raises:
        HTTPException: 400 if it is not a date.
    """
    try:
        return date.fromisoformat(text) if text.strip() else None
    except ValueError as err:
        raise HTTPException(400, f"{text[:40]!r} is not a date: write it like 2026-03-09") from err
