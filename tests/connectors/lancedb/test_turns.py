from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from backscroll.connectors.lancedb.schema import SCHEMAS, turn_row
from backscroll.connectors.lancedb.turns import StoredTurns
from backscroll.operators.history.columns import KeptTurns
from backscroll.operators.messages import NOBODY, Turn
from support.building import START, turn

TURNS = [
    turn(0, "the pump leaks", thread="m0", permalink="https://x.io/1"),
    replace(turn(1, "secret", "Bo", bot=True, late=True), edited=START + timedelta(seconds=5)),
    turn(2, "🧭 漢字", reply_to="m1"),
    turn(3, ""),
]


def stored(turns: list[Turn]) -> StoredTurns:
    rows = [{"namespace": "default", "channel": "general", **turn_row(one)} for one in turns]
    return StoredTurns(pa.Table.from_pylist(rows, schema=SCHEMAS["turns"]))


def test_turns_are_read_back_unchanged_and_in_order() -> None:
    turns = stored([TURNS[2], TURNS[0], TURNS[3], TURNS[1]])
    assert list(turns) == TURNS
    assert turns[1:3] == TURNS[1:3]
    assert turns[-1] == TURNS[3]
    assert turns.ids == ["m0", "m1", "m2", "m3"]


def test_the_old_text_of_a_changed_turn_is_erased_from_the_columns() -> None:
    turns, kept = stored(TURNS), KeptTurns()
    kept.extend(turns, turns.ids)
    gone = replace(TURNS[1], text="", author=NOBODY, tokens=0, deleted=True)
    kept.replace([gone])
    assert kept.between(0, 4) == [TURNS[0], gone, *TURNS[2:]]
    assert kept.find("m1") == gone
    assert kept.find("m2") == TURNS[2]
    assert kept.find("m9") is None
    assert turns[1].text == ""


def test_new_turns_follow_the_loaded_ones() -> None:
    turns, kept = stored(TURNS), KeptTurns()
    kept.extend(turns, turns.ids)
    kept.extend([turn(4, "lunch"), turn(5, "noon")], ["m4", "m5"])
    assert len(kept) == 6
    assert kept.between(2, 5) == [TURNS[2], TURNS[3], turn(4, "lunch")]
    assert kept.between(5, 9) == [turn(5, "noon")]
    kept.replace([turn(5, "evening", id_="m5")])
    assert kept.find("m5") == turn(5, "evening", id_="m5")


def test_an_empty_channel_has_no_turns() -> None:
    assert list(stored([])) == []
    assert stored([]).ids == []
