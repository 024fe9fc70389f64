"""A catch-up made by hand against an absence annotated by hand: every figure is known."""

from __future__ import annotations

from typing import Any

from backscroll.benchmarks.absences.annotations import Absence, Action, Point, Question
from backscroll.benchmarks.absences.scoring import score, total
from backscroll.operators.catchup.act_items import Kind
from backscroll.operators.catchup.digest import ChannelDigest, DigestItem, LeftOut
from backscroll.operators.language.chat_language import main_book
from backscroll.operators.messages import ChannelKey
from support.building import turn

TURNS = [turn(number, f"message {number}") for number in range(10)]


def ids(*names: str) -> frozenset[str]:
    return frozenset(names)


def line(kind: Kind, *places: int, owner: str | None = None, for_me: Any = None) -> DigestItem:
    turns = tuple(TURNS[place] for place in places)
    return DigestItem(kind, turns[0].text, turns, owner=owner, for_me=for_me)


ABSENCE = Absence(
    name="dock-1",
    dialogue="dock",
    first="m0",
    last="m9",
    reader="Ana",
    points=(Point(ids("m1", "m2"), 3), Point(ids("m8"), 2), Point(ids("m0"), 1)),
    decisions=(ids("m2"), ids("m3")),
    actions=(
        Action(ids("m1"), "Ana", open=True),
        Action(ids("m4"), "Ben", open=True),
        Action(ids("m5"), "Ben", open=False),
    ),
    questions=(Question("m6", "open"), Question("m7", "answered"), Question("m8", "open")),
    for_reader=(ids("m0"),),
)
SECTIONS = {
    "for_me": (
        line("action", 1, owner="Ana", for_me="action"),
        line("question", 8, for_me="question"),
    ),
    "decisions": (line("decision", 2), line("decision", 9)),
    "actions": (line("action", 4, owner="Cem"), line("action", 5, owner="Ben")),
    "questions": (line("question", 7), line("question", 6, 7)),
    "highlights": (line("highlight", 3),),
}


def digest(sections: dict[str, tuple[DigestItem, ...]], degraded: str | None = None) -> ChannelDigest:
    return ChannelDigest(
        key=ChannelKey("default", "dock"),
        book=main_book(()),
        advice="read",
        messages=len(TURNS),
        people=("Ana",),
        first=TURNS[0],
        last=TURNS[-1],
        sections=sections,
        left_out=LeftOut(),
        degraded=degraded,
    )


def kind(right: int, lines: int, found: int, items: int) -> dict[str, Any]:
    return {
        "right": right,
        "lines": lines,
        "found": found,
        "items": items,
        "precision": round(right / lines, 4) if lines else None,
        "recall": round(found / items, 4) if items else None,
    }


def test_every_figure_of_a_catch_up_is_counted_by_message_ids() -> None:
    assert score(ABSENCE, [digest(SECTIONS)], pair=False).to_json() == {
        "absences": 1,
        "degraded": 0,
        "kinds": {
            "for_me": kind(1, 2, 1, 2),
            "decisions": kind(1, 2, 1, 2),
            "actions": kind(1, 2, 2, 2),  # m1 is found under "for me"; m5 is done
            "questions": kind(1, 2, 2, 2),  # m8 is found under "for me"
            "highlights": kind(0, 1, 0, 3),
            "acts": kind(3, 6, 5, 6),
        },
        "owners": {"right": 1, "lines": 2},
        "answered": {"shown": 1, "lines": 2},
        "points": {"found": 5, "weight": 6, "share": 0.8333},
        "ids_per_line": {"lines": 9, "mean": 1.1111, "max": 2},
    }


def test_between_two_people_lines_for_the_reader_are_not_judged() -> None:
    figures = score(ABSENCE, [digest(SECTIONS)], pair=True).to_json()
    assert figures["kinds"]["for_me"] == kind(0, 0, 1, 2)
    assert figures["kinds"]["actions"] == kind(1, 2, 2, 2)


def test_an_empty_catch_up_finds_nothing_and_has_no_wrong_lines() -> None:
    figures = score(ABSENCE, [], pair=False).to_json()
    assert figures["kinds"]["acts"] == kind(0, 0, 0, 6)
    assert figures["points"] == {"found": 0, "weight": 6, "share": 0.0}
    assert figures["ids_per_line"] == {"lines": 0, "mean": None, "max": 0}


def test_figures_of_several_catch_ups_are_sums() -> None:
    whole = score(ABSENCE, [digest(SECTIONS)], pair=False)
    failed = score(ABSENCE, [digest({}, degraded="catchup: timeout")], pair=False)
    figures = total([whole, failed, whole]).to_json()
    assert (figures["absences"], figures["degraded"]) == (3, 1)
    assert figures["kinds"]["actions"] == kind(2, 4, 4, 6)
    assert figures["points"] == {"found": 10, "weight": 18, "share": 0.5556}
    assert figures["ids_per_line"] == {"lines": 18, "mean": 1.1111, "max": 2}
