"""What answers cost: a daily allowance, and answers kept so that none is paid for twice."""

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
    """A model's raw answer about turns `first_seq` to `last_seq`; `raw` is empty if it was unusable.

    `recalled` are the earlier turns that the question quoted, as they were at the channel's `revision`.
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
    """Keeps paid answers; part of the history store."""

    def answer(self, key: ChannelKey, digest: str) -> str | None:
        """The raw usable answer to a question, by its digest."""
        ...

    def put_answer(self, paid: CachedAnswer) -> None:
        """Keep an answer and what it cost."""
        ...

    def erase(self, key: ChannelKey, seq: int) -> None:
        """Forget every answer that rests on a turn."""
        ...

    def spent(self, day: date) -> Mapping[ChannelKey, int]:
        """Tokens paid for on a day (UTC), by channel."""
        ...


class CurrentAnswers:
    """A layer over a store that keeps no answer about messages that changed while it was written.

    Args:
        inner: the store.
        is_current: whether turns of a channel are what they were at a revision.
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
        """Keep what an answer cost, and the answer if it is still about what is there."""
        seqs = (*range(paid.first_seq, paid.last_seq + 1), *paid.recalled)
        kept = self._is_current(paid.key, paid.revision, seqs)
        self._inner.put_answer(paid if kept else replace(paid, raw=""))


class TokenBudget:
    """The tokens of the current day (UTC), in all and by channel, against their limits.

    Args:
        spent: what was paid for on a day before this process started.
        per_day: most tokens a day; no limit when None. `processes` share what is left of it.
        per_channel_day: most tokens of one channel a day; no limit when None.
        today: the current day.
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
        """Set tokens aside for a call that is about to be made.

        Raises:
            BudgetSpent: they would exceed a limit.
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
        """How far this process may go: what was spent before, and its part of what was left."""
        return min(per_day, self._before + max(per_day - self._before, 0) // self._processes)

    def settle(self, key: ChannelKey, reserved: int, usage: Usage) -> None:
        """Replace what was set aside by what the call cost."""
        self._reserved[key] -= reserved
        self._spent[key] += usage.total


class CachedAnswers:
    """A layer over a model: answers come from the store if it has them, and are kept if not."""

    def __init__(self, inner: LLM, store: AnswerStore, spending: TokenBudget) -> None:
        self._inner = inner
        self._store = store
        self._spending = spending

    async def ask(self, prompt: Prompt, schema: type[T]) -> Answer[T]:
        """The kept answer, or a new one within the day's allowance."""
        key, digest = prompt.subject.key, prompt.digest(schema)
        kept = await on_executor(lambda: self._store.answer(key, digest))
        if kept is not None:
            return Answer(parse_answer(kept, schema, Usage(), finished=True), Usage(), kept, kept=True)
        # Tokens of our own count stand for the model's until it says what the call cost.
        asked = count(prompt.system) + count(prompt.user)
        reserved = asked + prompt.max_tokens
        self._spending.reserve(key, reserved)
        usage, raw = Usage(), ""
        try:
            answer = await self._inner.ask(prompt, schema)
            usage, raw = answer.usage, answer.raw
            if not usage.total:  # a server that does not count
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
