"""Identifies the language of messages: for a model that has to answer in it, and for catch-up headings.

Uses py3langid (BSD-3-Clause), a naive Bayes model over byte n-grams whose data comes with the package.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier  # type: ignore[import-untyped]

__all__ = ["LANGUAGES", "language_code", "language_name"]

LANGUAGES = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "ca": "Catalan",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "et": "Estonian",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "gu": "Gujarati",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "kn": "Kannada",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "ml": "Malayalam",
    "mr": "Marathi",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sr": "Serbian",
    "sv": "Swedish",
    "sw": "Swahili",
    "ta": "Tamil",
    "te": "Telugu",
    "th": "Thai",
    "tl": "Tagalog",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
"""The languages that can be identified, by ISO 639-1 code."""

_DEFAULT_CODE = "en"
_NOT_PROSE = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|<?(?:https?://|www\.)\S+|(?<!\S)\S*@\S+|\[shares? [^\]]*\]"
    r"|(?<!\w):[a-z0-9_+\-]+:(?!\w)|(?<![\w./\\\-])[A-Za-z.\-]*[0-9_/\\][A-Za-z0-9_./\\\-]*",
    re.DOTALL,
)
_LETTERS = re.compile(r"[^\W\d_]+")
_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_PRIOR = 5.0  # in letters, a bias to English: "lol" belongs to no language


def language_name(texts: Sequence[str]) -> str:
    """The English name of the language most of the text is in; "English" if nothing is left to go by."""
    return LANGUAGES[language_code(texts)]


def language_code(texts: Sequence[str]) -> str:
    """The ISO 639-1 code of the language most of the text is in.

    Each text votes for every language with its probability, weighted by the number of letters, because
    short messages are unreliable. Code, addresses, mentions, emoji and numbers are ignored. "en" if
    nothing is left to go by.
    """
    votes = Counter[str]({_DEFAULT_CODE: _PRIOR})
    for text in texts:
        prose = " ".join(_LETTERS.findall(_NOT_PROSE.sub(" ", text.encode(errors="ignore").decode())))
        weight = len(prose) + len(_DENSE.findall(prose))  # a kanji or a syllable counts as two letters
        if weight:
            for code, probability in _identifier().rank(prose):
                votes[code] += probability * weight
    return max(votes, key=votes.__getitem__)


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(LANGUAGES)
    return identifier
