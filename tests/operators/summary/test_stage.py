from __future__ import annotations

import asyncio

import pytest

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.llm.protocol import (
    BudgetSpent,
    LLMError,
    LLMUnavailable,
    Usage,
)
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.summary.evidence import Evidence
from backscroll.operators.summary.extractive import ExtractiveSummarizer
from backscroll.operators.summary.stage import ExtractiveWriting, ModelWriting, Written
from support.building import turn, window
from support.scripted import ScriptedModel

WINDOW = window(
    [
        turn(10, "We decided to replace it on Friday, it costs 640 euros."),
        turn(11, "Fine, then Ben orders it.", "Cem"),
    ]
)
MEMORY = [MemoryTurn(turn(3, "The pump on quay four leaks.", "Ben"), None, 12, 0, 1, 1.0)]
EVIDENCE = {0: (Evidence(MEMORY[0], MEMORY[0].text),)}
GAPS = [Gap("m10", "We decided to replace it on Friday", "", "the pump that is replaced")]


EXTRACTIVE = ExtractiveWriting(ExtractiveSummarizer())


def write(model: ScriptedModel, memory: list[MemoryTurn] | None = None, **options: object) -> Written:
    stage = ModelWriting(model, "tiny", EXTRACTIVE, **options)  # type: ignore[arg-type]
    memory = MEMORY if memory is None else memory
    return asyncio.run(stage.write(WINDOW, GAPS, memory, EVIDENCE if memory else {}))


def test_a_supported_summary_is_used_unchanged() -> None:
    model = ScriptedModel(
        [{"summary": " The leaking pump on quay four is replaced on Friday for 640 euros. "}]
    )
    written = write(model)
    assert written.text == "The leaking pump on quay four is replaced on Friday for 640 euros."
    assert (written.kind, written.model, written.usage) == ("abstractive", "tiny", Usage(100, 10))
    assert (written.degraded, written.unsupported) == (None, ())
    assert "memory begins" in model.asked[0].user


def test_the_model_is_asked_once_more_about_an_unsupported_number() -> None:
    model = ScriptedModel(
        [{"summary": "The pump costs 900 euros."}, {"summary": "The pump costs 640 euros."}]
    )
    written = write(model)
    assert (written.text, written.unsupported) == ("The pump costs 640 euros.", ())
    assert written.usage == Usage(200, 20)
    assert "900" in model.asked[1].system
    assert "900" not in model.asked[0].system


def test_a_summary_that_stays_unsupported_is_marked_with_its_spans() -> None:
    written = write(ScriptedModel([{"summary": "It costs 900 euros."}, {"summary": "It costs 800 euros."}]))
    assert (written.kind, written.text) == ("abstractive", "It costs 900 euros.")
    (span,) = written.unsupported
    assert "900" in span


def test_a_summary_that_stays_unsupported_can_be_replaced_by_the_extractive_one() -> None:
    model = ScriptedModel([{"summary": "It costs 900 euros."}, {"summary": "It costs 800 euros."}])
    written = write(model, replace_unsupported=True)
    assert (written.kind, written.degraded) == ("extractive", "summary: unsupported")
    assert written.usage == Usage(200, 20)
    assert "640 euros" in written.text


def test_a_failing_second_try_keeps_the_marked_first_summary() -> None:
    written = write(ScriptedModel([{"summary": "It costs 900 euros."}, LLMUnavailable("gone")]))
    assert (written.text, len(written.unsupported)) == ("It costs 900 euros.", 1)


@pytest.mark.parametrize(
    ("error", "degraded"),
    [(LLMUnavailable("gone", "server"), "summary: server"), (BudgetSpent("spent"), "budget")],
)
def test_if_the_model_fails_the_extractive_summary_gives_the_reason(error: LLMError, degraded: str) -> None:
    written = write(ScriptedModel([error]))
    text = ExtractiveSummarizer().summarize(WINDOW.turns, GAPS, EVIDENCE)
    assert (written.text, written.kind, written.degraded) == (text, "extractive", degraded)


def test_if_the_model_fails_the_error_can_be_raised_instead() -> None:
    with pytest.raises(LLMUnavailable):
        write(ScriptedModel([LLMUnavailable("gone")]), fail=True)
