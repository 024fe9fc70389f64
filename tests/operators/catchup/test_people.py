from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.operators.catchup.people import Person, addressed
from backscroll.operators.messages import Author

AUTHORS = [
    Author("u1", "Ana Silva"),
    Author("u2", "Ben"),
    Author("u3", "Will"),
    Author("u4", "Tomás"),
    Author("u5", "林"),
    Author("b1", "Ana bot", bot=True),
]


def person(name: str) -> Person:
    return Person.named(name, AUTHORS)


@pytest.mark.parametrize(
    ("name", "text", "mentioned"),
    [
        ("Ana Silva", "over to you, ana", True),
        ("ana", "Anatomy of a bug", False),
        ("@u1", "<@u1> look", True),
        ("Will", "I will do it", False),
        ("Will", "ask Will about it", True),
        ("Tomas", "¿@Tomás puede?", True),
        ("tomás", "Tomas sabe", True),
        ("林", "林さん、お願いできますか?", True),
        ("Zoe", "Zoe is new", True),
    ],
)
def test_a_name_is_found_as_a_word(name: str, text: str, mentioned: bool) -> None:
    assert person(name).is_mentioned(text) is mentioned


def test_a_person_is_matched_to_an_author_by_id_or_name() -> None:
    assert person("ANA").wrote(Author("u1", "Ana S."))
    assert not person("Ana").wrote(Author("u2", "Ben"))
    assert person("u2").name == "Ben"


def test_an_ambiguous_first_name_matches_nobody() -> None:
    two = [Author("1", "Ana Silva"), Author("2", "Ana Costa")]
    assert Person.named("Ana", two).ids == frozenset()
    assert Person.named("Ana Costa", two).names == ("Ana Costa",)


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("Ben, send them the file", "Ben"),
        ("ben please check", "Ben"),
        ("can you look, @u2", None),
        ("what do we do, Ben?", "Ben"),
        ("Ben decides things until Monday", None),
        ("お願いします、林さん。", "林"),
        ("林老师，明天能来吗？", "林"),
        ("明天能来吗，林？", "林"),
        ("Ben님, 확인해 주세요", "Ben"),
        ("Ben s'il te plaît regarde", "Ben"),
        ("Ben пожалуйста посмотри", "Ben"),
        ("Ben kun je even kijken?", "Ben"),
    ],
)
def test_a_sentence_addresses_the_person_it_names(sentence: str, name: str | None) -> None:
    found = addressed(sentence, [person("Ben"), person("林")])
    assert (found and found.name) == name


@given(st.text(min_size=1, max_size=20), st.text(max_size=60))
def test_any_name_is_found_after_an_at_sign_or_not_at_all(name: str, text: str) -> None:
    found = Person.named(name, AUTHORS)
    assert isinstance(found.is_mentioned(text), bool)
    assert addressed(text, [found]) in (None, found)
