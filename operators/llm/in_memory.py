"""Paid answers in memory: what a run without `--store` keeps them in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date

from backscroll.operators.llm.budget import CachedAnswer
from backscroll.operators.messages import ChannelKey

__all__ = ["InMemoryAnswers"]


class InMemoryAnswers:
    """An `AnswerStore` that lasts as long as the object."""

    def __init__(self) -> None:
        self._by_question: dict[tuple[ChannelKey, str], CachedAnswer] = {}
        self._spent: dict[date, Counter[ChannelKey]] = {}

    def answer(self, key: ChannelKey, digest: str) -> str | None:
        """The raw usable answer to a question, by its digest."""
        found = self._by_question.get((key, digest))
        return None if found is None else found.raw

    def put_answer(self, paid: CachedAnswer) -> None:
        """Keep what an answer cost, and the answer if it is usable."""
        self._spent.setdefault(paid.day, Counter())[paid.key] += paid.usage.total
        if paid.raw:
            self._by_question.setdefault((paid.key, paid.digest), paid)

    def erase(self, key: ChannelKey, seq: int) -> None:
        """Forget every answer that rests on a turn; what they cost stays on the account."""
        self._by_question = {
            question: paid
            for question, paid in self._by_question.items()
            if paid.key != key or not (paid.first_seq <= seq <= paid.last_seq or seq in paid.recalled)
        }

    def spent(self, day: date) -> Mapping[ChannelKey, int]:
        """Tokens paid for on a day (UTC), by channel."""
        return Counter(self._spent.get(day, ()))
