"""Finds gaps by rules: which utterances depend on something said before the window, judged by words alone.

>>> from datetime import UTC, datetime
>>> from backscroll.operators.messages import Author, ChannelKey, Turn
>>> from backscroll.operators.stream.windows import WindowRef
>>> said = ["We still run the old schema, so that job fails again.", "Ok, I will restart the job now."]
>>> turns = [Turn(n, f"m{n}", datetime(2026, 3, 2, 9, n, tzinfo=UTC), Author("u1", "Ana"), text, 12, 0)
...          for n, text in enumerate(said)]
>>> window = Window(WindowRef(ChannelKey("default", "ops"), 0, 0, 1), tuple(turns))
>>> gap = RulesDetector().detect(window, max_gaps=1)[0]
>>> gap.utterance, gap.quote
('m0', 'We still run the old schema, so that job fails again.')
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.language.lexicon import Cue, Word
from backscroll.operators.language.salience import AnalysedTurn, analyse_turns
from backscroll.operators.language.sentences import sentences
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import Window

__all__ = ["RulesDetector", "context_dependence"]

# The weight of an unresolved phrase, by kind.
STRENGTH = {
    "recall": 1.3,
    "reply": 1.2,
    "mention": 1.0,
    "repeats": 0.8,
    "yours": 0.7,
    "ticket": 0.7,
    "thing": 0.5,
    "decides": 0.5,
    "people": 0.35,
    "definite": 0.25,
    "mine": 0.2,
    "answers": 0.2,
    "name": 0.15,
    "connects": 0.1,
    "compares": 0.05,
}
# By the turn's position: a window cuts into a conversation, so its first turns depend most on the history.
POSITION = (8.0, 2.0, 2.2, 1.5)
LATER, AFTER_PAUSE = 1.0, 0.75
_PAUSE = timedelta(hours=4)
_SALIENCE_POWER = 0.35  # below 1, so that a short utterance can be a gap
_UNCUED = 0.4  # strength of any utterance, even without a cue
_LEAST = 0.7  # minimum score of a gap
_PEOPLE_REACH, _QUESTION_REACH, _THING_REACH = 6, 5, 3
_KEYWORDS, _FROM_CONTEXT, _REACH, _DECAY = 8, 3, 3, 0.6
_LONG, _REST = 180, 400
_WHOLE = frozenset(("opening", "reply", "answers", "connects"))  # concern the whole utterance, not a phrase
_MENTION = re.compile(r"<?@([\w.\-]+)>?")
_TICKET = re.compile(r"(?<![\w/#])(?:[A-Z][A-Z0-9]+-\d+|#\d+)\b")
_EXISTS = re.compile(r"\s*(?:is|are|was|were|isn't|aren't|will|has|have)\b")
_CLAUSE = re.compile(r"(?<=[,;:])\s+|\s+[-–—]+\s+|(?<=[、，；])|\s+(?=(?:but|and|so|because)\s)")


@dataclass(frozen=True, slots=True)
class _Hit:
    """An unresolved phrase of one kind (a key of `STRENGTH`, or `opening`) at `start:end` of an utterance."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True)
class RulesDetector:
    """Finds gaps with cue words, without a model.

    The score of an utterance is the strength of its cues, times its salience, times a weight for its
    position in the window.
    """

    name: str = "rules"

    def detect(self, window: Window, *, max_gaps: int = 8) -> tuple[Gap, ...]:
        """The most important gaps of the window, at most one per utterance, in window order."""
        turns = window.turns
        window_reading = _WindowReading(turns)
        scores = [window_reading.score(i) for i in range(len(turns))]
        ranked = sorted(range(len(turns)), key=lambda i: -scores[i])[: max(0, max_gaps)]
        return tuple(window_reading.gap(i) for i in sorted(ranked) if scores[i] >= _LEAST)


def context_dependence(turns: Sequence[Turn]) -> list[tuple[AnalysedTurn, float]]:
    """Every turn of a window, analysed, with a score from 0 for how much it depends on the history."""
    window_reading = _WindowReading(turns)
    return [
        (analysed, window_reading.score(place))
        for place, analysed in enumerate(window_reading.analysed_turns)
    ]


