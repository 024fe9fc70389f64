"""Layers over a language model: a limit on calls at once, a circuit breaker, another try."""

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
    """At most `limit` calls at once; the others wait."""

    def __init__(self, inner: LLM, limit: int) -> None:
        self._inner = inner
        self._slots = asyncio.Semaphore(limit)

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """Ask when there is room."""
        async with self._slots:
            return await self._inner.ask(prompt, schema)


class CircuitBreaker:
    """Stops asking a server that does not answer, and tries again now and then.

    Args:
        inner: the model.
        failures: how many calls in a row have to fail before it opens.
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
        """Whether calls fail at once."""
        return self._failed >= self._limit and self._clock() < self._retry_at

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """Ask, unless the last calls all failed."""
        if self.is_open:
            raise CircuitOpen(f"not asked: the last {self._failed} calls failed")
        if self._failed >= self._limit:
            self._retry_at = self._clock() + self._seconds  # one call tries, the others keep out
        try:
            answer = await self._inner.ask(prompt, schema)
        except LLMUnavailable:
            self._failed += 1
            self._retry_at = self._clock() + self._seconds
            raise
        except (BadAnswer, LLMRefused):
            self._failed = 0  # it does answer
            raise
        self._failed = 0
        return answer


class SecondTry:
    """Asks once more after an unusable answer, with more room and a little chance."""

    def __init__(self, inner: LLM) -> None:
        self._inner = inner

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """The first usable answer of two; the usage is that of both."""
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
