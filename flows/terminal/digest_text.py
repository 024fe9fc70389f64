"""Catch-ups as text for a terminal or as Markdown. Headings are in the channel's language.

Chat text is made safe: control characters become `␛`, Markdown is escaped, and right-to-left text is
isolated, so that it does not reorder the text next to it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from urllib.parse import quote

from backscroll.flows.terminal.cards import shown
from backscroll.operators.catchup.context import EarlierMessage
from backscroll.operators.catchup.digest import SECTIONS, ChannelDigest, DigestItem
from backscroll.operators.catchup.period import Period
from backscroll.operators.language.phrasebook import PhraseBook
from backscroll.operators.messages import ChannelKey, Turn
from backscroll.operators.summary.times import time_format

__all__ = ["Form", "nothing_new"]

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&])")
_ADDRESS = re.compile(r"https?://[^\s/]\S*")
_FIRST_ISOLATE, _END_ISOLATE = "\u2068", "\u2069"
_MANY = 4  # more message ids than this are shown as a range


class Form:
    """Writes digests as lines of text or Markdown.

    Args:
        zone: the time zone of displayed times.
        zone_name: the name of that zone.
        me: the user's name.
        markdown: write Markdown instead of text.
        now: the current time: dates of other years are shown with their year. The clock's when None.
    """

    def __init__(
        self, zone: tzinfo, zone_name: str, me: str | None, *, markdown: bool, now: datetime | None = None
    ) -> None:
        self._zone = zone
        self._zone_name = zone_name
        self._me = me or ""
        self._markdown = markdown
        self._year = (now or datetime.now(UTC)).astimezone(zone).year

    def digests(self, digests: Sequence[ChannelDigest], quiet: Sequence[ChannelKey]) -> str:
        """The digests, and the channels with nothing new."""
        blocks = ["\n".join(self._digest(digest)) for digest in digests]
        if quiet and digests:
            names = ", ".join(self._text(str(key)) for key in quiet)
            blocks.append(f"{digests[0].book.headings['quiet']}: {names}")
        return "\n\n".join(blocks)

    def _digest(self, digest: ChannelDigest) -> list[str]:
        say = digest.book.headings
        name = self._text(f"{digest.key.namespace}/{digest.key.channel}")
        advice = say[digest.advice]
        lines = [f"## {name} · {advice}", ""] if self._markdown else [f"{name} · {advice}"]
        lines += [self._range(digest)]
        clock = time_format((digest.first.ts, digest.last.ts), self._zone, year=self._year)
        if digest.quoted is not None:
            lines += ["", self._message(digest.quoted, self._text(digest.quoted.text), clock)]
        for section in SECTIONS:
            items = digest.sections.get(section, ())
            if items:
                heading = say[section].format(me=self._text(self._me))
                lines += ["", f"### {heading}", ""] if self._markdown else ["", heading]
                lines += [self._item(item, clock, digest.book) for item in items]
        left_out = self._left_out(digest)
        if left_out:
            lines += ["", f"{say['left_out']}: {left_out}"]
        return lines

    def _range(self, digest: ChannelDigest) -> str:
        say = digest.book.headings
        messages = say["one"] if digest.messages == 1 else say["many"].format(n=digest.messages)
        people = len(digest.people)
        who = say["person"] if people == 1 else say["people"].format(n=people)
        start, end = (_minute(turn.ts, self._zone) for turn in (digest.first, digest.last))
        span = say["range"].format(messages=messages, start=start, end=end, zone=self._zone_name)
        return f"{span}, {who}" if people else span

    def _item(self, item: DigestItem, clock: str, book: PhraseBook) -> str:
        words = self._text(item.text)
        notes = "".join(self._note(earlier, item.messages[0]) for earlier in item.explained)
        task = ""
        if item.kind == "action":
            owner = self._text(item.owner) if item.owner else book.headings["anyone"]
            due = "" if item.due is None else f", {self._text(item.due.text)} ({item.due.date.isoformat()})"
            task = f" → {owner}{due}"
        first = item.messages[0]
        if item.written:
            head = f"{self._local(first.ts):{clock}}"
        else:
            head = f"{self._local(first.ts):{clock}} {self._text(first.author.name)}:"
        turns = tuple(dict.fromkeys((*item.messages, *(earlier.turn for earlier in item.explained))))
        return f"- {head} {words}{notes}{task}  {self._ids(turns)}"

    def _message(self, turn: Turn, words: str, clock: str) -> str:
        head = f"{self._local(turn.ts):{clock}} {self._text(turn.author.name)}:"
        return f"> {head} {words}  {self._ids((turn,))}"

    def _note(self, earlier: EarlierMessage, later: Turn) -> str:
        turn = earlier.turn
        said, day = self._local(turn.ts), self._local(later.ts).date()
        at = f"{said:%H:%M}" if said.date() == day else f"{said:%Y-%m-%d %H:%M}"
        mark = ("\\[", "\\]") if self._markdown else ("[", "]")
        return f" {mark[0]}{self._text(turn.author.name)}, {at}: {self._text(earlier.text)}{mark[1]}"

    def _ids(self, turns: Sequence[Turn]) -> str:
        if len(turns) > _MANY:
            return f"({self._id(turns[0])}–{self._id(turns[-1])})"
        return f"({', '.join(self._id(turn) for turn in turns)})"

    def _id(self, turn: Turn) -> str:
        link = turn.permalink or ""
        if not self._markdown or not _ADDRESS.fullmatch(link):
            return self._text(turn.id)
        return f"[{self._text(turn.id)}]({quote(link, safe=':/?#@!$&*+,;=%~')})"

    def _left_out(self, digest: ChannelDigest) -> str:
        parts = [
            digest.book.headings[name].format(n=number)
            for name in ("unmentioned", "bots", "deleted", "items", "dropped")
            if (number := getattr(digest.left_out, name))
        ]
        if digest.degraded is not None:
            parts.append(f"{digest.book.headings['degraded']} ({digest.degraded})")
        return ", ".join(parts)

    def _local(self, ts: datetime) -> datetime:
        return ts.astimezone(self._zone)

    def _text(self, text: str) -> str:
        """Chat text on one line, safe for a terminal or for Markdown."""
        line = shown(" ".join(text.split()))
        if self._markdown:
            line = _MARKDOWN.sub(r"\\\1", line)
        if any(unicodedata.bidirectional(character) in ("R", "AL") for character in line):
            return f"{_FIRST_ISOLATE}{line}{_END_ISOLATE}"
        return line


def nothing_new(
    spans: Period, book: PhraseBook, zone: tzinfo, zone_name: str, newest: datetime | None
) -> str:
    """One line that says there is no message in the period, and when the newest one was sent."""
    say = book.headings
    until = say["now"] if spans.until is None else _minute(spans.until.moment, zone)
    span = say["span"].format(start=_minute(spans.since.moment, zone), end=until, zone=zone_name)
    tail = "" if newest is None else f"; {say['newest'].format(time=_minute(newest, zone))}"
    return f"{say['nothing']} {span}{tail}"


def _minute(moment: datetime, zone: tzinfo) -> str:
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M}"
