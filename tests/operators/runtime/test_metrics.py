from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import REGISTRY
from pydantic import BaseModel

from backscroll.operators.llm.protocol import Answer, BadAnswer, LLMError, LLMUnavailable, Prompt, Usage
from backscroll.operators.llm.resilience import Metered
from backscroll.operators.runtime.metrics import stage
from support.building import turn, window

SECRET = "the pump leaks"
PROMPT = Prompt("summary", "1", "tiny", "s", SECRET, window([turn(0, SECRET)]).ref, 50)


class Text(BaseModel):
    text: str = "hello"


class Model:
    """Answers, or fails with an error."""

    def __init__(self, error: LLMError | None = None) -> None:
        self.error = error

    async def ask(self, _prompt: Prompt, schema: type[Text]) -> Answer[Text]:
        if self.error:
            raise self.error
        return Answer(schema(), Usage(70, 30), "{}")


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.mark.parametrize(
    ("error", "outcome", "tokens"),
    [
        (None, "ok", (70, 30)),
        (LLMUnavailable("gone", "timeout"), "timeout", (0, 0)),
        (BadAnswer("cut", "truncated", Usage(5, 6)), "truncated", (5, 6)),
    ],
)
def test_calls_are_counted_by_outcome_with_their_tokens(
    error: LLMError | None, outcome: str, tokens: tuple[int, int]
) -> None:
    def counts() -> list[float]:
        return [
            value("backscroll_llm_calls_total", stage="summary", outcome=outcome),
            value("backscroll_llm_tokens_total", stage="summary", direction="prompt"),
            value("backscroll_llm_tokens_total", stage="summary", direction="completion"),
            value("backscroll_llm_seconds_count", stage="summary"),
        ]

    before = counts()
    with suppress(LLMError):
        asyncio.run(Metered(Model(error)).ask(PROMPT, Text))
    grown = [after - earlier for after, earlier in zip(counts(), before, strict=True)]
    assert grown == [1, *tokens, 1]
    assert value("backscroll_llm_in_flight") == 0


def test_a_stage_is_a_histogram_and_a_span() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    before = value("backscroll_stage_seconds_count", stage="memory")
    with stage("memory"):
        pass
    assert value("backscroll_stage_seconds_count", stage="memory") - before == 1
    assert [span.name for span in exporter.get_finished_spans()] == ["backscroll.memory"]


def test_no_metric_holds_chat_text() -> None:
    asyncio.run(Metered(Model()).ask(PROMPT, Text))
    for family in REGISTRY.collect():
        for sample in family.samples:
            assert SECRET not in f"{sample.name}{sample.labels}"
