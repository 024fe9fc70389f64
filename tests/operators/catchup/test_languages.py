"""Catch-ups in languages that have a phrase book but no lexicon."""

from __future__ import annotations

from datetime import UTC

import pytest

from backscroll.flows.terminal.digest_text import Form
from backscroll.operators.catchup.catch_up import catch_up
from backscroll.operators.catchup.context import ContextFinder
from backscroll.operators.catchup.due_dates import find_due
from backscroll.operators.catchup.period import Endpoint, Period
from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.language.chat_language import book_of, main_book
from backscroll.operators.language.salience import analyse_turns
from backscroll.operators.memory.registry import get
from backscroll.operators.memory.request import MemoryParameters
from support.chats import START, channel, chat
from support.languages import CHATS


@pytest.mark.parametrize(
    ("code", "highlights", "span"),
    [
        ("fr", "L'essentiel", "10 messages du 2026-03-02 09:00 au 2026-03-02 09:45 (UTC), 3 personnes"),
        ("pt", "O mais importante", "11 mensagens de 2026-03-02 09:00 a 2026-03-02 09:50 (UTC), 3 pessoas"),
        ("it", "In evidenza", "10 messaggi dal 2026-03-02 09:00 al 2026-03-02 09:45 (UTC), 3 persone"),
        ("nl", "Hoofdpunten", "10 berichten van 2026-03-02 09:00 tot 2026-03-02 09:45 (UTC), 3 personen"),
        ("pl", "Najważniejsze", "10 wiadomości od 2026-03-02 09:00 do 2026-03-02 09:45 (UTC), 3 os."),
        ("ru", "Главное", "10 сообщ. с 2026-03-02 09:00 по 2026-03-02 09:45 (UTC), 3 чел."),
        ("ko", "주요 내용", "2026-03-02 09:00부터 2026-03-02 09:45까지 메시지 10개 (UTC), 3명"),
        ("zh", "重点", "2026-03-02 09:00 至 2026-03-02 09:45 10 条消息（UTC）, 3 人"),
    ],
)  # fmt: skip
def test_a_catch_up_has_headings_in_the_language_of_the_chat(code: str, highlights: str, span: str) -> None:
    recalling = ContextFinder(RulesDetector(), get("recent"), MemoryParameters())
    period = Period(Endpoint(START), None)
    (digest,) = catch_up([channel(chat(*CHATS[code]))], period, recalling=recalling, zone=UTC)
    lines = Form(UTC, "UTC", None, markdown=False, now=START).digests([digest], []).splitlines()
    assert digest.book.code == code
    assert lines[1] == span
    assert highlights in lines
    headings = {line for line in lines[2:] if line and not line.startswith("- ")}
    known = {digest.book.headings[name] for name in ("decisions", "actions", "questions", "highlights")}
    assert {line for line in headings if not line.startswith(digest.book.headings["left_out"])} <= known


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("fr", [("ce matin", "2026-03-02"), ("d'ici vendredi", "2026-03-06")]),
        ("pt", [("até sexta-feira", "2026-03-06"), ("hoje", "2026-03-02")]),
        ("it", [("entro venerdì", "2026-03-06")]),
        ("nl", [("uiterlijk vrijdag", "2026-03-06"), ("vanmiddag", "2026-03-02")]),
        ("pl", [("do piątku", "2026-03-06"), ("jutro rano", "2026-03-03")]),
        ("ru", [("до пятницы", "2026-03-06"), ("сегодня вечером", "2026-03-02")]),
        ("ko", [("금요일까지", "2026-03-06"), ("오늘 오후에", "2026-03-02")]),
        ("zh", [("在周五之前", "2026-03-06")]),
    ],
)
def test_dates_are_found_in_the_language_of_the_chat(code: str, found: list[tuple[str, str]]) -> None:
    analysed_turns = analyse_turns(chat(*CHATS[code]))
    usual = main_book(analysed_turns)
    dues = [find_due(one.text, one.turn.ts.date(), book_of(one, usual)) for one in analysed_turns]
    assert sorted((due.text, str(due.date)) for due in dues if due is not None) == found


def test_an_english_message_in_a_french_chat_keeps_its_english_date() -> None:
    lines = [*CHATS["fr"], "Bastien: I will send the notes to the customers by Friday."]
    analysed_turns = analyse_turns(chat(*lines))
    last = analysed_turns[-1]
    due = find_due(last.text, last.turn.ts.date(), book_of(last, main_book(analysed_turns)))
    assert due is not None
    assert (due.text, str(due.date)) == ("by Friday", "2026-03-06")
