"""Salience: how much an utterance deserves a place in a summary, judged by its words alone.

Plans, decisions, requests, results and personal updates count; greetings, thanks and reactions do not.
No model is used. In a language without word lists, salience depends on length and on words new to the
window.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp

from backscroll.operators.language.lexicon import Cue, Lexicon, Word, lexicons, spaced_lexicons, words
from backscroll.operators.messages import Turn

__all__ = ["AnalysedTurn", "analyse_turns"]

_NOT_PROSE = re.compile(
    r"```.*?(?:```|\Z)|<?https?://\S+|\[shares? [^\]]*\]|(?<!\w):[a-z0-9_+-]+:(?!\w)", re.DOTALL
)
_FIGURE = re.compile(
    r"\d|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:january|february|march|april|june|july|august"
    r"|september|october|november|december)\b",
    re.IGNORECASE,
)
_BONUS = {"plans": 0.18, "events": 0.18, "asks": 0.08}
_BOT = 0.4


@dataclass(frozen=True, slots=True)
class AnalysedTurn:
    """A turn split into words and cues for the rules.

    `text` is the turn's text with everything that is not prose blanked, so its length does not change;
    `content` are the words with content; `salience` is in [0, 1].
    """

    turn: Turn
    text: str
    lexicon: Lexicon
    words: tuple[Word, ...]
    content: tuple[Word, ...]
    cues: tuple[Cue, ...]
    salience: float


def analyse_turns(turns: Sequence[Turn]) -> tuple[AnalysedTurn, ...]:
    """Split the turns of a window into words and cues, and score the salience of each.

    Content words raise salience with diminishing returns, and words new to the window raise it more than
    repeated ones. Plans, events, requests and numbers add to it; social phrases and bots lower it.
    """
    texts = [_prose(turn.text) for turn in turns]
    tokens = [tuple(words(text)) for text in texts]
    usual = _language((word for line in tokens for word in line), lexicons()["en"])
    seen: set[str] = set()
    analysed = []
    for turn, text, line in zip(turns, texts, tokens, strict=True):
        lexicon = _language_by_letters(text) or _language(line, usual)
        cues = tuple(lexicon.cues(text, line))
        content = tuple(word for word in line if lexicon.says_something(word))
        score = _score(text, content, cues, seen) * (_BOT if turn.author.bot else 1.0)
        analysed.append(AnalysedTurn(turn, text, lexicon, line, content, cues, score))
    return tuple(analysed)


def _prose(text: str) -> str:
    """Blank code blocks, addresses and attachment notes, and normalise apostrophes."""
    return _NOT_PROSE.sub(lambda match: " " * len(match.group()), text).replace("’", "'")


def _language_by_letters(text: str) -> Lexicon | None:
    """The language whose own letters occur in the text, if any."""
    return next((lexicon for lexicon in lexicons().values() if lexicon.has_letters_in(text)), None)


def _language(line: Iterable[Word], usual: Lexicon) -> Lexicon:
    """The lexicon of the language most of the words belong to; `usual` on a tie."""
    found = {word.lower for word in line}
    return max((usual, *spaced_lexicons()), key=lambda lexicon: len(found & lexicon.function))


def _score(text: str, content: Sequence[Word], cues: Sequence[Cue], seen: set[str]) -> float:
    social = [(cue.start, cue.end) for cue in cues if cue.family == "social"]
    weight = 0.0
    for word in {word.stem: word for word in content}.values():
        if not any(start <= word.start < end for start, end in social):
            weight += (0.6 if word.stem in seen else 1.0) * max(1.0, len(word.text) / 8)
            seen.add(word.stem)
    if not weight:
        return 0.0
    score = 0.62 * (1 - exp(-weight / 7))
    score += sum(_BONUS.get(family, 0.0) for family in {cue.family for cue in cues}) * min(1.0, weight / 3)
    if _FIGURE.search(text):
        score += 0.06
    if "?" in text or "？" in text:
        score += 0.06 if weight >= 3 else -0.05
    return max(0.0, min(1.0, score))
