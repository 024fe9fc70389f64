from __future__ import annotations

import json
from typing import Any

import pytest

from backscroll.benchmarks.judge.schemas import (
    Expressed,
    MemoryVerdict,
    UtteranceVerdict,
    citing,
    facts_of,
    keyed,
)
from backscroll.operators.llm.protocol import BadAnswer, Usage, parse_answer

COVERED = {"claim": "the ship is late", "sentences": [1], "covered": True}
SCHEMA = keyed(citing(UtteranceVerdict, 2), ("U0", "U1"))


def parse(answer: Any, schema: Any = SCHEMA) -> Any:
    return parse_answer(json.dumps(answer), schema, Usage(), finished=True)


def test_an_answer_with_a_verdict_for_every_item_is_valid() -> None:
    answer = parse({"U0": COVERED, "U1": {**COVERED, "covered": False}})
    assert (answer.U0.cited, answer.U1.cited) == ({1}, set())


@pytest.mark.parametrize(
    "answer",
    [
        {"U0": COVERED},
        {"U0": COVERED, "U1": COVERED, "U2": COVERED},
        {"U0": COVERED, "U1": {**COVERED, "sentences": [2]}},
        {"U0": COVERED, "U1": {**COVERED, "sentences": [-1]}},
        {"U0": COVERED, "U1": {**COVERED, "sentences": []}},
        {"U0": COVERED, "U1": {**COVERED, "covered": 0.5}},
    ],
    ids=["left out", "added", "no such sentence", "negative", "covered by nothing", "half covered"],
)
def test_an_answer_with_missing_extra_or_nonexistent_items_is_invalid(answer: Any) -> None:
    with pytest.raises(BadAnswer, match="does not match the schema"):
        parse(answer)


def test_a_verdict_that_a_memory_contains_something_must_cite_it() -> None:
    verdict = {"needed": "Turin", "found": " ", "missing": "", "contained": True}
    with pytest.raises(BadAnswer):
        parse({"G0": verdict}, keyed(MemoryVerdict, ("G0",)))
    assert parse({"G0": {**verdict, "found": "in Turin"}}, keyed(MemoryVerdict, ("G0",))).G0.contained


def test_the_schema_asks_for_the_grounds_before_the_decision() -> None:
    for verdict, last in ((citing(Expressed, 3), "expressed"), (citing(UtteranceVerdict, 3), "covered")):
        schema = verdict.model_json_schema()
        assert list(schema["properties"])[-2:] == ["sentences", last]
        assert schema["required"] == list(schema["properties"])
        assert schema["properties"]["sentences"]["items"] == {"type": "integer", "minimum": 0, "maximum": 2}


def test_there_is_a_list_of_facts_for_every_sentence() -> None:
    assert parse({"S0": ["a", "b"], "S1": []}, facts_of(("S0", "S1"))).S1 == []
    with pytest.raises(BadAnswer):
        parse({"S0": ["a"]}, facts_of(("S0", "S1")))
