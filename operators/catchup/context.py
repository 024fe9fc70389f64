"""The earlier messages that explain a message, so that a line about it can be read on its own.

A reply is explained by the message it answers, a message in a thread by the previous one there, and an
utterance with a resolved gap by its evidence. That evidence comes from the stored summary, or is
retrieved from the history before the message (`summary.evidence`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta

from backscroll.operators.acts.reading import asks
from backscroll.operators.gaps.gap import GapDetector
from backscroll.operators.history.channel import AsOf
from backscroll.operators.language.lexicon import words
from backscroll.operators.language.salience import AnalysedTurn
from backscroll.operators.language.sentences import sentences, shortened, with_neighbours
from backscroll.operators.memory.request import MemoryParameters, MemoryRequest, MemoryStrategy, MemoryTurn
from backscroll.operators.memory.verbatim import build_verbatim
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import Window
from backscroll.operators.summary.evidence import exchange_vectors, resolve_gaps
from backscroll.operators.summary.record import Summary

__all__ = ["ContextFinder", "EarlierMessage", "from_record", "from_threads"]

_QUOTE = 140  # characters of an earlier message
_NEARBY = 40  # earlier messages that are in no window yet
_GAPS = 8
_TINY, _SHORT = 2, 10  # content words
_OPENING = 12  # characters
_SOON = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class EarlierMessage:
    """An earlier message, and the verbatim part of it that explains a later one."""

    turn: Turn
    text: str


def from_threads(
    analysed_turns: Sequence[AnalysedTurn], known: Mapping[str, Turn]
) -> dict[str, EarlierMessage]:
    """What replies and messages in threads answer, by the id of the reply.

    Args:
        analysed_turns: the messages of the period, in order.
        known: every message of the channel that is not deleted, by id.
    """
    last_in_thread = dict[str, Turn]()
    found = dict[str, EarlierMessage]()
    previous: AnalysedTurn | None = None
    for analysed in analysed_turns:
        turn = analysed.turn
        answered = known.get(turn.reply_to or "")
        if answered is None and turn.thread is not None and turn.thread != turn.id:
            answered = last_in_thread.get(turn.thread) or known.get(turn.thread)
        if answered is None and turn.thread is None and previous is not None and _answers(analysed, previous):
            answered = previous.turn
        if answered is not None and answered.author.id != turn.author.id:
            found[turn.id] = EarlierMessage(
                answered, _quote(answered.text, {word.stem for word in analysed.content})
            )
        if turn.thread is not None:
            last_in_thread[turn.thread] = turn
        previous = analysed
    return found


def from_record(record: Summary, known: Mapping[str, Turn]) -> dict[str, EarlierMessage]:
    """The evidence of a stored summary's gaps, by the id of the utterance."""
    found = dict[str, EarlierMessage]()
    for gap in record.gaps:
        for id_ in gap.evidence:
            entry = next((entry for entry in record.memory if entry.id == id_), None)
            if entry is not None and id_ in known:
                found.setdefault(gap.utterance, EarlierMessage(known[id_], _quote(entry.text)))
    return found


@dataclass(frozen=True)
class ContextFinder:
    """Finds evidence for messages that have no summary yet."""

    detector: GapDetector
    strategy: MemoryStrategy
    parameters: MemoryParameters

    def recall(self, window: Window, history: AsOf, nearby: Iterable[Turn]) -> dict[str, EarlierMessage]:
        """Find evidence, by the id of the utterance.

        Args:
            window: the messages to explain.
            history: the closed windows before them.
            nearby: the messages between that history and the window.
        """
        gaps = self.detector.detect(window, max_gaps=_GAPS)
        if not gaps:
            return {}
        request = MemoryRequest(window.turns, gaps, history, self.parameters)
        memory = [
            *build_verbatim(self.strategy, request).turns,
            *(MemoryTurn(turn, None, turn.tokens) for turn in list(nearby)[-_NEARBY:]),
        ]
        memory = [entry for entry in memory if not entry.turn.deleted]
        vectors = exchange_vectors(window.turns, memory, history, self.parameters.embedder)
        evidence = resolve_gaps(window.turns, gaps, memory, vectors).evidence
        return {
            gaps[index].utterance: EarlierMessage(found.entry.turn, found.quote)
            for index, (found, *_) in evidence.items()
        }


def _quote(text: str, stems: Set[str] = frozenset()) -> str:
    """The sentence that shares most words with a later message, and its neighbours as far as they fit.

    If no sentence shares any, start from the first one with content.
    """
    spans = sentences(text) or ((0, len(text)),)

    def shared(place: int) -> tuple[int, bool]:
        said = list(words(text[slice(*spans[place])]))
        return len(stems & {word.stem for word in said}), len(said) > _TINY

    best = max(range(len(spans)), key=lambda place: (*shared(place), -place))
    start, end = with_neighbours(spans, best, best, _QUOTE)
    return shortened(text[start:end], _QUOTE)


def _answers(analysed: AnalysedTurn, previous: AnalysedTurn) -> bool:
    """Whether a short message answers the one right before it: it starts like an answer or has few words."""
    if previous.turn.author.bot or analysed.turn.ts - previous.turn.ts > _SOON:
        return False
    opens = any(cue.family in ("answers", "decides") and cue.start <= 1 for cue in analysed.cues)
    points = any(cue.family in ("things", "people") and cue.start <= _OPENING for cue in analysed.cues)
    words = len(analysed.content)
    if words <= _TINY or (words <= _SHORT and (opens or asks(previous.text))):
        return True
    return points and words <= _SHORT // 2
