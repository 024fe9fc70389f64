"""An extractive digest, written without a model: what was said, and the earlier messages it refers to.

The salient utterances appear in window order, one per line: time (with month and day if the window
spans several days, and with the year if it spans several years), author and verbatim sentences. A
span that presupposes something is followed by its evidence in brackets: author, time and verbatim
sentences of each earlier message, if they leave enough room for the window itself. The program adds no
words of its own. If a message is too long to quote whole sentences, only its beginning is quoted, with
an ellipsis.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

from backscroll.operators.acts.classifier import Acts, find_acts
from backscroll.operators.acts.reading import read_messages
from backscroll.operators.gaps.gap import Gap
from backscroll.operators.language.lexicon import words
from backscroll.operators.language.salience import analyse_turns
from backscroll.operators.language.sentences import with_neighbours
from backscroll.operators.language.tokens import count, decode, encode
from backscroll.operators.messages import Turn
from backscroll.operators.summary.evidence import Evidence
from backscroll.operators.summary.times import time_format

__all__ = ["ExtractiveSummarizer"]

_LEAST_LINE = 10  # tokens: time, name and a few words
_RESOLVED = 0.1  # what evidence adds to the salience of an utterance
_MOST_NOTES = 0.4  # of all tokens
_BOT = 0.4  # how much what bots say counts
_QUOTE = 100  # characters; a sentence is extended to its neighbours up to this length
_NAME = 40  # characters
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An utterance that may get a line, what it does, and its gap if evidence was found for it."""

    acts: Acts
    gap: int | None

    @property
    def turn(self) -> Turn:
        return self.acts.message.turn

    @property
    def score(self) -> float:
        worth = self.acts.probabilities["point"] * (_BOT if self.turn.author.bot else 1.0)
        return worth + _RESOLVED * (self.gap is not None)

    @property
    def says_something(self) -> bool:
        return self.acts.message.analysed.salience > 0


