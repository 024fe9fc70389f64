from __future__ import annotations

import asyncio

import pytest

from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.gaps.stage import ModelGaps, RuleGaps
from backscroll.operators.llm.protocol import (
    BadAnswer,
    BudgetSpent,
    LLMError,
    LLMUnavailable,
    Usage,
)
from support.building import turn, window
from support.scripted import ScriptedModel

WINDOW = window(
    [
        turn(10, "We decided to replace it on Friday, it costs 640 euros."),
        turn(11, "Fine, then Ben orders it.", "Cem"),
    ]
)
GAP = {
    "utterance_index": 1,
    "quote": "We decided to replace it on Friday",
    "gap_reason": "what is replaced is not said",
    "evidence_need_query": "retrieve earlier dialogue about what is replaced on Friday",
    "keywords": ["replace", "Friday"],
}


def test_a_models_gap_names_the_utterance_that_holds_its_quote() -> None:
    found = asyncio.run(ModelGaps(ScriptedModel([{"gaps": [GAP]}]), "tiny", None).detect(WINDOW, max_gaps=8))
    (gap,) = found.gaps
    assert (gap.utterance, gap.quote) == ("m10", "We decided to replace it on Friday")
    assert (found.model, found.usage, found.degraded, found.dropped) == ("tiny", Usage(100, 10), None, {})


def test_gaps_that_a_guard_drops_are_counted() -> None:
    strange = {**GAP, "quote": "nobody wrote this sentence"}
    found = asyncio.run(
        ModelGaps(ScriptedModel([{"gaps": [strange, GAP]}]), "tiny", None).detect(WINDOW, max_gaps=8)
    )
    assert [gap.utterance for gap in found.gaps] == ["m10"]
    assert found.dropped == {"unknown_quote": 1}


@pytest.mark.parametrize(
    ("error", "degraded"),
    [
        (LLMUnavailable("gone", "timeout"), "gaps: timeout"),
        (BadAnswer("cut", "truncated", Usage(50, 60)), "gaps: truncated"),
        (BudgetSpent("spent"), "budget"),
    ],
)
def test_if_the_model_fails_the_rules_find_gaps_and_the_reason_is_given(
    error: LLMError, degraded: str
) -> None:
    rules = RuleGaps(RulesDetector())
    found = asyncio.run(ModelGaps(ScriptedModel([error]), "tiny", rules).detect(WINDOW, max_gaps=8))
    assert found.gaps == RulesDetector().detect(WINDOW, max_gaps=8)
    assert (found.model, found.degraded) == ("rules", degraded)
    assert found.usage == (Usage(50, 60) if isinstance(error, BadAnswer) else Usage())


def test_without_a_fallback_the_error_is_raised() -> None:
    with pytest.raises(LLMUnavailable):
        asyncio.run(
            ModelGaps(ScriptedModel([LLMUnavailable("gone")]), "tiny", None).detect(WINDOW, max_gaps=8)
        )
