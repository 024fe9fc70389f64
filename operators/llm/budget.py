"""Daily token limits, and a cache of answers so that no question is paid for twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Protocol, TypeVar

from pydantic import BaseModel

from backscroll.operators.language.tokens import count
from backscroll.operators.llm.protocol import LLM, Answer, BadAnswer, BudgetSpent, Prompt, Usage, parse_answer
from backscroll.operators.messages import ChannelKey
from backscroll.operators.runtime.calls import on_executor

__all__ = ["AnswerStore", "CachedAnswer", "CachedAnswers", "CurrentAnswers", "TokenBudget"]

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """A model's raw answer about turns `first_seq` to `last_seq`; `raw` is empty if the answer was unusable.

    `recalled` are the earlier turns quoted in the prompt, as of the channel's `revision`.
    """

    key: ChannelKey
    first_seq: int
    last_seq: int
    recalled: tuple[int, ...]
    stage: str
    digest: str
    model: str
    day: date
    usage: Usage
    raw: str
    revision: int = 0


class AnswerStore(Protocol):
    """Stores paid answers; part of the history store."""

    def answer(self, key: ChannelKey, digest: str) -> str | None:
        """The raw answer to a prompt, by its digest; None if there is no usable one."""
        ...

    def put_answer(self, paid: CachedAnswer) -> None:
        """Store an answer and its cost."""
        ...

    def erase(self, key: ChannelKey, seq: int) -> None:
        """Delete every answer that depends on a turn."""
        ...

    def spent(self, day: date) -> Mapping[ChannelKey, int]:
        """The tokens used on a day (UTC), by channel."""
        ...


class CurrentAnswers:
    """Wraps a store so that answers about messages that have changed meanwhile are not kept.

    Args:
        inner: the store.
        is_current: whether turns of a channel are unchanged since a revision.
    """

    def __init__(
        self, inner: AnswerStore, is_current: Callable[[ChannelKey, int, Iterable[int]], bool]
    ) -> None:
        self._inner = inner
        self._is_current = is_current
        self.answer = inner.answer
        self.erase = inner.erase
        self.spent = inner.spent

    def put_answer(self, paid: CachedAnswer) -> None:
        """Store the cost of an answer, and the answer itself if its messages have not changed."""
        seqs = (*range(paid.first_seq, paid.last_seq + 1), *paid.recalled)
        kept = self._is_current(paid.key, paid.revision, seqs)
        self._inner.put_answer(paid if kept else replace(paid, raw=""))


class TokenBudget:
    """Limits the tokens used per day (UTC), in total and per channel.

    Args:
        spent: returns the tokens used on a day before this process started, by channel.
        per_day: the most tokens per day; None for no limit.
        per_channel_day: the most tokens per channel and day; None for no limit.
        processes: how many processes share what is left of `per_day`.
        today: returns the current day.
    """

    def __init__(
        self,
        spent: Callable[[date], Mapping[ChannelKey, int]],
        *,
        per_day: int | None = None,
        per_channel_day: int | None = None,
        processes: int = 1,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:
        self.today = today
        self._per_day = per_day
        self._per_channel_day = per_channel_day
        self._processes = processes
        self._day = today()
        self._spent = Counter(spent(self._day))
        self._before = self._spent.total()
        self._reserved: Counter[ChannelKey] = Counter()

    def reserve(self, key: ChannelKey, tokens: int) -> None:
        """Reserve tokens for a call.

        Raises:
            BudgetSpent: the call would exceed a limit.
        """
        if self.today() != self._day:
            self._day, self._spent, self._before = self.today(), Counter(), 0
        per_day, per_channel_day = self._per_day, self._per_channel_day
        channel = self._spent[key] + self._reserved[key] + tokens
        if per_channel_day is not None and channel > per_channel_day:
            raise BudgetSpent(f"{key}: the day's {per_channel_day:,} tokens are used up")
        if per_day is not None and self._spent.total() + self._reserved.total() + tokens > self._part(
            per_day
        ):
            raise BudgetSpent(f"the day's {per_day:,} tokens are used up")
        self._reserved[key] += tokens

    def _part(self, per_day: int) -> int:
        """This process's limit: what was used before it started, plus its share of the rest."""
        return min(per_day, self._before + max(per_day - self._before, 0) // self._processes)

    def settle(self, key: ChannelKey, reserved: int, usage: Usage) -> None:
        """Replace a reservation with the actual cost of the call."""
        self._reserved[key] -= reserved
        self._spent[key] += usage.total


class CachedAnswers:
    """Wraps a model: answers are taken from the store if possible, and new ones are stored."""

    def __init__(self, inner: LLM, store: AnswerStore, spending: TokenBudget) -> None:
        self._inner = inner
        self._store = store
        self._spending = spending

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """Return the stored answer, or ask for a new one within the day's limits."""
        key, digest = prompt.subject.key, prompt.digest(schema)
        kept = await on_executor(lambda: self._store.answer(key, digest))
        if kept is not None:
            return Answer(parse_answer(kept, schema, Usage(), finished=True), Usage(), kept, kept=True)
        # Our own token count is an estimate until the server reports the actual cost.
        asked = count(prompt.system) + count(prompt.user)
        reserved = asked + prompt.max_tokens
        self._spending.reserve(key, reserved)
        usage, raw = Usage(), ""
        try:
            answer = await self._inner.ask(prompt, schema)
            usage, raw = answer.usage, answer.raw
            if not usage.total:  # the server reports no usage
                usage = Usage(asked, count(raw))
        except BadAnswer as err:
            usage = err.usage if err.usage.total else Usage(asked, count(err.raw))
            raise
        finally:
            self._spending.settle(key, reserved, usage)
            if usage.total:
                await on_executor(lambda: self._store.put_answer(self._paid(prompt, digest, usage, raw)))
        return answer

    def _paid(self, prompt: Prompt, digest: str, usage: Usage, raw: str) -> CachedAnswer:
        ref = prompt.subject
        return CachedAnswer(
            ref.key,
            ref.first_seq,
            ref.last_seq,
            prompt.recalled,
            prompt.stage,
            digest,
            prompt.model,
            self._spending.today(),
            usage,
            raw,
            ref.revision,
        )
