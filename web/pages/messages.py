"""The message pages: a window, a message in context, and the sources of a sentence or phrase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response

from backscroll.connectors.lancedb.reader import ChannelEntry
from backscroll.operators.messages import Turn
from backscroll.operators.summary.record import GapEntry, MemoryEntry, Summary
from backscroll.web.access import User
from backscroll.web.api import Place
from backscroll.web.cards import Text, marked, place
from backscroll.web.dependencies import Channel, CurrentUser, library_of
from backscroll.web.library import Card
from backscroll.web.rendering import page

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

_AROUND = 8  # messages before and after one
_AROUND_EVIDENCE = 2


@router.get("/c/{namespace}/{channel}/w/{seq}")
def window(request: Request, user: CurrentUser, entry: Channel, seq: int) -> Response:
    """All messages of the window that contains a turn."""
    card = _card(request, entry, seq)
    turns = library_of(request).store.turns(entry.key, card.window.first_seq, card.window.last_seq)
    return _page(request, "window.html", user, card, entry=entry, turns=turns)


@router.get("/c/{namespace}/{channel}/at/{seq}")
def message(request: Request, user: CurrentUser, entry: Channel, seq: int) -> Response:
    """A message and those around it."""
    card = _card(request, entry, seq)
    turns = library_of(request).context(entry.key, seq, _AROUND)
    return _page(
        request,
        "message.html",
        user,
        card,
        entry=entry,
        turns=turns,
        seq=seq,
        around=_AROUND,
    )


@router.get("/c/{namespace}/{channel}/w/{seq}/rests")
def rests(
    request: Request, user: CurrentUser, entry: Channel, seq: int, on: Annotated[list[Place], Query()]
) -> Response:
    """The messages a sentence is based on."""
    card = _card(request, entry, seq)
    turns = library_of(request).store.turns_at(entry.key, on[:10])
    return _page(request, "rests.html", user, card, entry=entry, turns=turns)


@router.get("/c/{namespace}/{channel}/w/{seq}/gap/{number}")
def gap(request: Request, user: CurrentUser, entry: Channel, seq: int, number: int) -> Response:
    """What a phrase presupposes, and the earlier messages that explain it, in context."""
    card = _card(request, entry, seq)
    summary = card.summary
    if summary is None or not 0 <= number < len(summary.gaps):
        raise HTTPException(404, "this phrase is no longer in the summary")
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
        user,
        card,
        entry=entry,
        turns=turns,
        marked_gaps=[(number, entry_gap)],
        gap=entry_gap,
        contexts=contexts,
    )


def _explaining(summary: Summary, gap: GapEntry, number: int) -> list[MemoryEntry]:
    """The memory that resolves a gap, or the two closest messages if none does."""
    if gap.evidence:
        found = [entry for entry in summary.memory if entry.id in gap.evidence]
    else:
        near = [entry for entry in summary.memory if entry.gap == number]
        found = sorted(near, key=lambda entry: entry.rank)[:2]
    return list({entry.seq: entry for entry in found}.values())


def _page(
    request: Request,
    template: str,
    user: User,
    card: Card,
    *,
    entry: ChannelEntry,
    turns: Sequence[Turn],
    marked_gaps: Sequence[tuple[int, GapEntry]] | None = None,
    **shown: Any,
) -> Response:
    """A page of turns, with the given gaps marked, or all gaps of the card's window."""
    pieces = _pieces(card, turns, marked_gaps)
    channel = {"user": user, "entry": entry, "key": entry.key}
    return page(request, template, **channel, card=card, turns=turns, pieces=pieces, **shown)


def _card(request: Request, entry: ChannelEntry, seq: int) -> Card:
    found = library_of(request).card_of(entry.key, seq) if 0 <= seq < entry.turns else None
    if found is None:
        raise HTTPException(404, f"message {seq} not found in this channel")
    return found


def _pieces(
    card: Card, turns: Sequence[Turn], gaps: Sequence[tuple[int, GapEntry]] | None
) -> dict[int, list[Text]]:
    """The text of each turn by `seq`, with its gaps marked."""
    if gaps is None:
        gaps = list(enumerate(card.summary.gaps)) if card.summary else []
    return {
        turn.seq: marked(turn.text, [(at, gap) for at, gap in gaps if gap.utterance == turn.id])
        for turn in turns
    }
