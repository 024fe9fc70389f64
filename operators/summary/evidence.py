"""Finds the turn in memory that resolves a gap, if there is one: it shares the gap's rare words.

The turn's score and its rank for the gap count as well. A weak match is not used as evidence,
because a wrong explanation is worse than none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.language.lexicon import words
from backscroll.operators.language.salience import AnalysedTurn, analyse_turns
from backscroll.operators.language.sentences import sentences
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.messages import Turn

__all__ = ["GapEvidence", "resolve_gaps"]

_LEAST = 1.1
_OWN_GAP, _RARE_WORDS = 0.2, 0.5
_QUOTE_CHARACTERS = 160

GapEvidence = tuple[MemoryTurn, str]
"""A turn in memory and the verbatim sentences of it that say most about the gap."""


def resolve_gaps(
    window: Sequence[Turn], gaps: Sequence[Gap], memory: Sequence[MemoryTurn]
) -> Mapping[int, GapEvidence]:
    """The evidence for each gap that has any, by the gap's index; `window` holds the window's turns."""
    if not gaps:
        return {}
    readings = {reading.turn.id: reading for reading in analyse_turns(window)}
    memory = [entry for entry in memory if entry.text.strip()]
    remembered = [
        _stems(reading)
        for reading in analyse_turns([replace(entry.turn, text=entry.text) for entry in memory])
    ]
    texts = [*map(_stems, readings.values()), *remembered]
    frequency = Counter(stem for stems in texts for stem in stems)
    rarity = {stem: log((len(texts) + 1) / count) for stem, count in frequency.items()}
    authors = {word.stem for reading in readings.values() for word in words(reading.turn.author.name)}
    found = {}
    for index, gap in enumerate(gaps):
        if gap.utterance not in readings or not memory:
            continue
        wanted = _wanted(gap, readings[gap.utterance]) - authors
        scored = []
        said = readings[gap.utterance].turn.text.split()
        for entry, stems in zip(memory, remembered, strict=True):
            if entry.text.split() == said:  # the same words explain nothing
                continue
            shared = sum(rarity[stem] for stem in stems & wanted)
            strength = _RARE_WORDS * shared / (3 + log(2 + len(stems)))
            if entry.gap == index:
                strength += entry.score + _OWN_GAP / entry.rank**0.5
            scored.append((strength, entry.turn.seq, entry))
        strength, _, best = max(scored, key=lambda item: item[:2], default=(0.0, 0, None))
        if best is not None and strength >= _LEAST:
            found[index] = best, _best_sentences(best.text, wanted, rarity)
    return found


def _stems(reading: AnalysedTurn) -> set[str]:
    return {word.stem for word in reading.content}


def _wanted(gap: Gap, utterance: AnalysedTurn) -> set[str]:
    says_something = utterance.lexicon.says_something
    return {word.stem for word in words(gap.text) if says_something(word)}


def _best_sentences(text: str, wanted: set[str], rarity: Mapping[str, float]) -> str:
    """The sentence with the rarest shared words and, while it stays short, its neighbours."""
    spans = sentences(text) or ((0, len(text)),)

    def weight(index: int) -> float:
        stems = {word.stem for word in words(text[slice(*spans[index])])}
        return sum(rarity.get(stem, 0.0) for stem in stems & wanted)

    first = last = max(range(len(spans)), key=lambda index: (weight(index), -index))
    while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= _QUOTE_CHARACTERS:
        last += 1
    while first > 0 and spans[last][1] - spans[first - 1][0] <= _QUOTE_CHARACTERS:
        first -= 1
    return text[spans[first][0] : spans[last][1]]
