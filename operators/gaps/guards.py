"""Guards for a model's gaps: the answer schema, and the checks that decide which gaps are kept.

The pydantic models are the JSON schemas sent to the language model (including their docstrings), and
they validate its answer. Every field is required and no others are allowed, as OpenAI's strict mode and
the grammars of llama.cpp and vLLM demand. Lists have a `maxItems`, which stops a looping model. Texts
have no `maxLength`, because a grammar would enforce it in mid-sentence. No answer is rejected for its
length.

A quote must be in the window. Its position decides the utterance, because models often get indexes
wrong. A query must not guess the answer: it may use words from the window and words for kinds of missing
information ("reason", "date", "who decided"), but no other names, numbers or things.
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

_GUESSES = 2  # unknown ordinary words that make a query a guess; one may be a paraphrase
_PREFIX = 5  # words with the same first letters count as the same
_KNOWN_LANGUAGE = 0.25  # share of function words that identifies the language of a text
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
    """The valid gaps of an answer, in window order, and the number dropped by reason.

    A quote is found if it is in a turn's text, ignoring white space, case, kinds of quotation marks and
    dashes, words replaced by an ellipsis, and punctuation at its ends; the gap gets the words of the window.
    Gaps are dropped as `unknown_quote`, `empty_query`, `guessing_query`, `repeated_utterance` or
    `over_limit` (the model's order decides which are kept). Keywords that are not in the window are removed
    from their gap and counted as `unknown_keyword`.
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
    """The index of a turn that contains a quote, preferably the named one, and the quote as written there."""
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
        # Every character is replaced by exactly one, so that positions in the text do not change.
        if pattern and (match := pattern.search(turns[place].text.translate(_SAME))):
            return place, turns[place].text[slice(*match.span())]
    return None


def _loose(quote: str) -> re.Pattern[str] | None:
    """A whole-word pattern for a quote that ignores white space, case, outer punctuation and an ellipsis."""
    parts = quote.strip(_NOT_QUOTED).translate(_SAME).split()
    if not parts:
        return None
    body = r"\s+".join(map(re.escape, parts)).replace("…", r"\.\.\.")
    body = body.replace(r"\.\.\.", ".{1,200}?", 1)  # only once: a second one would take quadratic time
    return re.compile(rf"(?<![^\W\u3040-\u9fff]){body}(?![^\W\u3040-\u9fff])", re.IGNORECASE)


class _Said:
    """The words of a window's texts and authors, to detect what a query or keyword adds to them."""

    def __init__(self, window: Window) -> None:
        texts = [turn.text for turn in window.turns]
        self.text = _plain(" ".join((*texts, *(turn.author.name for turn in window.turns))))
        self.lexicon = _language(list(words(_plain(" ".join(texts)))))
        self.stems = {part for word in words(self.text) for part in (word.stem, *_parts(word))}
        self.prefixes = {stem[:_PREFIX] for stem in self.stems if len(stem) >= _PREFIX}
        letters = [character for character in self.text if character.isalpha()]
        self.is_latin = sum(letter < "\u0250" for letter in letters) * 2 > len(letters)

    def holds(self, keyword: str) -> bool:
        """Whether a keyword is in the window, or all of its words are in some form."""
        if _plain(keyword).lower() in self.text.lower():
            return True
        said = [word for word in words(_plain(keyword)) if not _is_function(word)]
        return bool(said) and all(self._knows(word) for word in said)

    def is_guessed(self, query: str) -> bool:
        """Whether a query contains information that is not in the window.

        An unknown number or capitalised word is enough, except where capitals mean nothing: at the start of
        a sentence, on German nouns, or if the window is in another script (names are transliterated). Of
        other unknown words it takes two, and only if window and query are in the same language and it has a
        list of slot words; otherwise the query may be a translation.
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
    """The stems of the parts of a joined word such as `elm/parser`."""
    if not _JOINER.search(word.text):
        return []
    return [part.stem for part in words(_JOINER.sub(" ", word.text))]


def _is_function(word: Word) -> bool:
    return any(lexicon.is_function(word) for lexicon in spaced_lexicons())


def _language(line: Iterable[Word]) -> Lexicon | None:
    """The lexicon whose function words are most frequent in a text; None if they are too rare."""
    said = [word.lower for word in line]
    counts = {lexicon: sum(word in lexicon.function for word in said) for lexicon in spaced_lexicons()}
    best = max(counts, key=counts.__getitem__)
    return best if said and counts[best] >= _KNOWN_LANGUAGE * len(said) else None


@cache
def _slots(lexicon: Lexicon) -> frozenset[str]:
    """The stems and prefixes of slot words and of words without content."""
    listed = " ".join((*lexicon.slots, *lexicon.known, *lexicon.empty, *lexicon.persons))
    stems = {word.stem for word in words(listed)}
    return frozenset(stems | {stem[:_PREFIX] for stem in stems if len(stem) >= _PREFIX})
