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
from operators.cues import LEXICONS
from operators.digest import SECTIONS, ChannelDigest
from operators.messages import ChannelKey, Turn
from operators.search import Hit
from operators.span import SpanError
from operators.summaries import GapEntry, MemoryEntry, Summary
from web.api import Place
from web.cards import Text, lines, marked, place, unplaced_gaps
from web.library import Card, Library
from web.live import ChannelMarks, event_stream, sent_event
from web.routing import (
    Channel,
    ReaderOf,
    catch_up_of,
    channel_path,
    channels_called,
    library_of,
    watch_of,
)
from web.seen import keep_name, kept_name, mark_seen, seen_windows

__all__ = ["router", "templates"]

router = APIRouter(include_in_schema=False)
templates = Jinja2Templates(Path(__file__).parent / "templates")

_PAGE = 20  # cards
_AROUND = 8  # messages before and after one
_AROUND_EVIDENCE = 2
_SEARCHED = 12  # channels at once, the latest ones
_FOUND = 20

_SINCE = "yesterday"
_TOKENS, _TOKENS_OF_ALL = 600, 1500

Name = Annotated[str, Query(max_length=512)]
Searched = Annotated[str, Query(max_length=1000)]


def _hue(name: str) -> int:
    """One of eight colours, the same for a name everywhere."""
    return sum(map(ord, name)) % 8


def _tells(word: str) -> bool:
    """Whether a word of a query says something, in whatever language."""
    return not any(word in lexicon.function for lexicon in LEXICONS)


def _telling(words: Sequence[str]) -> Sequence[str]:
    """The words of a query worth marking: those that say something, or all where none does."""
    return list(filter(_tells, words)) or words


def _left_out(digest: ChannelDigest) -> list[str]:
    """What a digest does not show, in the words of its language."""
    say, left_out = digest.book.headings, digest.left_out
    names = ("unmentioned", "bots", "deleted", "items", "dropped")
    counted = [say[name].format(n=number) for name in names if (number := getattr(left_out, name))]
    return [*counted, *([] if digest.degraded is None else [say["degraded"]])]


templates.env.trim_blocks = templates.env.lstrip_blocks = True
templates.env.globals.update(lines=lines, marked=marked, sections=SECTIONS, unplaced_gaps=unplaced_gaps)
templates.env.filters.update(path=channel_path, hue=_hue, left_out=_left_out, telling=_telling)


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
def channels(request: Request, reader: ReaderOf) -> Response:
    """All channels with what is new since the last visit."""
    listed = _listed(request, library_of(request).store.channels(reader.namespaces), latest=True)
    return _page(request, "channels.html", reader=reader, listed=listed)


@router.get("/events", response_class=StreamingResponse)
def changes(request: Request, reader: ReaderOf) -> StreamingResponse:
    """Tells the list of channels that a channel of the reader has changed."""
    store, last = library_of(request).store, list[object]()

    def news() -> list[str]:
        now = store.channels(reader.namespaces), store.activity(reader.namespaces)
        changed = bool(last) and last[-1] != now
        last[:] = [now]
        return [sent_event("change", "channels")] if changed else []

    return event_stream(watch_of(request), news)


@router.get("/catchup")
def catchup(
    request: Request,
    reader: ReaderOf,
    *,
    channel: Name = "",
    since: Name = "",
    until: Name = "",
    me: Annotated[str | None, Query(max_length=512)] = None,
) -> Response:
    """What the reader has missed, in a channel or in all: what is for them first."""
    entries, catch_up = channels_called(request, reader, channel), catch_up_of(request)
    name = kept_name(request) if me is None else me.strip()
    since = since.strip() or _SINCE
    tokens = _TOKENS if channel else _TOKENS_OF_ALL
    found, wrong = None, None
    try:
        found = catch_up.missed(
            entries, since=since, until=until.strip() or None, me=name or None, max_tokens=tokens
        )
    except SpanError as err:  # told beside the form, to be put right
        wrong = str(err)
    response = _page(
        request,
        "catchup.html",
        reader=reader,
        found=found,
        wrong=wrong,
        entries=library_of(request).store.channels(reader.namespaces),
        key=entries[0].key if channel else None,
        zone=catch_up.zone,
        zone_name=catch_up.zone_name,
        since=since,
        until=until.strip(),
        me=name,
    )
    if wrong is not None:
        response.status_code = 400
    if me is not None:
        keep_name(response, name)
    return response


@router.get("/search")
def search_everywhere(request: Request, reader: ReaderOf, q: Searched = "") -> Response:
    """Search in each of the latest channels, every one by itself."""
    library = library_of(request)
    entries = library.store.channels(reader.namespaces)
    found = [(entry, library.search(entry.key, q, 5)) for entry in entries[:_SEARCHED]] if q.strip() else []
    found = _best_first([(entry, hits) for entry, hits in found if hits])
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
    seen = seen_windows(request, entry.key) if newest else None
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
        since = _last_seen(library, entry, seen) if latest else None
        listed.append(_Listed(entry, new, cards[0] if cards else None, since))
    return listed


def _last_seen(library: Library, entry: ChannelEntry, seen: int | None) -> str | None:
    """The id of the last message that was seen at the last visit, where there are newer ones."""
    if not seen or seen >= entry.windows:
        return None
    window = library.store.windows(entry.key)[seen - 1]
    return next((turn.id for turn in library.store.turns_at(entry.key, [window.last_seq])), None)


def _best_first(found: list[tuple[ChannelEntry, list[Hit]]]) -> list[tuple[ChannelEntry, list[Hit]]]:
    """The channels whose messages hold most words of the query first; those without any where all are."""

    def held(hits: Sequence[Hit]) -> int:
        return max(sum(map(_tells, hit.words)) for hit in hits)

    most = max((held(hits) for _, hits in found), default=0)
    ranked = sorted(found, key=lambda one: -held(one[1]))
    return [one for one in ranked if held(one[1]) or not most]


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
