"""Page rendering: the templates, the functions they can call, and what every page contains.

The side panel shows the same page without its frame; htmx asks for that with the header
`HX-Target: panel`. Without JavaScript, every link opens the whole page.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.templating import Jinja2Templates

from backscroll.operators.catchup.digest import SECTIONS, ChannelDigest
from backscroll.operators.language.lexicon import spaced_lexicons
from backscroll.operators.messages import ChannelKey
from backscroll.web.cards import fallback, lines, marked, unplaced_gaps
from backscroll.web.dependencies import channel_path

__all__ = ["page", "tells", "templates"]

templates = Jinja2Templates(Path(__file__).parent / "templates")


def page(request: Request, template: str, **context: Any) -> Response:
    """Render a page, or just its panel content for htmx."""
    context["fragment"] = request.headers.get("HX-Target") == "panel"
    context["guarded"] = request.app.state.access is not None
    context["times"] = request.app.state.catch_up.times
    key: ChannelKey | None = context.get("key")
    context["searched"] = "/search" if key is None else f"/c/{channel_path(key)}/search"
    return templates.TemplateResponse(request, template, context)


def _hue(name: str) -> int:
    """One of eight colours, always the same for a name."""
    return sum(map(ord, name)) % 8


def tells(word: str) -> bool:
    """Whether a query word carries meaning: it is not a function word in any language."""
    return not any(word in lexicon.function for lexicon in spaced_lexicons())


def _telling(words: Sequence[str]) -> Sequence[str]:
    """The query words worth marking: those that carry meaning, or all if none does."""
    return list(filter(tells, words)) or words


def _left_out(digest: ChannelDigest) -> list[str]:
    """What a digest leaves out, in the digest's language."""
    say, left_out = digest.book.headings, digest.left_out
    names = ("unmentioned", "bots", "deleted", "items", "dropped")
    counted = [say[name].format(n=number) for name in names if (number := getattr(left_out, name))]
    return [*counted, *([] if digest.degraded is None else [say["degraded"]])]


templates.env.trim_blocks = templates.env.lstrip_blocks = True


templates.env.globals.update(lines=lines, marked=marked, sections=SECTIONS, unplaced_gaps=unplaced_gaps)


templates.env.filters.update(
    path=channel_path, hue=_hue, left_out=_left_out, telling=_telling, fallback=fallback
)
