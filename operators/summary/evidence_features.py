"""Features of gaps and of turns in memory: which turn explains a gap, and would a reader ask about it?

A pronoun shares no rare word with what it stands for. So besides words and vectors the features say who
speaks to whom, how far back a turn is, what was asked, and whether its neighbours are about the same.
They are computed from the window and its memory alone, so that they exist for every memory strategy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from math import log, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.gaps.rules import context_dependence
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.language.lexicon import words
from backscroll.operators.language.salience import AnalysedTurn, analyse_turns
from backscroll.operators.memory.features import log_rank
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.messages import Turn

__all__ = ["ASKED", "DENSE", "EVIDENCE", "RANKED", "Exchange", "ExchangeVectors"]

Floats = NDArray[np.floating[Any]]

ASKED = ("place", "leaning", "words", "spoke", "question")
"""Features of a gap: would a reader ask about it?"""
RANKED = ("score", "rank", "own_gap", "relevance", "relevance_rank", "relevance_z")
"""Features that need a memory whose turns were ranked for each gap."""
DENSE = (
    *("previous_cosine", "window_cosine", "near_cosine", "below_best", "cosine_rank"),
    *("z", "near_z", "before_z", "around_z", "opening_z"),
)
"""Features that need vectors."""
EVIDENCE = (
    *("place", "away", "minutes", "tokens", "code", "salience"),
    *("named", "named_last", "author_last", "asks_author", "own_question"),
    *("previous_asks", "previous_same", "next_same"),
    *("rarest", "quote_shared", "new_shared", "beyond_window", "near_shared", "gap_rank", "near_gap"),
    *("opening_back", "opening_same_author", "opening_question", "opening_latest", "opening_share"),
    *RANKED,
    *DENSE,
)
"""Features of a gap and a turn in memory: does the turn explain the gap?"""

_OPENING = 3  # turns of a window that continue what was said just before it
_LATEST = 3  # turns
_LATE = 12  # the place of all later turns
_NEAR = (-2, -1, 1, 2)
_APART = -2.0  # a standardised cosine where there is no neighbour


@dataclass(frozen=True, slots=True)
class ExchangeVectors:
    """Unit vectors of the turns of a window and of its memory, float32 `[turns, dimensions]` each."""

    window: Vectors
    memory: Vectors


@dataclass(frozen=True, slots=True)
class _Utterance:
    """What is needed of the utterance of a gap, to compare it with every turn in memory."""

    place: int
    turn: Turn
    speaker: str
    words: frozenset[str]
    stems: frozenset[str]
    new: frozenset[str]
    quoted: frozenset[str]
    weight: float

    @property
    def opening(self) -> bool:
        """Whether it continues what was said just before the window."""
        return self.place < _OPENING


class Exchange:
    """A window with its memory, read once for all of its gaps.

    Args:
        window: the window's turns.
        memory: the turns in memory, which have words.
        vectors: their vectors, in the same order, if there are any.
    """

    def __init__(
        self, window: Sequence[Turn], memory: Sequence[MemoryTurn], vectors: ExchangeVectors | None
    ) -> None:
        self.window, self.memory, self.vectors = window, memory, vectors
        readings = context_dependence(window)
        self.places = {turn.id: place for place, turn in enumerate(window)}
        self.analysed = [analysed for analysed, _ in readings]
        self._leaning = [leaning for _, leaning in readings]
        self._earlier = analyse_turns([replace(entry.turn, text=entry.text) for entry in memory])
        self._said = [_stems(analysed) for analysed in self.analysed]
        self.remembered = [_stems(analysed) for analysed in self._earlier]
        texts = [*self._said, *self.remembered]
        frequency = Counter(stem for stems in texts for stem in stems)
        self.rarity = {stem: log((len(texts) + 1) / count) for stem, count in frequency.items()}
        self._names = [_first_name(entry.turn) for entry in memory]
        self._everyone = {*self._names, *(_first_name(turn) for turn in window)}
        self._position = {entry.turn.seq: position for position, entry in enumerate(memory)}
        self._last_of = {entry.turn.author.name: entry.turn.seq for entry in memory}
        self._overlap = np.array(
            [[self._shared(stems & said) for said in self._said] for stems in self.remembered]
        )
        score = np.array([[entry.score for entry in memory]])
        self._ranks = log_rank(score)[0] if memory else score[0]

    @property
    def ranked(self) -> bool:
        """Whether the memory says how relevant each of its turns is to each gap."""
        return all(entry.relevance for entry in self.memory)

    def asked(self, gap: Gap) -> dict[str, Floats]:
        """`ASKED` of a gap, each `[1]`."""
        place = self.places[gap.utterance]
        turn, analysed = self.window[place], self.analysed[place]
        row = (
            min(place, _LATE),
            self._leaning[place],
            log1p(len(analysed.content)),
            any(earlier.author.name == turn.author.name for earlier in self.window[:place]),
            "?" in turn.text,
        )
        return {name: np.array([float(value)]) for name, value in zip(ASKED, row, strict=True)}

    def evidence(self, gap: Gap, index: int) -> dict[str, Floats]:
        """`EVIDENCE` of a gap and every turn in memory, each `[memory]`; `index` is that of the gap."""
        utterance = self._utterance(gap)
        shared = [self._shared(stems & utterance.stems) for stems in self.remembered]
        wanted = {word.stem for word in words(gap.text)} - self._everyone
        for_gap = np.array([self._shared(stems & wanted) for stems in self.remembered])
        total = self._shared(wanted & self.rarity.keys()) + 1e-6
        gap_ranks = log_rank(for_gap[None])[0]
        rows = [
            self._row(position, utterance, shared[position], index)
            | {
                "near_shared": max((shared[at] for at in self._near(position)), default=0.0),
                "gap_rank": gap_ranks[position],
                "near_gap": max((for_gap[at] for at in self._near(position)), default=0.0) / total,
            }
            for position in range(len(self.memory))
        ]
        found = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
        return found | self._relevance(index) | self._cosines(utterance.place)

    def _utterance(self, gap: Gap) -> _Utterance:
        place = self.places[gap.utterance]
        stems = self._said[place] - self._everyone  # without names of authors
        return _Utterance(
            place,
            self.window[place],
            _first_name(self.window[place]),
            frozenset(word.lower for word in self.analysed[place].words),
            frozenset(stems),
            frozenset(stems.difference(*self._said[:place])),
            frozenset(stems & {word.stem for word in words(gap.quote)}),
            self._shared(stems) + 1e-6,
        )

    def _row(self, position: int, utterance: _Utterance, shared: float, index: int) -> dict[str, float]:
        entry, stems, name = self.memory[position], self.remembered[position], self._names[position]
        turn, earlier, analysed = utterance.turn, entry.turn, self._earlier[position]
        place, opening, speaker = utterance.place, utterance.opening, utterance.speaker
        question, same = "?" in entry.text, earlier.author.name == turn.author.name
        named = name != speaker and name in utterance.words
        before = self._neighbour(position, -1)
        elsewhere = np.delete(self._overlap[position], place).max(initial=0.0)
        return {
            "place": min(place, _LATE),
            "away": log1p(max(0, turn.seq - earlier.seq - 1)),
            "minutes": log1p(max(0.0, (turn.ts - earlier.ts).total_seconds() / 60)),
            "tokens": log1p(entry.tokens),
            "code": "`" in entry.text or "http" in entry.text,
            "salience": analysed.salience,
            "named": named,
            "named_last": named and self._last_of[earlier.author.name] == earlier.seq,
            "author_last": self._last_of[earlier.author.name] == earlier.seq,
            "asks_author": question and any(word.lower == speaker for word in analysed.words),
            "own_question": question and same,
            "previous_asks": before is not None and "?" in before.text,
            "previous_same": _same_author(before, entry),
            "next_same": _same_author(self._neighbour(position, 1), entry),
            "rarest": max((self.rarity[stem] for stem in stems & utterance.stems), default=0.0),
            "quote_shared": self._shared(stems & utterance.quoted),
            "new_shared": self._shared(stems & utterance.new),
            "beyond_window": shared - elsewhere,
            "opening_back": opening * log1p(max(0, self.window[0].seq - earlier.seq - 1)),
            "opening_same_author": opening and same,
            "opening_question": opening and question,
            "opening_latest": opening and self.window[0].seq - earlier.seq <= _LATEST,
            "opening_share": opening * shared / utterance.weight,
            "score": entry.score,
            "rank": self._ranks[position],
            "own_gap": entry.gap == index,
        }

    def _relevance(self, index: int) -> dict[str, Floats]:
        """How relevant the ranker found every turn in memory to a gap; zero if it ranked none."""
        odds = np.array([entry.relevance[index] if self.ranked else 0.0 for entry in self.memory])
        return {
            "relevance": odds,
            "relevance_rank": log_rank(odds[None])[0],
            "relevance_z": (odds - odds.mean()) / (odds.std() + 1e-6),
        }

    def _cosines(self, place: int) -> dict[str, Floats]:
        """`DENSE` of every turn in memory; zero without vectors."""
        if self.vectors is None:
            return {name: np.zeros(len(self.memory)) for name in DENSE}
        cosines = self.vectors.memory @ self.vectors.window.T
        own = cosines[:, place].astype(np.float64)
        z = (own - own.mean()) / (own.std() + 1e-6)
        near = [self._near(position) for position in range(len(self.memory))]
        before = [self._position.get(entry.turn.seq - 1) for entry in self.memory]
        return {
            "previous_cosine": cosines[:, max(0, place - 1)],
            "window_cosine": cosines.mean(axis=1),
            "near_cosine": np.array([max(own[at], default=0.0) for at in near]),
            "below_best": own - own.max(),
            "cosine_rank": log_rank(own[None])[0],
            "z": z,
            "near_z": np.array([max(z[at], default=_APART) for at in near]),
            "before_z": np.array([_APART if at is None else z[at] for at in before]),
            "around_z": np.array([np.mean([z[position], *z[at]]) for position, at in enumerate(near)]),
            "opening_z": z * (place < _OPENING),
        }

    def _shared(self, stems: Set[str]) -> float:
        return sum(self.rarity[stem] for stem in sorted(stems))

    def _near(self, position: int) -> list[int]:
        """Where the turns right before and after a turn are in memory, if they are."""
        seq = self.memory[position].turn.seq
        return [self._position[seq + by] for by in _NEAR if seq + by in self._position]

    def _neighbour(self, position: int, by: int) -> MemoryTurn | None:
        found = self._position.get(self.memory[position].turn.seq + by)
        return None if found is None else self.memory[found]


def _same_author(one: MemoryTurn | None, other: MemoryTurn) -> bool:
    return one is not None and one.turn.author.name == other.turn.author.name


def _stems(analysed: AnalysedTurn) -> set[str]:
    return {word.stem for word in analysed.content}


def _first_name(turn: Turn) -> str:
    return next((word.lower for word in words(turn.author.name)), "")
