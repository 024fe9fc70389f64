"""The phrase book for a chat: which language its headings and dates are in."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.language import chat_language
from backscroll.operators.language.chat_language import book_of, main_book
from backscroll.operators.language.lexicon import lexicons
from backscroll.operators.language.phrasebook import phrase_books
from backscroll.operators.language.salience import analyse_turns
from support.chats import chat
from support.languages import CHATS

ENGLISH = (
    "Ana: The build is green again, so we can ship the release tomorrow morning.",
    "Ben: I still have to write the notes, and the docs are not done either.",
    "Ana: Can you do it by Friday? I would like to send them with the mail.",
)
GERMAN = (
    "Ana: Das Training fällt morgen aus, weil die Halle geschlossen ist.",
    "Ben: Schade, dann sehen wir uns erst nächste Woche wieder. Wer sagt es den anderen?",
)
SPANISH = (
    "Ana: ¿Alguien sabe si el arquitecto viene mañana a la obra?",
    "Ben: Sí, me dijo que llega a las diez. Le mando los planos hoy.",
    "Ana: Perfecto, entonces quedamos en la puerta.",
)
JAPANESE = ("Ana: 明日リリースします。テストは全部通りました。", "Ben: 了解")


def language(*lines: str) -> str:
    return main_book(analyse_turns(chat(*lines))).code


def said(*texts: str) -> list[str]:
    return [f"Ana: {text}" for text in texts]


@pytest.mark.parametrize("code", sorted(CHATS))
def test_a_chat_has_the_book_of_its_own_language(code: str) -> None:
    assert language(*CHATS[code]) == code


@pytest.mark.parametrize("code", sorted(CHATS))
def test_a_few_messages_are_enough(code: str) -> None:
    lines = CHATS[code]
    assert language(*lines[:4]) == language(*lines[4:8]) == code


@pytest.mark.parametrize(
    ("lines", "code"), [(ENGLISH, "en"), (GERMAN, "de"), (SPANISH, "es"), (JAPANESE, "ja")]
)
def test_a_language_with_a_lexicon_is_known_without_the_model(
    lines: tuple[str, ...], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(chat_language, "language_code")
    assert language(*lines) == code


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([*CHATS["fr"][:6], *ENGLISH[:2]], "fr"),
        ([*CHATS["fr"][:2], *ENGLISH, *ENGLISH], "en"),
        ([*CHATS["nl"], *GERMAN], "nl"),
        ([*CHATS["pt"], *SPANISH], "pt"),
        ([*CHATS["pt"][:1], *SPANISH, *SPANISH], "es"),
        ([*CHATS["zh"], *said("lgtm, merged", "ok", "nice!", "deploy done")], "zh"),
        ([*CHATS["ko"], JAPANESE[0]], "ko"),
        ([*CHATS["it"][:6], *said("ok", "lol", "+1", "done", "https://example.com/the/plan")], "it"),
    ],
)
def test_a_mixed_chat_has_the_language_of_most_of_the_text(lines: list[str], code: str) -> None:
    assert language(*lines) == code


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["ok", "lol", "+1"],
        ["😀", ":tada:"],
        ["1234", "HAR-335", "v2.1.0"],
        ["```pour chaque élément: afficher(élément)```", "https://exemple.fr/voici/une/adresse"],
        ["Vi ses på kontoret imorgon bitti, glöm inte nycklarna till förrådet."],  # Swedish has no book
    ],
)
def test_english_is_the_book_of_what_says_nothing_and_of_other_languages(texts: list[str]) -> None:
    assert language(*said(*texts)) == "en"


def test_a_message_has_the_book_of_the_chat_unless_it_is_clearly_in_another_language() -> None:
    analysed = analyse_turns(chat(*CHATS["fr"], *ENGLISH))
    usual = phrase_books()["fr"]
    assert {book_of(one, usual).code for one in analysed[: len(CHATS["fr"])]} == {"fr"}
    assert {book_of(one, usual).code for one in analysed[len(CHATS["fr"]) :]} == {"en"}
    (german,) = analyse_turns(chat(GERMAN[0]))
    assert book_of(german, phrase_books()["es"]).code == book_of(german).code == "de"


def test_the_catch_up_does_not_load_the_model_before_it_needs_it() -> None:
    check = (
        "import sys, backscroll.operators.catchup.catch_up, backscroll.flows.commands.catchup;"
        "sys.exit('py3langid' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


@given(st.lists(st.text(max_size=60), max_size=4))
@settings(max_examples=60, deadline=None)
def test_every_chat_has_a_book(texts: list[str]) -> None:
    analysed = analyse_turns(chat(*said(*texts)))
    book = main_book(analysed)
    assert book in phrase_books().values()
    assert {book_of(one, book).code for one in analysed} <= {book.code, *lexicons()}
