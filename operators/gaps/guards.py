"""Guards on a model's gaps: what it may send, and what of it is kept.

The models are the JSON schemas given to the language model (docstrings too) and the checks on its
answer. Every field is required and none may be added, as OpenAI's strict mode and the grammars of
llama.cpp and vLLM want it. Lists have a `maxItems`, which stops a model that loops; texts have no
`maxLength`, which a grammar would enforce by cutting a sentence in half. No answer is thrown away for
its length.

A quote must stand in the window, and where it stands tells the utterance: models name wrong indexes.
A query must not guess the answer: it may use the window's words and words for kinds of missing
information ("reason", "date", "who decided"), not names, numbers or things from nowhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Annotated

from pydantic import Field

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.language.lexicon import Lexicon, Word, spaced_lexicons, words
from backscroll.operators.llm.protocol import ModelAnswer
from backscroll.operators.messages import Turn
from backscroll.operators.stream.windows import Window

__all__ = ["DetectedGap", "DetectedGaps", "find_quote", "guard_gaps"]

_GUESSES = 2  # unknown ordinary words that make a query a guess; one is paraphrase


_PREFIX = 5  # equal first letters that make two words forms of one


_KNOWN_LANGUAGE = 0.25  # share of function words above which a text is taken to be in a language


_JOINER = re.compile(r"[\-./_':@#]+")


_NOT_QUOTED = " \t\r\n\"'“”„«»‹›‘’`*_….,;:!?()[]-–—"


_SAME = str.maketrans(
    dict.fromkeys("“”„«»‟", '"') | dict.fromkeys("‘’‚‹›`´", "'") | dict.fromkeys("–—‑", "-")
)


class DetectedGap(ModelAnswer):
    """An utterance that presupposes something: its quote, why, what to look for, and words to find it by."""

    utterance_index: int
    quote: Annotated[str, Field(description="at most 220 characters")]
    gap_reason: Annotated[str, Field(description="at most 220 characters")]
    evidence_need_query: Annotated[str, Field(description="at most 300 characters")]
    keywords: Annotated[list[str], Field(json_schema_extra={"maxItems": 8})]


class DetectedGaps(ModelAnswer):
    """What the utterances of a window presuppose, the most important first."""

    gaps: Annotated[list[DetectedGap], Field(json_schema_extra={"maxItems": 8})]


def guard_gaps(
    answer: DetectedGaps, window: Window, *, max_gaps: int
) -> tuple[tuple[Gap, ...], Counter[str]]:
    """The gaps of an answer that hold up, in window order, and how many were dropped for what.

    A quote counts as found when it stands in a turn's text, or does so but for white space, case,
    quotation marks, dashes, words left out for an ellipsis, or punctuation at its ends; the gap gets
    the words of the window. Reasons of dropped gaps: `unknown_quote`, `empty_query`, `guessing_query`,
    `repeated_utterance`, `over_limit` (the model's order decides which gaps are kept). Keywords
    that the window does not hold are left out of their gap and counted as `unknown_keyword`.
    """
    said = _Said(window)
    kept = dict[int, Gap]()
    dropped = Counter[str]()
    for detected in answer.gaps:
        found = find_quote(detected.quote, window.turns, detected.utterance_index)
        query = " ".join(detected.evidence_need_query.split())
        if found is None:
            dropped["unknown_quote"] += 1
        elif not any(map(str.isalnum, query)):
            dropped["empty_query"] += 1
        elif said.is_guessed(query):
            dropped["guessing_query"] += 1
        elif found[0] in kept:
            dropped["repeated_utterance"] += 1
        elif len(kept) >= max_gaps:
            dropped["over_limit"] += 1
        else:
            place, quote = found
            keywords = dict.fromkeys(" ".join(word.split()) for word in detected.keywords)
            anchors = tuple(word for word in keywords if word and said.holds(word))
            dropped["unknown_keyword"] += len(keywords) - len(anchors)
            reason = " ".join(detected.gap_reason.split())
            kept[place] = Gap(window.turns[place].id, quote, reason, query, anchors)
    return tuple(kept[place] for place in sorted(kept)), +dropped


def find_quote(quote: str, turns: Sequence[Turn], named: int) -> tuple[int, str] | None:
    """The place of the turn that holds a quote, the named one if it does, and the quote as it is there."""
    if sum(map(str.isalnum, quote)) < 2:
        return None
    order = [named] if 0 <= named < len(turns) else []
    order += [place for place in range(len(turns)) if place != named]
    exact = quote.strip()
    for place in order:
        if exact in turns[place].text:
            return place, exact
    pattern = _loose(quote)
    for place in order:
        # Every character is replaced by one character, so that places in the text stay.
        if pattern and (match := pattern.search(turns[place].text.translate(_SAME))):
            return place, turns[place].text[slice(*match.span())]
    return None


def _loose(quote: str) -> re.Pattern[str] | None:
    """A pattern of whole words for a quote but for white space, case, marks at its ends, an ellipsis."""
    parts = quote.strip(_NOT_QUOTED).translate(_SAME).split()
    if not parts:
        return None
    body = r"\s+".join(map(re.escape, parts)).replace("…", r"\.\.\.")
    body = body.replace(r"\.\.\.", ".{1,200}?", 1)  # once: a second one would cost the square
    return re.compile(rf"(?<![^\W\u3040-\u9fff]){body}(?![^\W\u3040-\u9fff])", re.IGNORECASE)


class _Said:
    """The words of a window's texts and authors, for telling what a query or keyword adds to them."""

    def __init__(self, window: Window) -> None:
        texts = [turn.text for turn in window.turns]
        self.text = _plain(" ".join((*texts, *(turn.author.name for turn in window.turns))))
        self.lexicon = _language(list(words(_plain(" ".join(texts)))))
        self.stems = {part for word in words(self.text) for part in (word.stem, *_parts(word))}
        self.prefixes = {stem[:_PREFIX] for stem in self.stems if len(stem) >= _PREFIX}
        letters = [character for character in self.text if character.isalpha()]
        self.is_latin = sum(letter < "\u0250" for letter in letters) * 2 > len(letters)

    def holds(self, keyword: str) -> bool:
        """Whether a keyword stands in the window, or all of its words do in some form."""
        if _plain(keyword).lower() in self.text.lower():
            return True
        said = [word for word in words(_plain(keyword)) if not _is_function(word)]
        return bool(said) and all(self._knows(word) for word in said)

    def is_guessed(self, query: str) -> bool:
        """Whether a query brings something of its own.

        A number always does, and so does a capitalised word, except where capitals say nothing: at
        the start of a sentence, on German nouns, or when the window is in another script (names are
        transliterated). Of other words it takes two, and only where window and query are in
        the same language with a list of slot words: elsewhere a query may be a translation.
        """
        line = list(words(_plain(query)))
        lexicon = _language(line)
        unknown = [word for word in line if not (_is_function(word) or self._knows(word))]
        if any(character.isdigit() for word in unknown for character in word.text):
            return True
        if self.is_latin and not (lexicon and lexicon.noun_capitals):
            starts = {match.end() for match in re.finditer(r"(?:\A|[.!?:]\s)\W*", query)}
            if any(word.text[0].isupper() and word.start not in starts for word in unknown):
                return True
        if lexicon is None or lexicon is not self.lexicon or not lexicon.slots:
            return False
        slots = _slots(lexicon)
        ordinary = {word.stem for word in unknown if not {word.stem, word.stem[:_PREFIX]} & slots}
        return len(ordinary) >= _GUESSES

    def _knows(self, word: Word) -> bool:
        if word.stem in self.stems or ((parts := _parts(word)) and all(part in self.stems for part in parts)):
            return True
        is_name = word.text[0].isupper() or any(map(str.isdigit, word.text))
        if word.text[0] > "\u3040":
            return word.text in self.text
        return not is_name and word.stem[:_PREFIX] in self.prefixes


def _plain(text: str) -> str:
    return text.translate(_SAME)


def _parts(word: Word) -> list[str]:
    """The stems of the words that a joined word (`elm/parser`) is made of."""
    if not _JOINER.search(word.text):
        return []
    return [part.stem for part in words(_JOINER.sub(" ", word.text))]


def _is_function(word: Word) -> bool:
    return any(lexicon.is_function(word) for lexicon in spaced_lexicons())


def _language(line: Iterable[Word]) -> Lexicon | None:
    """The lexicon whose function words are most of a text's, if they are frequent enough to tell."""
    said = [word.lower for word in line]
    counts = {lexicon: sum(word in lexicon.function for word in said) for lexicon in spaced_lexicons()}
    best = max(counts, key=counts.__getitem__)
    return best if said and counts[best] >= _KNOWN_LANGUAGE * len(said) else None


@cache
def _slots(lexicon: Lexicon) -> frozenset[str]:
    """The stems and the first letters of slot words and of words that say nothing."""
    listed = " ".join((*lexicon.slots, *lexicon.known, *lexicon.empty, *lexicon.persons))
    stems = {word.stem for word in words(listed)}
    return frozenset(stems | {stem[:_PREFIX] for stem in stems if len(stem) >= _PREFIX})
