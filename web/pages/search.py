"""The catch-up and search pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from backscroll.connectors.lancedb.reader import ChannelEntry
from backscroll.operators.catchup.period import PeriodError
from backscroll.operators.memory.search import Hit
from backscroll.web.cookies import keep_name, kept_name
from backscroll.web.dependencies import Channel, CurrentUser, catch_up_of, entries_called, library_of
from backscroll.web.rendering import page, tells

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

_SINCE = "yesterday"
_TOKENS, _TOKENS_OF_ALL = 600, 1500
_SEARCHED = 12  # most recent channels searched at once
_FOUND = 20

Name = Annotated[str, Query(max_length=512)]
Searched = Annotated[str, Query(max_length=1000)]


@router.get("/catchup")
def catchup(
    request: Request,
    user: CurrentUser,
    *,
    channel: Name = "",
    since: Name = "",
    until: Name = "",
    me: Annotated[str | None, Query(max_length=512)] = None,
) -> Response:
    """What the user has missed in one channel or in all; what concerns them comes first."""
    entries, catch_up = entries_called(request, user, channel), catch_up_of(request)
    name = kept_name(request) if me is None else me.strip()
    since = since.strip() or _SINCE
    tokens = _TOKENS if channel else _TOKENS_OF_ALL
    found, wrong = None, None
    try:
        found = catch_up.missed(
            entries, since=since, until=until.strip() or None, me=name or None, max_tokens=tokens
        )
    except PeriodError as err:  # shown next to the form, so that the user can correct it
        wrong = str(err)
    response = page(
        request,
        "catchup.html",
        user=user,
        found=found,
        wrong=wrong,
        entries=library_of(request).store.channels(user.namespaces),
        key=entries[0].key if channel else None,
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
def search_everywhere(request: Request, user: CurrentUser, q: Searched = "") -> Response:
    """Search each of the most recent channels separately."""
    library = library_of(request)
    entries = library.store.channels(user.namespaces)
    found = [(entry, library.search(entry.key, q, 5)) for entry in entries[:_SEARCHED]] if q.strip() else []
    found = _best_first([(entry, hits) for entry, hits in found if hits])
    left_out = max(0, len(entries) - _SEARCHED)
    return page(request, "search.html", user=user, q=q, found=found, left_out=left_out)


@router.get("/c/{namespace}/{channel}/search")
def search_channel(request: Request, user: CurrentUser, entry: Channel, q: Searched = "") -> Response:
    """Search in one channel."""
    hits = list[Hit]() if not q.strip() else library_of(request).search(entry.key, q, _FOUND)
    found = [(entry, hits)] if hits else []
    return page(request, "search.html", user=user, q=q, found=found, left_out=0, entry=entry, key=entry.key)


def _best_first(found: list[tuple[ChannelEntry, list[Hit]]]) -> list[tuple[ChannelEntry, list[Hit]]]:
    """Channels by how many query words a message contains; those with none are kept only if all have none."""

    def held(hits: Sequence[Hit]) -> int:
        return max(sum(map(tells, hit.words)) for hit in hits)

    most = max((held(hits) for _, hits in found), default=0)
    ranked = sorted(found, key=lambda one: -held(one[1]))
    return [one for one in ranked if held(one[1]) or not most]
