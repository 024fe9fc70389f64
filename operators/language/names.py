"""Finds names in a text that do not occur in other texts.

>>> text = "Ana and Deb asked Peter."
>>> [text[start:end] for start, end in unknown_names(text, Vocabulary(["Ana: Deborah knows"]))]
['Peter']

An unknown name is a capitalised word with no form in the other texts. The rules favour precision:
- In the middle of a sentence, every such word counts. In German, where every noun is capitalised, it
  must stand next to another one, after "Herr" or "Frau", or before a verb of saying.
- At the start of a sentence, heading or quotation, the word must be unknown in lower case: Punkt has
  never seen it so, and it is not a `cl100k_base` token, unless Punkt has seen it as a name. In
  languages other than English, an unknown name or a verb of saying must follow as well.
Words of two letters ("PR"), initials of words of the text, and names in a script that the texts hardly
use (they may be transliterated) are ignored. Scripts without capitals have no names here.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

from backscroll.operators.language.lexicon import Lexicon, lexicons, spaced_lexicons, words
from backscroll.operators.language.sentences import sentences
from backscroll.operators.language.tokens import encode

__all__ = ["Vocabulary", "unknown_names"]

_NAME_WORD = re.compile(r"[^\W\d_]+(?:(?!['’]s\b)['’\-][^\W\d_]+)*")
_OPENS = frozenset(":\"“„”«»(–—*•#>|[‘'`\n")
_HEADING = re.compile(r"^[ \t]*(?:#+ .*|\*\*[^*\n]+\*\*:?[ \t]*|[^.!?:\n]{1,50}:[ \t]*)$", re.MULTILINE)
_SAYS_ELSEWHERE = frozenset(("dit", "demande", "propose", "disse", "diz", "сказал", "сказала"))
_ABBREVIATIONS = frozenset(("utc", "gmt", "faq", "tbd"))
_COMMON_ENDING = re.compile(r"(?:s|ing|ly|tion|ment|ness|ity|ance|ence|ship|ung|heit|keit)\Z")
_LOWER_CASE = 0b1110000  # Punkt's flags for a word seen in lower case
_CAPITAL = 0b0000100  # Punkt's flag for a word seen capitalised within a sentence


def unknown_names(text: str, vocabulary: Vocabulary) -> Iterator[tuple[int, int]]:
    """The spans of names in `text` that are unknown to a vocabulary; adjacent words make one name."""
    names = _Names(text, vocabulary)
    run: tuple[int, int] | None = None
    for place in range(len(names.tokens)):
        if not names.is_flagged(place):
            continue
        start, end = names.spans[place]
        if run and text[run[1] : start] in (" ", "-"):
            run = run[0], end
            continue
        if run:
            yield run
        run = start, end
    if run:
        yield run


class Vocabulary:
    """The words of texts, in the forms a name may take."""

    def __init__(self, texts: Sequence[str]) -> None:
        line = [word for text in texts for word in words(text.replace("’", "'"))]
        self.forms = {_fold(form) for word in line for form in (word.lower, *re.split(r"[\W_]+", word.lower))}
        names = [_fold(word.text) for word in line if word.text[0].isupper()]
        self.beginnings = {name[:end] for name in names for end in range(3, min(len(name), 40) + 1)}
        self.capitals = {name for name in names if len(name) >= 3}
        self.scripts = Counter(map(_script, filter(str.isalpha, "".join(texts))))
        self.initials = "".join(word.lower[0] for word in line)

    def holds(self, name: str, *, inflected: bool) -> bool:
        """Whether a form of a name is in the texts: its parts, plural, initials or a short form."""
        folded = _fold(name)
        parts = [_fold(part) for part in re.split(r"[\W_]+", name) if part[:1].isupper()]
        if {folded, "".join(parts), folded.removesuffix("s"), folded + "s"} & self.forms:
            return True
        if parts and all(part in self.forms for part in parts):
            return True
        if folded in self.beginnings:  # Deb, short for Deborah
            return True
        if name[:-1].isupper() and name.lower().removesuffix("s") in self.initials:
            return True
        if any(folded[:end] in self.capitals for end in range(max(3, len(folded) - 4), len(folded))):
            return True
        least = 4 if _script(name) == "LATIN" else 3
        return inflected and folded[: max(least, len(folded) - 2)] in self.beginnings

    def is_written_in(self, script: str) -> bool:
        """Whether 30% of the letters are in a script; names in rarer scripts may be transliterated."""
        return self.scripts[script] >= 0.3 * self.scripts.total()


class _Names:
    """The words of a text, and which of them are unknown names."""

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        self.text = text
        self.vocabulary = vocabulary
        self.lexicon = _language(text)
        self.is_english = self.lexicon is not None and self.lexicon.code == "en"
        self.tokens = [match.group() for match in _NAME_WORD.finditer(text)]
        self.spans = [match.span() for match in _NAME_WORD.finditer(text)]
        self.starts = {start for start, _ in sentences(text)}
        self.headings = [match.span() for match in _HEADING.finditer(text)]

    def is_flagged(self, place: int) -> bool:
        """Whether a word is an unknown name; the rules are at the top of this module."""
        if not self._is_unknown(place):
            return False
        word, following = self.tokens[place], self._beside(place, 1)
        before_name = following is not None and self._is_unknown(following)
        after_name = (previous := self._beside(place, -1)) is not None and self._is_unknown(previous)
        says = following is not None and self.tokens[following] in _says()
        if self.lexicon is not None and self.lexicon.noun_capitals:
            titled = previous is not None and self.tokens[previous].lower() in self.lexicon.titles
            return titled or (not _COMMON_ENDING.search(word) and (before_name or after_name or says))
        if not self._opens(place):
            return True
        if _is_known_in_lower_case(word) or _COMMON_ENDING.search(word):
            return False
        return self.is_english or before_name or says

    def _is_unknown(self, place: int) -> bool:
        word = self.tokens[place]
        lower = word.lower().replace("’", "'")
        if not word[0].isupper() or len(word) < 3 or lower in _never_names():
            return False
        if any(lower in lexicon.function for lexicon in spaced_lexicons()):
            return False
        if not self.vocabulary.is_written_in(_script(word)):
            return False
        if self.vocabulary.holds(word, inflected=not self.is_english):
            return False
        # "Web Socket" may have been written as one word.
        pairs = [(place, self._beside(place, 1)), (self._beside(place, -1), place)]
        joined = {_fold(self.tokens[a] + self.tokens[b]) for a, b in pairs if a is not None and b is not None}
        return not joined & self.vocabulary.forms

    def _beside(self, place: int, step: int) -> int | None:
        """The index of the next or previous word, if only a space or a hyphen is between."""
        other = place + step
        if not 0 <= other < len(self.tokens):
            return None
        left, right = sorted((place, other))
        return other if self.text[self.spans[left][1] : self.spans[right][0]] in (" ", "-") else None

    def _opens(self, place: int) -> bool:
        start = self.spans[place][0]
        before = self.text[:start].rstrip(" \t")[-1:]
        return (
            start in self.starts
            or not before
            or before in _OPENS
            or any(left <= start < right for left, right in self.headings)
        )


def _language(text: str) -> Lexicon | None:
    """The lexicon whose function words a text uses most; None if it uses none."""
    said = [word.lower for word in words(text)]
    counts = {lexicon: sum(word in lexicon.function for word in said) for lexicon in spaced_lexicons()}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else None


@cache
def _says() -> frozenset[str]:
    """The verbs, mostly of speech, that may follow a name, in all languages."""
    return _SAYS_ELSEWHERE.union(*(lexicon.says for lexicon in lexicons().values()))


@cache
def _never_names() -> frozenset[str]:
    return _ABBREVIATIONS.union(*(lexicon.titles for lexicon in lexicons().values()))


def _script(text: str) -> str:
    """The script of the first letter: LATIN, CYRILLIC, CJK ..."""
    return unicodedata.name(text[0], "").partition(" ")[0]


def _fold(word: str) -> str:
    """A word in case-folded form, without accents."""
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


def _is_known_in_lower_case(word: str) -> bool:
    lower = word.lower()
    if any(lower in lexicon.known | lexicon.empty | lexicon.persons for lexicon in spaced_lexicons()):
        return True
    if any(_orthography().get(form, 0) & _LOWER_CASE for form in (lower, *(w.stem for w in words(lower)))):
        return True
    return not _orthography().get(lower, 0) & _CAPITAL and len(encode(f" {lower}")) == 1


@cache
def _orthography() -> dict[str, int]:
    from punkt.data import english

    return dict(english.ORTHO_CONTEXT)