class _WindowReading:
    """An analysed window: what was said where, and which phrases are unresolved."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = turns
        self.analysed_turns = analyse_turns(turns)
        self.ids = {turn.id for turn in turns}
        self.names = {part for turn in turns for part in turn.author.name.lower().split()}
        self.first_said: dict[str, tuple[int, int]] = {}
        self.first_spoke: dict[str, int] = {}
        self.broken_at = len(turns)
        for i, analysed in enumerate(self.analysed_turns):
            self.first_spoke.setdefault(analysed.turn.author.name.lower(), i)
            if i and i < self.broken_at and turns[i].ts - turns[i - 1].ts > _PAUSE:
                self.broken_at = i
            for word in analysed.words:
                self.first_said.setdefault(word.stem, (i, word.start))
        self.opening = [self._opening(analysed) for analysed in self.analysed_turns]
        self.first_person = [self._first_person(analysed) for analysed in self.analysed_turns]
        self.hits = [tuple(self._hits(i)) for i in range(len(turns))]

    def score(self, i: int) -> float:
        """Cue strength x salience x position; 0 for an utterance without any sign of a gap."""
        if not self.hits[i] and i:
            return 0.0
        strength = _UNCUED + sum(STRENGTH[kind] for kind in {hit.kind for hit in self.hits[i]})
        place = POSITION[i] if i < len(POSITION) else AFTER_PAUSE if i >= self.broken_at else LATER
        salience = self.analysed_turns[i].salience
        return strength * (salience + 0.05) ** _SALIENCE_POWER * place if salience else 0.0

    def gap(self, i: int) -> Gap:
        """The gap of an utterance, based on its strongest hit.

        The text is a retrieval query, so it contains nothing that would distract the search: on the gap
        benchmark, an author's name, a longer reason and a repeated phrase all reduced recall.
        """
        turn = self.turns[i]
        hit = max(self.hits[i], key=lambda hit: STRENGTH[hit.kind], default=_Hit("opening", 0, 0))
        start, end = self._quoted(i, hit)
        phrase = turn.text[hit.start : hit.end]
        rest = " ".join((turn.text[:start] + " " + turn.text[end:]).split())[:_REST]
        return Gap(
            utterance=turn.id,
            quote=turn.text[start:end],
            reason=f"'{phrase}' is left open." if phrase else "What it goes on from is left open.",
            query=f"earlier: {rest or phrase}".rstrip(),
            keywords=self._keywords(i),
        )

    def _hits(self, i: int) -> Iterator[_Hit]:
        analysed = self.analysed_turns[i]
        text, turn = analysed.text, analysed.turn
        if any(link is not None and link not in self.ids for link in (turn.reply_to, turn.thread)):
            yield _Hit("reply", 0, 0)
        for match in _MENTION.finditer(text):
            if self.first_spoke.get(match[1].lower(), i) >= i:
                yield _Hit("mention", match.start(), match.end())
        for match in _TICKET.finditer(text):
            if not any(match.group() in earlier.text for earlier in self.analysed_turns[:i]):
                yield _Hit("ticket", match.start(), match.end())
        for cue in analysed.cues:
            yield from self._judge(i, cue)
        introduced = {cue.end + 1 for cue in analysed.cues if cue.family == "introduces"}
        for word in () if analysed.lexicon.noun_capitals else analysed.content:
            if word.start not in introduced and self._is_name(analysed, word) and self._is_new(i, word):
                yield _Hit("name", word.start, word.end)

    def _judge(self, i: int, cue: Cue) -> Iterator[_Hit]:
        """The hit for a cue, unless the window resolves it."""
        analysed = self.analysed_turns[i]
        match cue.family:
            case "recall" | "repeats" | "compares" | "decides":
                yield _Hit(cue.family, cue.start, cue.end)
            case "answers" if cue.start <= self.opening[i] and not self._asked_before(i):
                yield _Hit("answers", cue.start, cue.end)
            case "connects" if cue.start <= self.opening[i]:
                yield _Hit("connects", cue.start, cue.end)
            case "things" if self._is_dangling(i, cue):
                yield _Hit("thing", cue.start, cue.end)
            case "people" if not self._person_before(i, cue.start):
                yield _Hit("people", cue.start, cue.end)
        if cue.family in ("definite", "possessive"):
            nouns = self._noun_phrase(analysed, cue)
            if nouns and all(self._is_new(i, word) for word in nouns):
                opener = analysed.text[cue.start : cue.end].lower()
                whose = "yours" if opener in analysed.lexicon.yours else "mine"
                kind = "definite" if cue.family == "definite" else whose
                yield _Hit(kind, cue.start, nouns[-1].end)

    def _is_new(self, i: int, word: Word) -> bool:
        return self.first_said[word.stem] == (i, word.start)

    def _is_name(self, analysed: AnalysedTurn, word: Word) -> bool:
        if not word.text[0].isupper() or word.lower in analysed.lexicon.known:
            return False
        before = analysed.text[max(0, word.start - 8) : word.start].rstrip(" *_\"'(")
        inside = bool(before) and before[-1] not in ".!?\n>:"
        return inside and not any(
            name.startswith(word.lower) for name in self.names
        )  # "Mel" is short for Melanie

    def _opening(self, analysed: AnalysedTurn) -> int:
        """Where the first word starts, after the name of the person addressed."""
        return next((word.start for word in analysed.words if word.lower not in self.names), 0)

    def _first_person(self, analysed: AnalysedTurn) -> int:
        """Where the first person or name starts; the length of the text if there is none."""
        for word in analysed.words:
            if word.lower in analysed.lexicon.persons:
                return word.start
            if self._is_name(analysed, word) and analysed.lexicon.says_something(word):
                return word.start
        return len(analysed.text)

    def _asked_before(self, i: int) -> bool:
        author = self.turns[i].author
        recent = self.analysed_turns[max(0, i - _QUESTION_REACH) : i]
        return any(
            analysed.turn.author != author and ("?" in analysed.text or "？" in analysed.text)
            for analysed in recent
        )

    def _is_dangling(self, i: int, cue: Cue) -> bool:
        """Whether there is no content before a pronoun, in its utterance or in the few before it."""
        analysed = self.analysed_turns[i]
        if analysed.text[cue.start : cue.end].lower() in analysed.lexicon.definite and self._noun_phrase(
            analysed, cue
        ):
            return False
        if any(word.start < cue.start and word.lower not in self.names for word in analysed.content):
            return False
        if sum(len(above.content) for above in self.analysed_turns[max(0, i - _THING_REACH) : i]) > 4:
            return False
        return analysed.text[cue.start : cue.end].lower() != "there" or not _EXISTS.match(
            analysed.text, cue.end
        )

    def _person_before(self, i: int, end: int) -> bool:
        if self.first_person[i] < end:
            return True
        near = range(max(0, i - _PEOPLE_REACH), i)
        return any(self.first_person[j] < len(self.analysed_turns[j].text) for j in near)

    def _noun_phrase(self, analysed: AnalysedTurn, cue: Cue) -> list[Word]:
        """The content words right after an article or possessive; empty if they need no introduction."""
        found: list[Word] = []
        end = cue.end
        after = bisect_left(analysed.words, cue.end, key=lambda word: word.start)
        for word in analysed.words[after : after + 4]:
            apart = analysed.text[end : word.start].strip(' `_*"')
            verb = found and word.lower.endswith(("ed", "ing")) and analysed.lexicon.says_something(found[-1])
            if apart or verb or len(found) == 3 or analysed.lexicon.is_function(word):
                break
            found.append(word)
            end = word.end
        if not found or found[-1].lower in analysed.lexicon.known:
            return []
        if analysed.text[cue.start : cue.end].lower() == "that" and found[0].lower.endswith(("s", "ed")):
            return []
        return [word for word in found if analysed.lexicon.says_something(word)]

    def _quoted(self, i: int, hit: _Hit) -> tuple[int, int]:
        """The sentence around a hit, or just the clause if the sentence is long."""
        text = self.turns[i].text
        spans = sentences(text) or ((0, len(text)),)
        if hit.kind in _WHOLE:
            content = self.analysed_turns[i].content
            return max(spans, key=lambda span: sum(span[0] <= word.start < span[1] for word in content))
        start, end = next((span for span in spans if hit.start < span[1]), spans[-1])
        if end - start <= _LONG:
            return start, end
        cuts = [start, *(match.end() for match in _CLAUSE.finditer(text, start, end)), end]
        for left, right in pairwise(cuts):
            if hit.start < right and right - left > 30:
                return left, left + len(text[left:right].rstrip())
        return start, end

    def _keywords(self, i: int) -> tuple[str, ...]:
        """Keywords from the utterance, then from its neighbours; words that recur nearby come first."""
        weight: dict[str, float] = {}
        surface: dict[str, str] = {}
        away = {j: self._distance(i, j) for j in range(len(self.turns))}
        for j in sorted((j for j in away if away[j] <= _REACH), key=lambda j: away[j]):
            for word in _distinct(self.analysed_turns[j].content):
                if word.lower not in self.names:
                    surface.setdefault(word.stem, word.text)
                    bonus = 1.3 if len(word.text) > 6 else 1.0
                    weight[word.stem] = weight.get(word.stem, 0.0) + bonus * _DECAY ** away[j]
        ranked = sorted(weight, key=lambda stem: -weight[stem])
        own = {word.stem for word in self.analysed_turns[i].content}
        mine = [stem for stem in ranked if stem in own][: _KEYWORDS - _FROM_CONTEXT]
        others = [stem for stem in ranked if stem not in own][: _KEYWORDS - len(mine)]
        return tuple(surface[stem] for stem in (*mine, *others))

    def _distance(self, i: int, j: int) -> int:
        """The distance in turns; 1 for a linked pair, 2 more than usual if `i` is in a thread or a reply."""
        turn, other = self.turns[i], self.turns[j]
        links = {turn.id, turn.thread, turn.reply_to} & {other.id, other.thread, other.reply_to}
        if i != j and links - {None}:
            return 1
        return abs(i - j) + (2 if turn.thread or turn.reply_to else 0) * (i != j)


def _distinct(line: Iterable[Word]) -> list[Word]:
    """The first word of each stem."""
    return list({word.stem: word for word in reversed(list(line))}.values())[::-1]
