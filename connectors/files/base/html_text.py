"""The text of an HTML message: lines, lists, links and mentions, without scripts and styles.

>>> plain_text('<p>Hi <at id="0">Ana</at>,<br>see <a href="https://example.com/a">the plan</a></p>')
'Hi @Ana,\\nsee the plan (https://example.com/a)'
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

__all__ = ["plain_text"]

_LINES = {
    "p",
    "div",
    "br",
    "li",
    "tr",
    "ul",
    "ol",
    "table",
    "blockquote",
    "pre",
    "codeblock",
    "h1",
    "h2",
    "h3",
    "h4",
}
_UNSEEN = {"script", "style", "head", "title", "attachment"}


def plain_text(html: str, *, without: frozenset[str] = frozenset()) -> str:
    """The text of a piece of HTML.

    Args:
        html: the HTML; it may be malformed.
        without: more elements to leave out, such as `blockquote` for quoted mail.
    """
    parser = _Text(_UNSEEN | without)
    parser.feed(html)
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.parts).split("\n"))
    return re.sub(r"\n{2,}", "\n", "\n".join(lines)).strip()


class _Text(HTMLParser):
    def __init__(self, unseen: set[str] | frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._unseen = unseen
        self._depth = 0  # of open elements whose text is left out
        self._links: list[tuple[str, int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag in self._unseen:
            self._depth += 1
        elif tag == "a":
            self._links.append((values.get("href", ""), len(self.parts)))
        elif tag == "at":
            self._say("@")
        elif tag in ("img", "emoji"):
            self._say(values.get("alt", ""))
        elif tag == "li":
            self._say("\n- ")
        elif tag in _LINES:
            self._say("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._unseen:
            self._depth = max(0, self._depth - 1)
        elif tag == "a" and self._links:
            link, begun = self._links.pop()
            label = "".join(self.parts[begun:]).strip()
            shown = link.removeprefix("mailto:").rstrip("/")
            if link.startswith(("http://", "https://")) and label.rstrip("/") not in (shown, link):
                self._say(f" ({link})")
        elif tag in _LINES:
            self._say("\n")

    def handle_data(self, data: str) -> None:
        self._say(data.replace("\n", " "))

    def _say(self, text: str) -> None:
        if not self._depth:
            self.parts.append(text)
