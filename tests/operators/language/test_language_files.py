"""Language files: their contents, their errors, and how to add a language."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from string import Formatter
from threading import Barrier

import pytest

from backscroll.operators.acts.reading import asks
from backscroll.operators.language import lexicon as cues
from backscroll.operators.language import phrasebook, quantities
from backscroll.operators.language.chat_language import book_of, main_book
from backscroll.operators.language.language_files import LanguageFileError, read_languages
from backscroll.operators.language.lexicon import Lexicon, lexicons
from backscroll.operators.language.phrasebook import PhraseBook, phrase_books
from backscroll.operators.language.quantity_words import FOLDER, QuantityWords, quantity_words
from backscroll.operators.language.salience import AnalysedTurn, analyse_turns
from backscroll.operators.messages import Author, Turn

FRENCH = """
function = "le la les un une des est et de nous on pas ce il elle"
recall = ["la dernière fois", "tu (?:disais|as dit)"]
"""
LISTS = [field.name for field in fields(PhraseBook) if field.type == "tuple[str, ...]"]
BOOKS = sorted(phrase_books())


def a_reading(text: str) -> AnalysedTurn:
    return analyse_turns([Turn(0, "m0", datetime(2026, 3, 2, tzinfo=UTC), Author("u1", "Ana"), text, 10, 0)])[
        0
    ]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Path]]:
    """Copies of both folders, used instead of the package's."""
    copies = tmp_path / "lexicons", tmp_path / "phrasebooks"
    for module, copy in zip((cues, phrasebook), copies, strict=True):
        shutil.copytree(module.FOLDER, copy)
        monkeypatch.setattr(module, "FOLDER", copy)
    for read_once in (lexicons, cues.spaced_lexicons, phrase_books):
        read_once.cache_clear()
    yield copies
    for read_once in (lexicons, cues.spaced_lexicons, phrase_books):
        read_once.cache_clear()


def test_every_language_has_its_files() -> None:
    assert list(lexicons()) == ["en", "es", "de", "ja"]  # in the order that decides between equals
    assert BOOKS == ["de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "zh"]
    assert {words.code for words in read_languages(FOLDER, QuantityWords)} == set(lexicons())


@pytest.mark.parametrize("code", ["en", "es", "de", "ja"])
def test_every_phrase_is_a_lower_case_regular_expression(code: str) -> None:
    lists = [getattr(lexicons()[code], field.name) for field in fields(Lexicon)]
    phrases = [phrase for one in lists if isinstance(one, tuple) for phrase in one]
    assert [phrase for phrase in phrases if phrase != phrase.lower() or re.compile(phrase).groups] == []
    assert [phrase for phrase in phrases if set(phrase.partition(" ")[0]) & set("()[]|?*+\\.")] == []
    assert len(phrases) > 60


@pytest.mark.parametrize("code", BOOKS)
def test_every_pattern_of_a_phrase_book_is_a_regular_expression_without_groups(code: str) -> None:
    book = phrase_books()[code]
    patterns = [pattern for name in LISTS for pattern in getattr(book, name)]
    assert [pattern for pattern in (*patterns, *book.days) if re.compile(pattern).groups] == []
    assert [day for day in book.weekdays if re.search(day, "")] == []
    assert len(patterns) > 14


@pytest.mark.parametrize("code", BOOKS)
def test_a_heading_has_the_same_placeholders_in_every_language(code: str) -> None:
    def values(text: str) -> set[str | None]:
        return {name for _, name, _, _ in Formatter().parse(text)} - {None}

    english, other = phrase_books()["en"].headings, phrase_books()[code].headings
    assert {name: values(text) for name, text in other.items()} == {
        name: values(text) for name, text in english.items()
    }


def test_a_new_file_adds_a_language(folders: tuple[Path, Path]) -> None:
    write(folders[0], "fr.toml", FRENCH)
    found = a_reading("la dernière fois le serveur est tombé")
    assert list(lexicons()) == ["en", "es", "de", "fr", "ja"]
    assert found.lexicon.code == "fr"
    assert [(cue.family, found.text[cue.start : cue.end]) for cue in found.cues] == [
        ("recall", "la dernière fois")
    ]
    assert book_of(found) is phrase_books()["fr"]


def test_a_new_file_adds_a_phrase_book(folders: tuple[Path, Path]) -> None:
    text = (folders[1] / "en.toml").read_text(encoding="utf-8")
    write(folders[1], "sv.toml", text.replace('decisions = "Decisions"', 'decisions = "Beslut"'))
    book = main_book([a_reading("vi ses på kontoret imorgon bitti, glöm inte nycklarna")])
    assert (book.code, book.headings["decisions"]) == ("sv", "Beslut")


def test_a_language_without_spaces_is_identified_by_its_letters(folders: tuple[Path, Path]) -> None:
    text = 'spaced = false\nfunction = ""\nletters = "\\u0e00-\\u0e7f"\nplans = ["พรุ่งนี้"]\n'
    write(folders[0], "th.toml", text)
    found = a_reading("เจอกันพรุ่งนี้")
    assert found.lexicon.code == "th"
    assert [(cue.family, cue.start, cue.end) for cue in found.cues] == [("plans", 6, 14)]


def test_no_word_means_two_numbers_in_two_languages() -> None:
    languages = read_languages(FOLDER, QuantityWords)
    for name in ("months", "weekdays", "ones", "tens"):
        values: dict[str, set[int]] = {}
        for language in languages:
            for value, words in enumerate(getattr(language, name)):
                for word in words.split():
                    values.setdefault(word, set()).add(value)
        assert {word: found for word, found in values.items() if len(found) > 1} == {}
    assert {word for language in languages for word in language.vague} <= set(quantity_words().ones)


def test_a_new_file_adds_the_numbers_of_a_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tens = ["vingt", "trente", "quarante", "cinquante", "soixante", "septante", "octante", "nonante"]
    write(tmp_path, "fr.toml", f'tens = {tens}\nunits = {{ "pour cent" = "%" }}')
    readers = (quantity_words, quantities._count_pattern, quantities._readers)
    monkeypatch.setattr("backscroll.operators.language.quantity_words.FOLDER", tmp_path)
    for read_once in readers:
        read_once.cache_clear()
    try:
        (found,) = quantities.find_quantities("trente pour cent")
    finally:
        for read_once in readers:
            read_once.cache_clear()
    assert (found.start, found.end, found.facts) == (0, 16, {("number", (Decimal(30), "%"))})


def test_a_quantity_list_of_the_wrong_length_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "fr.toml", 'weekdays = ["lundi"]')
    with pytest.raises(LanguageFileError) as raised:
        read_languages(tmp_path, QuantityWords)
    assert str(raised.value) == f"{path}: weekdays: must have 7 entries or none, not 1"


