"""A panel of language models that answer the same questions and vote.

The answers of each annotator are kept in a file, so that interrupted work resumes without asking again. An
unusable answer is retried once; then the annotator abstains. If a model fails, all work stops, because its
missing votes would change the result.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from backscroll.connectors.llm.cassette import Recorder
from backscroll.operators.llm.protocol import (
    LLM,
    Answer,
    BadAnswer,
    LLMError,
    LLMRefused,
    LLMUnavailable,
    Prompt,
    Usage,
)
from backscroll.operators.llm.resilience import Limited, SecondTry

__all__ = ["Annotator", "Calls", "Panel", "WorkStopped", "together"]

T = TypeVar("T", bound=BaseModel)
X = TypeVar("X")


class WorkStopped(LLMError):
    """The model was not asked, because a model failed or the user stopped the work."""

    kind = "stopped"


async def together(calls: Iterable[Awaitable[X]]) -> list[X]:
    """Await all calls, so that none is paid for in vain; then return the results in order, or raise."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


@dataclass(slots=True)
class Calls:
    """Counts the calls and tokens of some work, and says whether to stop it.

    `counts` has the calls `asked` and the votes `abstained`. `failure` is a model's first failure.
    """

    stopping: Callable[[], bool] = lambda: False
    counts: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)
    failure: str | None = None

    @property
    def stopped(self) -> bool:
        """Whether to ask no more questions."""
        return self.failure is not None or self.stopping()


class _Accountable:
    """Counts a model's calls, and makes no more once the work has stopped."""

    def __init__(self, inner: LLM, name: str, calls: Calls) -> None:
        self._inner = inner
        self._name = name
        self._calls = calls

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        if self._calls.stopped:
            raise WorkStopped("not asked: the work was stopped")
        try:
            answer = await self._inner.ask(prompt, schema)
        except (LLMUnavailable, LLMRefused) as err:
            if self._calls.failure is None:
                self._calls.failure = f"annotator {self._name}: {err}"
            raise
        except BadAnswer as err:
            self._count(err.usage)
            raise
        self._count(answer.usage)
        return answer

    def _count(self, usage: Usage) -> None:
        self._calls.counts["asked"] += 1
        self._calls.usage += usage


@dataclass(frozen=True, slots=True)
class Annotator:
    """A model of the panel: its name, and how to close its connections, if any."""

    name: str
    llm: LLM
    close: Callable[[], Awaitable[None]] | None = None

    @classmethod
    def over(cls, llm: LLM, name: str, answers: Path, calls: Calls, *, limit: int) -> Annotator:
        """Wrap a model: at most `limit` calls at once, answers kept in a file, one retry.

        Raises:
            FormatError: the file cannot be used.
        """
        kept = Recorder(Limited(_Accountable(llm, name, calls), limit), answers, resume=True)
        return cls(name, SecondTry(kept), getattr(llm, "aclose", None))


@dataclass(frozen=True, slots=True)
class Panel:
    """One to three annotators who decide by majority.

    A majority is more than half of all annotators, including those that abstain: one of one, two of two
    and two of three.
    """

    annotators: Sequence[Annotator]
    calls: Calls

    @property
    def majority(self) -> int:
        """How many annotators must agree."""
        return len(self.annotators) // 2 + 1

    async def ask(self, prompt: Prompt, schema: type[T]) -> list[T | None]:
        """Each annotator's answer, in order; None if it abstains.

        Raises:
            WorkStopped: the work was stopped, or an annotator failed.
        """
        return await together(self._ask(annotator, prompt, schema) for annotator in self.annotators)

    async def close(self) -> None:
        """Close the connections of all annotators."""
        for annotator in self.annotators:
            if annotator.close is not None:
                await annotator.close()

    def named(self, votes: Iterable[object]) -> dict[str, object]:
        """Votes by annotator name."""
        return dict(zip((annotator.name for annotator in self.annotators), votes, strict=True))

    async def _ask(self, annotator: Annotator, prompt: Prompt, schema: type[T]) -> T | None:
        try:
            answer = await annotator.llm.ask(replace(prompt, model=annotator.name), schema)
        except BadAnswer:
            self.calls.counts["abstained"] += 1
            return None
        except LLMError as err:
            raise WorkStopped(str(err)) from err
        return answer.value
