"""The phrase book for a chat and for a message: the headings and the dates of the language people write in.

A language with a lexicon is known by its function words or letters. Spanish ones are common in French and
Portuguese too, but not as common as in Spanish. Where no lexicon's language clearly wins, the messages are
identified by `language.identify`, which takes up to a second to load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from backscroll.operators.language.identify import language_code
from backscroll.operators.language.lexicon import Lexicon, lexicons
from backscroll.operators.language.phrasebook import PhraseBook, phrase_books
from backscroll.operators.language.salience import AnalysedTurn

__all__ = ["book_of", "main_book"]

_CLEAR = 0.37  # the share of function words: 0.42 to 0.58 in a chat, less than 0.3 in French or Dutch


def main_book(analysed_turns: Sequence[AnalysedTurn]) -> PhraseBook:
    """The phrase book for the language most of the text is in; English if it has none, or without text."""
    words = Counter[str]()
    for analysed in analysed_turns:
        words[analysed.lexicon.code] += len(analysed.words)
    (code, _), *_ = words.most_common(1) or [("en", 0)]
    lexicon = lexicons()[code]
    if not _is_clear([one for one in analysed_turns if one.lexicon is lexicon], lexicon):
        code = language_code([analysed.turn.text for analysed in analysed_turns])
    return phrase_books().get(code) or phrase_books()["en"]


def book_of(analysed: AnalysedTurn, usual: PhraseBook | None = None) -> PhraseBook:
    """The phrase book for the language of a message; English if there is none.

    In a chat whose language has no lexicon, it is `usual`, the book of the chat, unless the message is in
    a language with a lexicon by its function words and by `language.identify`.
    """
    lexicon = analysed.lexicon
    if usual is not None and usual.code not in lexicons():
        own = _is_clear([analysed], lexicon) and language_code([analysed.turn.text]) == lexicon.code
        return phrase_books().get(lexicon.code, usual) if own else usual
    return phrase_books().get(lexicon.code) or phrase_books()["en"]


def _is_clear(analysed_turns: Iterable[AnalysedTurn], lexicon: Lexicon) -> bool:
    words = [word.lower for analysed in analysed_turns for word in analysed.words]
    if not (lexicon.spaced and words):
        return True
    return sum(word in lexicon.function for word in words) >= _CLEAR * len(words)
