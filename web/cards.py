"""A card as it is displayed: the lines of a summary, split where a part is a link or is in doubt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from backscroll.operators.summary.citations import Passage
from backscroll.operators.summary.record import GapEntry, Summary
from backscroll.web.library import Card
from backscroll.web.times import Times

__all__ = ["Line", "Segment", "Text", "fallback", "lines", "marked", "unplaced_gaps"]

_HEAD = re.compile(r"((?:(?:\d{4}-)?\d\d-\d\d )?\d\d:\d\d) (.+):\s*", re.DOTALL)
_NOTE = re.compile(r"\[(.+?), ((?:\d{4}-\d\d-\d\d )?\d\d:\d\d): (.*)\]", re.DOTALL)
_LINES = re.compile(r"[^\n]+")
_LINK = re.compile(r"https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}]")
_FAILURES = {
    "budget": "the daily token limit was reached",
    "circuit_open": "the model kept failing",
    "connection": "the model could not be reached",
    "invalid_json": "the model gave an invalid answer",
    "rate_limit": "the model's rate limit was reached",
    "refused": "the model's server refused the request",
    "schema": "the model gave an invalid answer",
    "server": "the model's server failed",
    "timeout": "the model timed out",
    "truncated": "the model's answer was cut off",
    "unsupported": "the messages do not support the model's summary",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """Part of a summary that links to the turns `seqs` or, with `gap`, to what resolves that gap.

    For an earlier message quoted in brackets, `text` holds its words, `by` its author and `time` when it
    was sent.
    """

    text: str
    seqs: tuple[int, ...] = ()
    earlier: bool = False
    gap: int | None = None
    doubted: bool = False
    by: str | None = None
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a summary; a line of an extractive summary has a time and an author."""

    time: str | None
    author: str | None
    segments: tuple[Segment, ...]

    @property
    def words(self) -> str:
        """What the line says about its window, without quoted earlier messages."""
        return " ".join("".join(part.text for part in self.segments if not part.earlier).split())


@dataclass(frozen=True, slots=True)
class Text:
    """Part of a message: plain text, a `link`, the quote of a `gap`, or a word that was searched for."""

    text: str
    link: str | None = None
    gap: int | None = None
    found: bool = False


def lines(card: Card, times: Times) -> list[Line]:
    """The lines of a card's summary, with its times as the page writes them; none without a summary."""
    if card.summary is None:
        return []
    drawn = []
    for line in _LINES.finditer(card.summary.summary):
        inside = [one for one in card.passages if line.start() <= one.start < line.end()]
        start = inside[0].start if inside else line.start()
        head = _HEAD.fullmatch(card.summary.summary[line.start() : start])
        sent = next((card.times.get(one.seqs[0]) for one in inside if one.seqs and not one.earlier), None)
        shown = sent and times.short(sent, card.window.start, card.window.end)
        at = line.start() if head is None else start
        segments = tuple(_segments(card, inside, (at, line.end()), times, sent))
        drawn.append(Line(head and (shown or head[1]), head and head[2], segments))
    return drawn


def _segments(
    card: Card, inside: Sequence[Passage], span: tuple[int, int], times: Times, sent: datetime | None
) -> Iterator[Segment]:
    """The segments of part of a line about a message that was `sent` then."""
    assert card.summary is not None
    at, end = span
    summary, text = card.summary, card.summary.summary
    for passage in inside:
        if at < passage.start:
            yield Segment(text[at : passage.start])
        at = passage.start
        note = _NOTE.fullmatch(text, passage.start, passage.end) if passage.earlier else None
        if note is not None:
            earlier = [card.times[seq] for seq in passage.seqs if seq in card.times]
            time = times.short(*earlier[:1], sent or card.window.end) if earlier else note[2]
            yield Segment(note[3], passage.seqs, earlier=True, by=note[1], time=time)
            at = passage.end
            continue
        for start, stop, gap in _marks(summary, passage):
            if at < start:
                yield Segment(text[at:start], passage.seqs, passage.earlier)
            yield Segment(text[start:stop], passage.seqs, passage.earlier, gap, doubted=gap is None)
            at = stop
        if at < passage.end:
            yield Segment(text[at : passage.end], passage.seqs, passage.earlier)
        at = passage.end
    if at < end:
        yield Segment(text[at:end])


