"""Prometheus metrics of the engine, in the default registry of its process. No label holds text.

Where several processes are one engine, their values are added up; of the last epoch the oldest counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from prometheus_client import Counter, Gauge, Histogram
from pydantic import BaseModel

from operators.llm import LLM, Answer, BadAnswer, LLMError, Prompt, Usage

__all__ = [
    "DEAD_LETTERS",
    "DEGRADED",
    "DROPPED_GAPS",
    "EMBEDDING_SECONDS",
    "EPOCH_PROGRESS",
    "EXECUTOR_SECONDS",
    "LOST",
    "MESSAGES",
    "PENDING_WINDOWS",
    "SUMMARIES",
    "Metered",
    "stage",
]

T = TypeVar("T", bound=BaseModel)

MESSAGES = Counter("backscroll_messages", "Messages received.")
DEAD_LETTERS = Counter("backscroll_dead_letters", "Input and windows that were refused.")
LOST = Counter("backscroll_lost_messages", "Messages that the broker no longer had.", ["topic", "partition"])
SUMMARIES = Counter("backscroll_summaries", "Summaries emitted.", ["kind", "origin"])
DEGRADED = Counter("backscroll_degraded_summaries", "Summaries that are less than was asked for.", ["reason"])
DROPPED_GAPS = Counter("backscroll_dropped_gaps", "Gaps of a model that a guard dropped.", ["reason"])
PENDING_WINDOWS = Gauge(
    "backscroll_pending_windows",
    "Windows between their close and their summary.",
    multiprocess_mode="livesum",
)
EPOCH_PROGRESS = Gauge(
    "backscroll_epoch_progress_timestamp_seconds",
    "When the last epoch closed; +Inf where no partition is read.",
    multiprocess_mode="livemin",
)
EPOCH_PROGRESS.set(math.inf)  # 0 would be an engine that stands since 1970
STAGE_SECONDS = Histogram(
    "backscroll_stage_seconds",
    "Time of one window in a stage, waiting included.",
    ["stage"],
    buckets=(0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300),
)
EXECUTOR_SECONDS = Counter(
    "backscroll_executor_seconds", "Time of the thread that works on the processor and the disk.", ["work"]
)
EMBEDDING_SECONDS = Counter("backscroll_embedding_seconds", "Time in the embedder, whichever work it is for.")
LLM_CALLS = Counter("backscroll_llm_calls", "Calls of a language model.", ["stage", "outcome"])
LLM_TOKENS = Counter("backscroll_llm_tokens", "Tokens of a language model.", ["stage", "direction"])
LLM_SECONDS = Histogram(
    "backscroll_llm_seconds",
    "Time of one call, retries included.",
    ["stage"],
    buckets=(0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300),
)
LLM_IN_FLIGHT = Gauge(
    "backscroll_llm_in_flight",
    "Calls of a language model that are running.",
    multiprocess_mode="livesum",
)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Measure one window's way through a stage, as a metric and, with OpenTelemetry, as a span."""
    from operators.tracing import span

    with STAGE_SECONDS.labels(name).time(), span(f"backscroll.{name}"):
        yield


class Metered:
    """A layer over a model that counts its calls, failures by kind, tokens and seconds."""

    def __init__(self, inner: LLM) -> None:
        self._inner = inner

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """Ask, and count."""
        started, outcome = time.perf_counter(), "cancelled"
        LLM_IN_FLIGHT.inc()
        try:
            answer = await self._inner.ask(prompt, schema)
            outcome = "ok"
        except LLMError as err:
            outcome = err.kind
            if isinstance(err, BadAnswer):
                self._tokens(prompt.stage, err.usage)
            raise
        finally:
            LLM_IN_FLIGHT.dec()
            LLM_CALLS.labels(prompt.stage, outcome).inc()
            LLM_SECONDS.labels(prompt.stage).observe(time.perf_counter() - started)
        self._tokens(prompt.stage, answer.usage)
        return answer

    @staticmethod
    def _tokens(stage: str, usage: Usage) -> None:
        LLM_TOKENS.labels(stage, "prompt").inc(usage.prompt)
        LLM_TOKENS.labels(stage, "completion").inc(usage.completion)