@dataclass(frozen=True, slots=True)
class ExtractiveSummarizer:
    """Writes digests of at most `max_tokens` tokens, 32 or more, with times in `zone`."""

    max_tokens: int = 200
    zone: tzinfo = UTC
    name: str = field(default="extractive", init=False)

    def summarize(
        self, turns: Sequence[Turn], gaps: Sequence[Gap], evidence: Mapping[int, Sequence[Evidence]]
    ) -> str:
        """The digest of a window; it has at least one line unless the window has no words.

        Args:
            turns: the window's turns.
            gaps: the window's gaps.
            evidence: the evidence for gaps, by their index, as `resolve_gaps` returns it.
        """
        resolved = {gaps[index].utterance: index for index in evidence}
        names = {turn.author.name for turn in turns if not turn.author.bot}
        candidates = [
            _Candidate(acts, resolved.get(acts.message.turn.id))
            for acts in find_acts(read_messages(analyse_turns(turns), names), kinds=("point",))
            if acts.message.turn.text.strip()
        ]
        candidates.sort(key=lambda candidate: (-candidate.score, candidate.turn.seq))
        return self._fill(candidates, gaps, evidence, time_format((turn.ts for turn in turns), self.zone))

    def _fill(
        self,
        candidates: Iterable[_Candidate],
        gaps: Sequence[Gap],
        evidence: Mapping[int, Sequence[Evidence]],
        clock: str,
    ) -> str:
        """Take the best candidates until the budget is used up, and put them in window order."""
        lines, said, noted = list[tuple[int, str]](), set[str](), set[int]()
        left, left_for_notes = self.max_tokens, int(_MOST_NOTES * self.max_tokens)
        for candidate in candidates:
            if left < _LEAST_LINE:
                break
            turn, index = candidate.turn, candidate.gap
            spoken = {word.stem for word in words(turn.text)}
            repeats = len(spoken & said) > 0.8 * len(spoken)
            if lines and (repeats or not candidate.says_something):
                continue
            head, line = self._head(turn, clock), None
            found, quote = ((), "") if index is None else (evidence[index], gaps[index].quote)
            new = [one for one in found if one.entry.turn.seq not in noted]
            for quoted in (new, new[:1]) if new else ():  # both messages, or the better one
                note = self._notes(quoted, turn)
                if line is None and count(note) <= left_for_notes:
                    line = self._line(head, candidate, left, quote, note)
                    if line is not None:
                        left_for_notes -= count(note)
                        noted |= {one.entry.turn.seq for one in quoted}
            line = line or self._line(head, candidate, left)
            if line is None:
                continue
            lines.append((turn.seq, line))
            left -= count(line + "\n")
            said |= spoken
        if not lines:
            turns = [candidate.turn for candidate in candidates][:1]
            lines = [(turn.seq, self._beginning(self._head(turn, clock), turn)) for turn in turns]
        return "\n".join(line for _, line in sorted(lines))

    def _head(self, turn: Turn, clock: str) -> str:
        return f"{turn.ts.astimezone(self.zone):{clock}} {_name(turn)}:"

    def _notes(self, evidence: Sequence[Evidence], turn: Turn) -> str:
        in_order = sorted(evidence, key=lambda one: one.entry.turn.seq)
        return "".join(self._note(one, turn) for one in in_order)

    def _note(self, evidence: Evidence, turn: Turn) -> str:
        """Evidence in brackets: author, time (with the date if it is another day) and verbatim words."""
        earlier = evidence.entry.turn
        said, day = earlier.ts.astimezone(self.zone), turn.ts.astimezone(self.zone).date()
        clock = "%H:%M" if said.date() == day else "%Y-%m-%d %H:%M"
        return f" [{_name(earlier)}, {said:{clock}}: {evidence.quote.strip()}]"

    def _line(
        self, head: str, candidate: _Candidate, left: int, quote: str = "", note: str = ""
    ) -> str | None:
        """One utterance, whole or in part, with a note behind the quote; None if none of it fits."""
        text = candidate.turn.text
        start = text.find(quote) if note else -1
        quoted = (start, start + len(quote)) if start >= 0 else None
        for first, last in _extents(candidate.acts, quoted):
            at = last if quoted is None else min(max(quoted[1], first), last)
            line = " ".join(f"{head} {text[first:at]}{note}{text[at:last]}".split())
            if count(line + "\n") <= min(left, max(self.max_tokens // 2, _LEAST_LINE)):
                return line
        return None

    def _beginning(self, line: str, turn: Turn) -> str:
        """As many leading words of a message too long for the digest as fit."""
        for word in _WORD.findall(turn.text):
            if count(f"{line} {word} …") > self.max_tokens:
                return self._cut(line, word) if line.endswith(":") else f"{line} …"
            line += " " + word
        return line

    def _cut(self, line: str, word: str) -> str:
        """A line with as much as fits of a single overlong word."""
        tokens = encode(word)[: self.max_tokens]
        while tokens and count(f"{line} {decode(tokens)} …") > self.max_tokens:
            tokens.pop()
        return f"{line} {decode(tokens)} …"


def _name(turn: Turn) -> str:
    """The author's name, shortened if it would leave no room for words."""
    return turn.author.name[:_NAME]


def _extents(acts: Acts, quoted: tuple[int, int] | None) -> list[tuple[int, int]]:
    """Parts of a message to try, in whole sentences, longest first; all contain the quote, if any.

    A long message is not quoted as a whole, but by the sentence most worth telling and its neighbours.
    """
    spans = [(sentence.start, sentence.end) for sentence in acts.message.sentences]
    if not spans:
        return []
    first = last = acts.best_sentence("point")
    if quoted is not None:
        at = [place for place, span in enumerate(spans) if span[1] > quoted[0] and span[0] < quoted[1]]
        first, last = (at[0], at[-1]) if at else (first, last)
    core = spans[first][0], spans[last][1]
    return list(dict.fromkeys([with_neighbours(spans, first, last, _QUOTE), core]))