def _marks(summary: Summary, passage: Passage) -> list[tuple[int, int, int | None]]:
    """Where a passage quotes a gap or is unsupported: start, end, and the gap's index or None."""
    found = list[tuple[int, int, int | None]]()
    for index, gap in enumerate(summary.gaps):
        if not passage.earlier and place(summary, gap) in passage.seqs:
            found.append((*_find(summary.summary, " ".join(gap.quote.split()), passage), index))
    for span in summary.unsupported:
        found.append((*_find(summary.summary, span, passage), None))
    return _without_overlaps([mark for mark in found if mark[0] >= 0])


def _find(text: str, part: str, passage: Passage) -> tuple[int, int]:
    start = text.find(part, passage.start, passage.end) if part else -1
    return start, start + len(part)


def _without_overlaps(marks: Sequence[tuple[int, int, int | None]]) -> list[tuple[int, int, int | None]]:
    """The marks in order, dropping any that overlaps an earlier one."""
    kept = list[tuple[int, int, int | None]]()
    for mark in sorted(marks, key=lambda mark: (mark[0], -mark[1], mark[2] is None)):
        if not kept or mark[0] >= kept[-1][1]:
            kept.append(mark)
    return kept


def place(summary: Summary, gap: GapEntry) -> int:
    """The `seq` of a gap's utterance; -1 if it is not in the window."""
    turns = summary.window.turns
    return summary.window.first_seq + turns.index(gap.utterance) if gap.utterance in turns else -1


def unplaced_gaps(card: Card, drawn: Sequence[Line]) -> list[tuple[int, GapEntry]]:
    """The resolved gaps, with their index, that no line of the card shows."""
    if card.summary is None:
        return []
    shown = {segment.gap for line in drawn for segment in line.segments}
    return [
        (index, gap) for index, gap in enumerate(card.summary.gaps) if gap.evidence and index not in shown
    ]


def fallback(degraded: str) -> str:
    """Explain why rules were used instead of the model: `gaps: timeout` becomes "the model timed out".

    `degraded` is that of a summary. Each reason appears once; an unknown one is returned unchanged.
    """
    kinds = (reason.rpartition(": ")[2] for reason in degraded.split("; "))
    return ", ".join(dict.fromkeys(_FAILURES.get(kind, kind) for kind in kinds))


def marked(text: str, gaps: Sequence[tuple[int, GapEntry]] = (), words: Sequence[str] = ()) -> list[Text]:
    """Split a message's text into plain text, links, quotes of gaps (by index) and search words."""
    found = list[tuple[int, int, int | None]]()
    for index, gap in gaps:
        pattern = r"\s+".join(map(re.escape, gap.quote.split()))
        if pattern and (match := re.search(pattern, text)):
            found.append((*match.span(), index))
    kinds = dict[tuple[int, int], Text]()
    for match in _LINK.finditer(text):
        kinds[match.span()] = Text(match.group(), link=match.group())
    for match in re.finditer(r"\w+", text):
        if match.group().lower() in words:
            kinds.setdefault(match.span(), Text(match.group(), found=True))
    found += [(*span, None) for span in kinds]
    pieces, at = list[Text](), 0
    for start, end, gap_at in _without_overlaps(found):
        if at < start:
            pieces.append(Text(text[at:start]))
        pieces.append(Text(text[start:end], gap=gap_at) if gap_at is not None else kinds[start, end])
        at = end
    if at < len(text):
        pieces.append(Text(text[at:]))
    return pieces
