"""People in messages: whether a text mentions a person, and whom a sentence addresses.

>>> ana = Person.named("ana", [Author("u1", "Ana Silva"), Author("u2", "Ben")])
>>> ana.wrote(Author("u1", "Ana Silva")), ana.is_mentioned("over to you, Ana"), ana.is_mentioned("Anatomy")
(True, True, False)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from backscroll.operators.language.lexicon import spaced_lexicons
from backscroll.operators.language.phrasebook import phrase_books
from backscroll.operators.messages import Author

__all__ = ["Person", "addressed"]

_WRITTEN_TOGETHER = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")  # no spaces around names
_ACCENTS = re.compile(r"[\u0300-\u036f]")


@dataclass(frozen=True, slots=True)
class Person:
    """A person, found by name or id: the names used for them, and their author ids."""

    name: str
    names: tuple[str, ...]
    ids: frozenset[str] = frozenset()

    @classmethod
    def named(cls, name: str, authors: Iterable[Author]) -> Person:
        """The person with a name or id, whether or not they have written any message.

        Their first name counts as well, if no other author shares it.
        """
        everyone = {author.id: author for author in authors if not author.bot}
        wanted = _folded(name.lstrip("@"))
        known = [author for author in everyone.values() if wanted in _called(author)]
        if not known:
            known = [author for author in everyone.values() if wanted == _folded(author.name).split()[0]]
            known = known if len({author.name for author in known}) == 1 else []
        full = known[0].name if known else name.lstrip("@").strip()
        first = full.split()[0] if full.split() else full
        others = {_folded(author.name).split()[0] for author in everyone.values() if author.name != full}
        names = [full] + ([first] if _folded(first) not in others and len(first) > 1 else [])
        return cls(full, tuple(dict.fromkeys(names)), frozenset(author.id for author in known))

    def wrote(self, author: Author) -> bool:
        """Whether the author is this person."""
        return author.id in self.ids or _folded(author.name) == _folded(self.name)

    def is_mentioned(self, text: str) -> bool:
        """Whether a text contains the person's name as a word, or `@` with their name or id."""
        plain = _unaccented(text)
        if any(pattern.search(plain) for pattern in map(_name_pattern, self.names)):
            return True
        return any(re.search(rf"@{re.escape(_unaccented(id_))}(?!\w)", plain) for id_ in self.ids)


def addressed(sentence: str, people: Iterable[Person]) -> Person | None:
    """The person a sentence addresses, as in `Ana, ...`, `@Ana ...` or `..., Ana?`; None if nobody."""
    plain = _unaccented(sentence)
    for person in people:
        if any(_address_pattern(name).search(plain) for name in person.names):
            return person
    return None


@lru_cache
def _address_pattern(name: str) -> re.Pattern[str]:
    called = re.escape(_unaccented(name))
    title = f"(?:{'|'.join(word for book in phrase_books().values() for word in book.honorifics)})?"
    if _WRITTEN_TOGETHER.search(name):
        return re.compile(rf"(?:^|[@、。\s]){called}{title}[、,]|@{called}|[、,]{called}{title}[。？?!！]*$")
    asking = "|".join(phrase for book in phrase_books().values() for phrase in book.addressing)
    body = rf"^\W*@?{called}{title}(?:\s*[,:–-]|\s+(?:{asking})\b)"
    return re.compile(rf"{body}|@{called}(?!\w)|,\s*{called}\s*[?.!？]*\s*$", re.IGNORECASE)


@lru_cache
def _name_pattern(name: str) -> re.Pattern[str]:
    """Matches a name as a word; for a name that is also a common word, case matters."""
    plain = _unaccented(name)
    if _WRITTEN_TOGETHER.search(plain):
        return re.compile(re.escape(plain))
    common = any(plain.lower() in lexicon.function for lexicon in spaced_lexicons())
    flags = re.NOFLAG if common else re.IGNORECASE
    return re.compile(rf"(?<!\w){re.escape(plain)}(?!\w)", flags)


def _unaccented(text: str) -> str:
    """A text without the accents of Latin letters, which people often leave out of names."""
    apart = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", apart))


def _folded(text: str) -> str:
    return _unaccented(text).casefold().strip() or "-"


def _called(author: Author) -> tuple[str, str]:
    return _folded(author.id), _folded(author.name)