def test_question_endings_apply_to_text_in_every_language() -> None:
    assert asks("明日の会議は何時からですか。")
    assert not asks("明日の会議は十時からです。")
    assert asks("明天的会议改时间了吗")
    assert not asks("明天的会议改到十点")
    assert asks("회의는 몇 시에 시작하나요")
    assert not asks("회의는 열 시에 끝나요")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("function = ", "not valid TOML: Invalid value (at end of document)"),
        ('recall = ["earlier"]', "the key 'function' is missing"),
        ('function = "a"\ncode = "fr"', "unknown key 'code': use one of function, things, "),
        ('function = "a"\nfunktion = "b"', "unknown key 'funktion': use one of function, things, "),
        ('function = ["a", "b"]', "function: must be a string of words separated by spaces, not ['a', 'b']"),
        ('function = "a"\nasks = "who, what"', "asks: must be a list of strings, not 'who, what'"),
        ('function = "a"\nasks = ["who", 7]', "asks: must be a list of strings, not ['who', 7]"),
        ('function = "a"\nrank = true', "rank: must be a whole number, not True"),
        ('function = "a"\nspaced = 0', "spaced: must be true or false, not 0"),
        (
            'function = "a"\nspaced = false',
            "letters: required if 'spaced' is false",
        ),
    ],
)
def test_an_invalid_lexicon_gives_an_error_that_names_the_file_and_the_key(
    tmp_path: Path, text: str, error: str
) -> None:
    path = write(tmp_path, "fr.toml", text)
    with pytest.raises(LanguageFileError) as raised:
        read_languages(tmp_path, Lexicon)
    assert str(raised.value).startswith(f"{path}: {error}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("[days]", "unused = 1\n\n[days]"), "unknown key 'unused': use one of "),
        (('"月曜日?", ', ""), "weekdays: must have 7 entries, not 6"),
        (("[days]", 'months = ["一月"]\n[days]'), "months: must have 12 entries or none, not 1"),
        (('"今日" = 0', '"今日" = "0"'), "days: must be a table of whole numbers, not {'今日': '0', "),
        (('quiet = "新着なし"\n', ""), "headings: 'quiet' is missing"),
        (('quiet = "新着なし"', 'quite = "新着なし"'), "headings: unknown name 'quite': use one of for_me, "),
    ],
)
def test_an_invalid_phrase_book_gives_an_error_that_names_the_file_and_the_key(
    folders: tuple[Path, Path], change: tuple[str, str], error: str
) -> None:
    path = folders[1] / "ja.toml"
    text = path.read_text(encoding="utf-8")
    assert change[0] in text
    write(folders[1], "ja.toml", text.replace(*change))
    with pytest.raises(LanguageFileError) as raised:
        read_languages(folders[1], PhraseBook)
    assert str(raised.value).startswith(f"{path}: {error}")


@pytest.mark.usefixtures("folders")
def test_every_thread_gets_the_same_languages() -> None:
    together = Barrier(8)

    def found() -> list[int]:
        together.wait(timeout=30)
        return [id(lexicon) for lexicon in lexicons().values()]

    with ThreadPoolExecutor(8) as pool:
        every = [task.result() for task in [pool.submit(found) for _ in range(8)]]
    assert every == [every[0]] * 8
