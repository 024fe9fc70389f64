from __future__ import annotations

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.operators.language.identify import LANGUAGES, language_name
from support.annotated import PARTS, annotated_windows


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("hello, how are you doing today?", "English"),
        ("Das ist gut", "German"),
        ("¿Nos vemos mañana?", "Spanish"),
        ("Bonjour, on se voit demain ?", "French"),
        ("Vamos lançar amanhã, não é?", "Portuguese"),
        ("Ci vediamo domani mattina in ufficio", "Italian"),
        ("We spreken elkaar morgen op kantoor", "Dutch"),
        ("Det är en bra idé, vi ses imorgon", "Swedish"),
        ("Do zobaczenia jutro w biurze", "Polish"),
        ("Yarın ofiste görüşürüz", "Turkish"),
        ("Встречаемся завтра в офисе", "Russian"),
        ("Зустрінемося завтра в офісі", "Ukrainian"),
        ("Τα λέμε αύριο στο γραφείο", "Greek"),
        ("会议改到星期三", "Chinese"),
        ("明日の会議は三時です", "Japanese"),
        ("내일 회의는 세 시입니다", "Korean"),
        ("كيف حالك اليوم يا صديقي", "Arabic"),
        ("हम कल दफ़्तर में मिलेंगे", "Hindi"),
        ("Hẹn gặp lại ngày mai ở văn phòng", "Vietnamese"),
        ("เจอกันพรุ่งนี้ที่ออฟฟิศ", "Thai"),
    ],
)
def test_the_language_of_a_short_message_is_identified(text: str, name: str) -> None:
    assert language_name([text]) == name


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["", "  "],
        ["1234 !!!"],
        ["😀🎉", ":tada: :+1:"],
        ["https://beispiel.de/das-ist-ein-pfad", "mail an <https://beispiel.de|hier>"[8:]],
        ["```def das(ist): return 'ein Programm'```", "`nicht_mehr`"],
        ["@Schmidt @Jürgen", "HAR-335"],
        ["lol", "ok", "haha"],
        ["\ud800"],
    ],
)
def test_english_is_the_default_language(texts: list[str]) -> None:
    assert language_name(texts) == "English"


def test_the_language_with_most_text_wins_not_the_one_with_most_messages() -> None:
    german = "Ja, das machen wir so. Ich schicke dir morgen früh den Plan und die Liste."
    assert language_name(["ok", "lol", german, "nice", "thanks"]) == "German"
    assert (
        language_name(["thanks!", "deploy done", "明日リリースします。テストは全部通りました。"])
        == "Japanese"
    )
    english = "The build is green and we can ship the release tomorrow morning."
    assert language_name([german, english, english, english]) == "English"


def test_code_and_addresses_do_not_affect_the_language() -> None:
    code = "```for item in items: print(item.name, item.price)\nreturn the sum of all the items```"
    assert (
        language_name([f"Schau mal hier: {code}", "https://example.com/this/is/an/english/path"]) == "German"
    )


def test_every_language_has_a_unique_code_and_name() -> None:
    assert all(len(code) == 2 and name[0].isupper() for code, name in LANGUAGES.items())
    assert len(set(LANGUAGES.values())) == len(LANGUAGES)


def test_the_model_is_imported_only_when_needed() -> None:
    check = "import sys, backscroll.operators.language.identify; sys.exit('py3langid' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


@given(st.lists(st.text(), max_size=4))
@settings(max_examples=100, deadline=None)
def test_any_text_has_a_language(texts: list[str]) -> None:
    assert language_name(texts) in LANGUAGES.values()


def test_the_real_chats_are_english(shared: Path) -> None:
    for part in PARTS:
        for annotated in islice(annotated_windows(shared, part), 0, None, 4):
            assert language_name([turn.text for turn in annotated.window.turns]) == "English"
