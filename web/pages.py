"""The pages: channels, a channel's timeline, messages in their context, search.

What is shown beside a timeline is the same page without its frame; htmx says so by the header
`HX-Target: panel`. Without JavaScript every link leads to the whole page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Query, Request, Response
from fastapi.templating import Jinja2Templates
from starlette.responses import StreamingResponse

from connectors.lancedb_reading import ChannelEntry
from operators.messages import ChannelKey, Turn
from operators.search import Hit
from operators.summaries import GapEntry, MemoryEntry, Summary
from web.api import Place
from web.cards import Text, lines, marked, place, unplaced_gaps
from web.library import Card
from web.live import ChannelMarks, event_stream, sent_event
from web.routing import Channel, ReaderOf, channel_path, library_of, watch_of
from web.seen import mark_seen, seen_windows

__all__ = ["router", "templates"]

router = APIRouter(include_in_schema=False)
templates = Jinja2Templates(Path(__file__).parent / "templates")

_PAGE = 20  # cards
_AROUND = 8  # messages before and after one
_AROUND_EVIDENCE = 2
_SEARCHED = 12  # channels at once, the latest ones
_FOUND = 20

Searched = Annotated[str, Query(max_length=1000)]


def _hue(name: str) -> int:
    """One of eight colours, the same for a name everywhere."""
    return sum(map(ord, name)) % 8


templates.env.trim_blocks = templates.env.lstrip_blocks = True
templates.env.globals.update(lines=lines, marked=marked, unplaced_gaps=unplaced_gaps)
templates.env.filters.update(path=channel_path, hue=_hue)


@dataclass(frozen=True, slots=True)
class _Listed:
    """A channel in the list: its latest summary, and how many are new; None where none was seen."""

    entry: ChannelEntry
    new: int | None
    latest: Card | None


@router.get("/")
def channels(request: Request, reader: ReaderOf) -> Response:
    """All channels with what is new since the last visit."""
    listed = _listed(request, library_of(request).store.channels(reader.namespaces), latest=True)
    return _page(request, "channels.html", reader=reader, listed=listed)


@router.get("/events", response_class=StreamingResponse)
def changes(request: Request, reader: ReaderOf) -> StreamingResponse:
    """Tells the list of channels that a channel of the reader has changed."""
    store, last = library_of(request).store, list[list[ChannelEntry]]()

    def news() -> list[str]:
        now = store.channels(reader.namespaces)
        changed = bool(last) and last[-1] != now
        last[:] = [now]
        return [sent_event("change", "channels")] if changed else []

    return event_stream(watch_of(request), news)


@router.get("/search")
def search_everywhere(request: Request, reader: ReaderOf, q: Searched = "") -> Response:
    """Search in each of the latest channels, every one by itself."""
    library = library_of(request)
    entries = library.store.channels(reader.namespaces)
    found = [(entry, library.search(entry.key, q, 5)) for entry in entries[:_SEARCHED]] if q.strip() else []
    found = [(entry, hits) for entry, hits in found if hits]
    left_out = max(0, len(entries) - _SEARCHED)
    return _page(request, "search.html", reader=reader, q=q, found=found, left_out=left_out)


@router.get("/c/{namespace}/{channel}")
def timeline(
    request: Request,
    reader: ReaderOf,
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
    response = _page(
        request,
        "timeline.html",
        reader=reader,
        entry=entry,
        key=entry.key,
        cards=cards,
        more=more,
        newest=newest,
        on=day,
        seen=seen_windows(request, entry.key) if newest else None,
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


@router.get("/c/{namespace}/{channel}/events", response_class=StreamingResponse)
def live_cards(
    request: Request,
    entry: Channel,
    since: Annotated[int, Query(ge=-1, lt=1 << 62)] = -1,
    revision: Place = 0,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """Cards as they come, drawn."""
    library = library_of(request)
    marks = ChannelMarks(library.store, entry.key, *ChannelMarks.resume(last_event_id, since, revision))
    template = templates.get_template("live_card.html")

    def news() -> list[str]:
        cards = library.cards_at(entry.key, marks.news())
        return marks.sent(
            "summary", [template.render(card=card, key=entry.key, fresh=True) for card in cards]
        )

    return event_stream(watch_of(request), news)


@router.get("/c/{namespace}/{channel}/search")
def search_channel(request: Request, reader: ReaderOf, entry: Channel, q: Searched = "") -> Response:
    """Search in one channel."""
    hits = list[Hit]() if not q.strip() else library_of(request).search(entry.key, q, _FOUND)
    found = [(entry, hits)] if hits else []
    return _page(
        request, "search.html", reader=reader, q=q, found=found, left_out=0, entry=entry, key=entry.key
    )


@router.get("/c/{namespace}/{channel}/w/{seq}")
def window(request: Request, reader: ReaderOf, entry: Channel, seq: int) -> Response:
    """All messages of the window that holds a turn."""
    card = _card(request, entry, seq)
    turns = library_of(request).store.turns(entry.key, card.window.first_seq, card.window.last_seq)
    return _page(
        request,
        "window.html",
        reader=reader,
        entry=entry,
        key=entry.key,
        card=card,
        turns=turns,
        pieces=_pieces(card, turns),
    )


@router.get("/c/{namespace}/{channel}/at/{seq}")
def message(request: Request, reader: ReaderOf, entry: Channel, seq: int) -> Response:
    """A message with those around it."""
    card = _card(request, entry, seq)
    turns = library_of(request).context(entry.key, seq, _AROUND)
    return _page(
        request,
        "message.html",
        reader=reader,
        entry=entry,
        key=entry.key,
        card=card,
        turns=turns,
        pieces=_pieces(card, turns),
        seq=seq,
        around=_AROUND,
    )


@router.get("/c/{namespace}/{channel}/w/{seq}/rests")
def rests(
    request: Request, reader: ReaderOf, entry: Channel, seq: int, on: Annotated[list[Place], Query()]
) -> Response:
    """The messages that a sentence rests on."""
    card = _card(request, entry, seq)
    turns = library_of(request).store.turns_at(entry.key, on[:10])
    return _page(
        request,
        "rests.html",
        reader=reader,
        entry=entry,
        key=entry.key,
        card=card,
        turns=turns,
        pieces=_pieces(card, turns),
    )


@router.get("/c/{namespace}/{channel}/w/{seq}/gap/{number}")
def gap(request: Request, reader: ReaderOf, entry: Channel, seq: int, number: int) -> Response:
    """What a phrase presupposes, and the earlier messages that say it, in their context."""
    card = _card(request, entry, seq)
    summary = card.summary
    if summary is None or not 0 <= number < len(summary.gaps):
        raise HTTPException(404, "there is no such phrase in this summary any more")
    library, entry_gap = library_of(request), summary.gaps[number]
    said = place(summary, entry_gap)
    contexts = [
        (memory.seq, library.context(entry.key, memory.seq, _AROUND_EVIDENCE))
        for memory in _explaining(summary, entry_gap, number)
    ]
    turns = library.store.turns_at(entry.key, [said] if said >= 0 else [])
    return _page(
        request,
        "gap.html",
        reader=reader,
        entry=entry,
        key=entry.key,
        card=card,
        gap=entry_gap,
        turns=turns,
        contexts=contexts,
        pieces=_pieces(card, turns, [(number, entry_gap)]),
    )


def _explaining(summary: Summary, gap: GapEntry, number: int) -> list[MemoryEntry]:
    """The memory that resolves a gap; where none does, the two messages that came closest."""
    if gap.evidence:
        found = [entry for entry in summary.memory if entry.id in gap.evidence]
    else:
        near = [entry for entry in summary.memory if entry.gap == number]
        found = sorted(near, key=lambda entry: entry.rank)[:2]
    return list({entry.seq: entry for entry in found}.values())


def _card(request: Request, entry: ChannelEntry, seq: int) -> Card:
    found = library_of(request).card_of(entry.key, seq) if 0 <= seq < entry.turns else None
    if found is None:
        raise HTTPException(404, f"there is no message {seq} in this channel")
    return found


def _pieces(
    card: Card, turns: Sequence[Turn], gaps: Sequence[tuple[int, GapEntry]] | None = None
) -> dict[int, list[Text]]:
    """The texts of turns by place; those of the card's window with their gaps marked."""
    if gaps is None:
        gaps = list(enumerate(card.summary.gaps)) if card.summary else []
    return {
        turn.seq: marked(turn.text, [(at, gap) for at, gap in gaps if gap.utterance == turn.id])
        for turn in turns
    }


def _listed(request: Request, entries: Sequence[ChannelEntry], *, latest: bool) -> list[_Listed]:
    library, listed = library_of(request), list[_Listed]()
    for entry in entries:
        seen = seen_windows(request, entry.key)
        new = None if seen is None else max(0, entry.windows - seen)
        cards = library.cards(entry.key, limit=1) if latest else []
        listed.append(_Listed(entry, new, cards[0] if cards else None))
    return listed


def _day(text: str) -> date | None:
    """The day of a form's field; an empty one is none.

    Raises:
        HTTPException: 400 where it is no day.
    """
    try:
        return date.fromisoformat(text) if text.strip() else None
    except ValueError as err:
        raise HTTPException(400, f"{text[:40]!r} is no day: write it like 2026-03-09") from err


def _page(request: Request, template: str, **context: Any) -> Response:
    context["fragment"] = request.headers.get("HX-Target") == "panel"
    context["guarded"] = request.app.state.access is not None
    key: ChannelKey | None = context.get("key")
    context["searched"] = "/search" if key is None else f"/c/{channel_path(key)}/search"
    return templates.TemplateResponse(request, template, context)
