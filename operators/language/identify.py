"""The language of a window, named in English, for telling a model which language to answer in.

Identification is by py3langid (BSD-3-Clause), a naive Bayes model over byte n-grams that comes with
the package.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier  # type: ignore[import-untyped]

__all__ = ["LANGUAGES", "language_name"]

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
"""The languages told apart, by ISO 639-1 code."""


_DEFAULT_CODE = "en"


_NOT_PROSE = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|<?(?:https?://|www\.)\S+|(?<!\S)\S*@\S+|\[shares? [^\]]*\]"
    r"|(?<!\w):[a-z0-9_+\-]+:(?!\w)|(?<![\w./\\\-])[A-Za-z.\-]*[0-9_/\\][A-Za-z0-9_./\\\-]*",
    re.DOTALL,
)


_LETTERS = re.compile(r"[^\W\d_]+")


_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


_PRIOR = 5.0  # letters of English that every window starts with: "lol" is in no language


def language_name(texts: Sequence[str]) -> str:
    """The English name of the language that most of the texts are in, by length.

    Every text votes for all languages by their probability, times the number of its letters: a short
    message says little by itself. Code, addresses, mentions, emoji and figures have no vote. "English"
    when nothing can be told.
    """
    votes = Counter[str]({_DEFAULT_CODE: _PRIOR})
    for text in texts:
        prose = " ".join(_LETTERS.findall(_NOT_PROSE.sub(" ", text.encode(errors="ignore").decode())))
        weight = len(prose) + len(_DENSE.findall(prose))  # a kanji or a syllable says more than a letter
        if weight:
            for code, probability in _identifier().rank(prose):
                votes[code] += probability * weight
    return LANGUAGES[max(votes, key=votes.__getitem__)]


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(LANGUAGES)
    return identifier
