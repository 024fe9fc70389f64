from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.operators.catchup.due_dates import Due, find_due
from backscroll.operators.language.phrasebook import phrase_books

BOOKS = phrase_books()
MONDAY = date(2026, 3, 2)


@pytest.mark.parametrize(
    ("code", "text", "due"),
    [
        ("en", "fix by wednesday evening", Due("by wednesday", date(2026, 3, 4))),
        ("en", "next wave on Monday 13 April, then", Due("on Monday 13 April", date(2026, 4, 13))),
        ("en", "Both are valid until Friday the 13th.", Due("until Friday the 13th", date(2026, 3, 13))),
        ("en", "send it tomorrow", Due("tomorrow", date(2026, 3, 3))),
        ("en", "see you monday", Due("monday", date(2026, 3, 9))),
        ("en", "before March 11", Due("before March 11", date(2026, 3, 11))),
        ("en", "by 2026-03-13", Due("by 2026-03-13", date(2026, 3, 13))),
        ("en", "it lies there since friday night", None),
        ("en", "on 30 February", None),
        ("en", "may I ask? 3 days of marching", None),
        ("de", "Das Konzert ist am Samstag, 27. Juni.", Due("am Samstag, 27. Juni", date(2026, 6, 27))),
        ("de", "schick mir das bitte bis Donnerstag", Due("bis Donnerstag", date(2026, 3, 5))),
        ("de", "Übermorgen!", Due("Übermorgen", date(2026, 3, 4))),
        ("es", "para el miércoles 20 a las ocho", Due("para el miércoles 20", date(2026, 5, 20))),
        ("es", "Los llamo mañana.", Due("mañana", date(2026, 3, 3))),
        ("es", "los llamé por la mañana", None),
        ("ja", "水曜日までに送ります。", Due("水曜日までに", date(2026, 3, 4))),
        ("es", "pasado mañana lo envío", Due("pasado mañana", date(2026, 3, 4))),
        ("es", "lo hablamos el viernes pasado", None),
        ("de", "Freitag 10 Uhr im Büro", Due("Freitag", date(2026, 3, 6))),
        ("ja", "公開日は6月18日(木)です", Due("6月18日", date(2026, 6, 18))),
        ("ja", "来週の金曜日までに", Due("来週の金曜日までに", date(2026, 3, 13))),
        ("fr", "le correctif d'ici vendredi", Due("d'ici vendredi", date(2026, 3, 6))),
        ("fr", "avant le 1er avril", Due("avant le 1er avril", date(2026, 4, 1))),
        ("fr", "rendez-vous mardi 10 h", Due("mardi", date(2026, 3, 3))),
        ("fr", "mon avis: c'était vendredi dernier", None),
        ("pt", "fecha até sexta-feira", Due("até sexta-feira", date(2026, 3, 6))),
        ("pt", "te mando na quinta", Due("na quinta", date(2026, 3, 5))),
        ("pt", "depois de amanhã", Due("depois de amanhã", date(2026, 3, 4))),
        ("pt", "para 20 de março", Due("para 20 de março", date(2026, 3, 20))),
        ("pt", "a segunda parte, na sexta passada", None),
        ("it", "entro venerdì", Due("entro venerdì", date(2026, 3, 6))),
        ("it", "entro il 15 marzo", Due("entro il 15 marzo", date(2026, 3, 15))),
        ("it", "ne parliamo lunedi prossimo", Due("lunedi", date(2026, 3, 9))),
        ("it", "lunedì scorso", None),
        ("nl", "uiterlijk vrijdag", Due("uiterlijk vrijdag", date(2026, 3, 6))),
        ("nl", "voor 15 maart", Due("voor 15 maart", date(2026, 3, 15))),
        ("nl", "goede morgen, afgelopen vrijdag", None),
        ("pl", "wyślę do piątku", Due("do piątku", date(2026, 3, 6))),
        ("pl", "we wtorek 10 marca", Due("we wtorek 10 marca", date(2026, 3, 10))),
        ("pl", "zrobie to w srode", Due("w srode", date(2026, 3, 4))),
        ("pl", "w zeszły piątek", None),
        ("ru", "пришлю до пятницы", Due("до пятницы", date(2026, 3, 6))),
        ("ru", "в среду, к 15 марта", Due("в среду", date(2026, 3, 4))),
        ("ru", "к 15 марта", Due("к 15 марта", date(2026, 3, 15))),
        ("ru", "тестовая среда, в прошлую пятницу", None),
        ("ko", "금요일까지 공유해 주세요", Due("금요일까지", date(2026, 3, 6))),
        ("ko", "다음 주 수요일에 봐요", Due("다음 주 수요일에", date(2026, 3, 11))),
        ("ko", "3월 15일 전까지", Due("3월 15일 전까지", date(2026, 3, 15))),
        ("ko", "지난주 금요일에 끝났어요", None),
        ("zh", "在周五之前发给财务", Due("在周五之前", date(2026, 3, 6))),
        ("zh", "下周三开会", Due("下周三", date(2026, 3, 11))),
        ("zh", "3月15号前", Due("3月15号前", date(2026, 3, 15))),
        ("zh", "一周三次，上周五", None),
    ],
)
def test_a_due_date_is_found_with_its_words(code: str, text: str, due: Due | None) -> None:
    said = date(2026, 5, 12) if code == "es" and "20" in text else MONDAY
    assert find_due(text, said, BOOKS[code]) == due


@given(st.sampled_from(sorted(BOOKS)), st.text(max_size=60), st.dates())
def test_a_due_date_quotes_the_text_and_is_never_in_the_past(code: str, text: str, said: date) -> None:
    due = find_due(text, said, BOOKS[code])
    assert due is None or (due.date >= said and due.text in " ".join(text.split()))


@given(st.dates(date(2000, 1, 1), date(2100, 1, 1)), st.integers(0, 6))
def test_a_weekday_means_the_next_one_after_the_message(said: date, weekday: int) -> None:
    name = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[weekday]
    due = find_due(f"by {name}", said, BOOKS["en"])
    assert due is not None
    assert due.date.weekday() == weekday
    assert 1 <= (due.date - said).days <= 7
