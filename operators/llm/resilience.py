"""Wrappers around a language model: a concurrency limit, a circuit breaker, a second try, and metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from prometheus_client import Counter, Gauge, Histogram
from pydantic import BaseModel

from backscroll.operators.llm.protocol import (
    LLM,
    Answer,
    BadAnswer,
    CircuitOpen,
    LLMError,
    LLMRefused,
    LLMUnavailable,
    Prompt,
    Usage,
)

__all__ = ["CircuitBreaker", "Limited", "Metered", "SecondTry"]

T = TypeVar("T", bound=BaseModel)


class Limited:
    """Runs at most `limit` calls at once; the others wait."""

    def __init__(self, inner: LLM, limit: int) -> None:
        self._inner = inner
        self._slots = asyncio.Semaphore(limit)

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """Ask once a slot is free."""
        async with self._slots:
            return await self._inner.ask(prompt, schema)


class CircuitBreaker:
    """Stops asking a server that keeps failing, and tries again from time to time.

    Args:
        inner: the model.
        failures: how many calls in a row must fail before the circuit opens.
        seconds: how long it stays open before one call tries again.
    """

    def __init__(
        self,
        inner: LLM,
        *,
        failures: int = 5,
        seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self._limit = failures
        self._seconds = seconds
        self._clock = clock
        self._failed = 0
        self._retry_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether calls currently fail without asking the server."""
        return self._failed >= self._limit and self._clock() < self._retry_at

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """Ask, unless the most recent calls all failed."""
        if self.is_open:
            raise CircuitOpen(f"not asked: the last {self._failed} calls failed")
        if self._failed >= self._limit:
            self._retry_at = self._clock() + self._seconds  # one call tries, the others still fail
        try:
            answer = await self._inner.ask(prompt, schema)
        except LLMUnavailable:
            self._failed += 1
            self._retry_at = self._clock() + self._seconds
            raise
        except (BadAnswer, LLMRefused):
            self._failed = 0  # the server does answer
            raise
        self._failed = 0
        return answer


class SecondTry:
    """Asks once more after an unusable answer, with a higher token limit or temperature."""

    def __init__(self, inner: LLM) -> None:
        self._inner = inner

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """The first usable answer of at most two; the usage is the sum of both."""
        try:
            return await self._inner.ask(prompt, schema)
        except BadAnswer as first:
            changed = replace(prompt, temperature=max(prompt.temperature, 0.3))
            if first.kind == "truncated":
                changed = replace(prompt, max_tokens=2 * prompt.max_tokens)
            try:
                answer = await self._inner.ask(changed, schema)
            except LLMError as second:
                second.usage = first.usage + second.usage
                raise
            return replace(answer, usage=first.usage + answer.usage)


LLM_CALLS = Counter("backscroll_llm_calls", "Language model calls.", ["stage", "outcome"])
LLM_TOKENS = Counter("backscroll_llm_tokens", "Language model tokens.", ["stage", "direction"])
LLM_SECONDS = Histogram(
    "backscroll_llm_seconds",
    "Duration of a language model call, including retries.",
    ["stage"],
    buckets=(0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300),
)
LLM_IN_FLIGHT = Gauge(
    "backscroll_llm_in_flight",
    "Language model calls in flight.",
    multiprocess_mode="livesum",
)


class Metered:
    """Wraps a model and counts its calls, failures by kind, tokens and seconds."""

    def __init__(self, inner: LLM) -> None:
        self._inner = inner

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """Ask, and record the metrics."""
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
