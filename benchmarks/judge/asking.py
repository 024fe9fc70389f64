"""Ask a language model many questions at once, and track costs, failures and progress.

If a model cannot answer a question, after the retries of the layers below, its answer is missing: it is
counted by kind of failure and never taken as a "no". The run ends only if the server stops answering.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from backscroll.operators.llm.prompts import fenced, load_prompt
from backscroll.operators.llm.protocol import LLM, Answer, CircuitOpen, LLMError, Prompt, Usage
from backscroll.operators.stream.windows import WindowRef

__all__ = ["Asked", "CountedModel", "TimedModel", "concurrently", "question"]

T = TypeVar("T", bound=BaseModel)
Y = TypeVar("Y")


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """An answer (None if there is none), and the seconds it took, including retries.

    `error` says why there is none. `kept` is true if the question had been asked before.
    """

    value: T | None
    seconds: float
    usage: Usage = field(default_factory=Usage)
    error: LLMError | None = None
    kept: bool = False


class CountedModel:
    """Asks a model each question only once, and counts calls, tokens and failures.

    Args:
        llm: the model.
        name: the model's name on its server.
        limit: the largest number of questions at once; waiting for a slot does not count as answer time.
    """

    def __init__(self, llm: LLM, name: str, *, limit: int = 32) -> None:
        self.name = name
        self.usage = Usage()
        self.failures: Counter[str] = Counter()
        self._llm = llm
        self._slots = asyncio.Semaphore(limit)
        self._asked: dict[str, asyncio.Task[Any]] = {}

    async def ask(self, prompt: Prompt, schema: type[T]) -> Asked[T]:
        """The model's answer; its value is None if the model failed to answer.

        Raises:
            CircuitOpen: the server has stopped answering.
        """
        digest = prompt.digest(schema)
        kept = digest in self._asked
        if not kept:
            self._asked[digest] = asyncio.create_task(self._ask(prompt, schema))
        answer: Asked[T] = await self._asked[digest]
        if isinstance(answer.error, CircuitOpen):
            raise answer.error
        return replace(answer, kept=kept)

    async def _ask(self, prompt: Prompt, schema: type[T]) -> Asked[T]:
        async with self._slots:
            return await self._put(prompt, schema)

    async def _put(self, prompt: Prompt, schema: type[T]) -> Asked[T]:
        started = time.perf_counter()
        value: T | None = None
        error: LLMError | None = None
        try:
            answer = await self._llm.ask(prompt, schema)
            value, usage = answer.value, answer.usage
        except LLMError as err:
            error, usage = err, err.usage
            if not isinstance(err, CircuitOpen):
                self.failures[f"{prompt.stage}: {err.kind}"] += 1
        self.usage += usage
        return Asked(value, time.perf_counter() - started, usage, error)

    def to_json(self) -> dict[str, Any]:
        """The number of questions, their costs, and the failures by question and kind."""
        return {
            "model": self.name,
            "questions": len(self._asked),
            "prompt_tokens": self.usage.prompt,
            "completion_tokens": self.usage.completion,
            "failures": dict(sorted(self.failures.items())),
        }


class TimedModel:
    """A counted model as an `LLM`; `seconds` is the time of the answers that nobody had asked for before."""

    def __init__(self, model: CountedModel) -> None:
        self.seconds = 0.0
        self._model = model

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """The model's answer; one that is kept costs nothing.

        Raises:
            LLMError: none could be had.
        """
        asked = await self._model.ask(prompt, schema)
        if not asked.kept:
            self.seconds += asked.seconds
        if asked.value is None:
            assert asked.error is not None
            raise asked.error
        return Answer(asked.value, Usage() if asked.kept else asked.usage, "", asked.kept)


def question(
    name: str,
    parts: Mapping[str, Sequence[str]],
    *,
    model: str,
    subject: WindowRef,
    max_tokens: int,
    **values: object,
) -> Prompt:
    """Fill in a prompt file, at temperature 0; `parts` go inside its fence."""
    prompt = load_prompt(name, "backscroll.benchmarks")
    fence, user = fenced(parts)
    return Prompt(
        stage=name,
        version=prompt.version,
        model=model,
        system=prompt.fill(fence=fence, **values),
        user=user,
        subject=subject,
        max_tokens=max_tokens,
    )


async def concurrently(work: Iterable[Awaitable[Y]], step: Callable[[], None]) -> list[Y]:
    """Await all and return the results in order; calls `step` after each. An error cancels the rest."""
    tasks = [asyncio.ensure_future(item) for item in work]
    try:
        for done in asyncio.as_completed(tasks):
            await done
            step()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]
