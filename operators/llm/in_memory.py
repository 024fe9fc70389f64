"""An answer store in memory, for runs without `--store`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date

from backscroll.operators.llm.budget import CachedAnswer
from backscroll.operators.messages import ChannelKey

__all__ = ["InMemoryAnswers"]


class InMemoryAnswers:
    """An `AnswerStore` whose answers are lost when the process ends."""

    def __init__(self) -> None:
        self._by_question: dict[tuple[ChannelKey, str], CachedAnswer] = {}
        self._spent: dict[date, Counter[ChannelKey]] = {}

    def answer(self, key: ChannelKey, digest: str) -> str | None:
        """The raw answer to a prompt, by its digest; None if there is no usable one."""
        found = self._by_question.get((key, digest))
        return None if found is None else found.raw

    def put_answer(self, paid: CachedAnswer) -> None:
        """Store the cost of an answer, and the answer itself if it is usable."""
        self._spent.setdefault(paid.day, Counter())[paid.key] += paid.usage.total
        if paid.raw:
            self._by_question.setdefault((paid.key, paid.digest), paid)

    def erase(self, key: ChannelKey, seq: int) -> None:
        """Delete every answer that depends on a turn; their cost still counts."""
        self._by_question = {
            question: paid
            for question, paid in self._by_question.items()
            if paid.key != key or not (paid.first_seq <= seq <= paid.last_seq or seq in paid.recalled)
        }

    def spent(self, day: date) -> Mapping[ChannelKey, int]:
        """The tokens used on a day (UTC), by channel."""
        return Counter(self._spent.get(day, ()))
