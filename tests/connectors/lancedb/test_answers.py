from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from backscroll.connectors.lancedb.answers import LanceAnswers, PaidTokens, paid_tokens
from backscroll.connectors.lancedb.schema import StoreError
from backscroll.connectors.lancedb.store import Fingerprint, LanceStore
from backscroll.operators.llm.budget import CachedAnswer
from backscroll.operators.llm.protocol import Usage
from backscroll.operators.messages import ChannelKey

KEY, OTHER = ChannelKey("acme's", "ops"), ChannelKey("acme's", "lunch")
DAY = date(2026, 3, 2)


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[LanceAnswers]:
    store = LanceStore(tmp_path, Fingerprint("cl100k_base", 1024, 128, 32, "words", None), None)
    yield store.answers
    store.close()


def paid(
    digest: str, *, key: ChannelKey = KEY, first: int = 0, raw: str = "{}", day: date = DAY
) -> CachedAnswer:
    return CachedAnswer(
        key, first, first + 9, (first - 7, first - 3), "gaps", digest, "tiny", day, Usage(70, 30), raw
    )


def test_an_answer_is_found_by_channel_and_digest(answers: LanceAnswers) -> None:
    answers.put_answer(paid("a", raw='{"text": "ünï ’quoted’"}'))
    answers.put_answer(paid("b", raw=""))  # unusable, and paid all the same
    assert answers.answer(KEY, "a") == '{"text": "ünï ’quoted’"}'
    assert answers.answer(KEY, "b") is None
    assert answers.answer(KEY, "c") is None
    assert answers.answer(OTHER, "a") is None


def test_the_costs_of_a_day_are_summed_by_channel(answers: LanceAnswers, tmp_path: Path) -> None:
    answers.put_answer(paid("a"))
    answers.put_answer(paid("b", raw=""))
    answers.put_answer(paid("c", key=OTHER))
    answers.put_answer(paid("d", day=date(2026, 3, 1)))
    assert answers.spent(DAY) == {KEY: 200, OTHER: 100}
    assert answers.spent(date(2026, 3, 3)) == {}
    assert paid_tokens(tmp_path) == [
        PaidTokens(date(2026, 3, 1), KEY, "tiny", "gaps", 1, Usage(70, 30)),
        PaidTokens(DAY, OTHER, "tiny", "gaps", 1, Usage(70, 30)),
        PaidTokens(DAY, KEY, "tiny", "gaps", 2, Usage(140, 60)),
    ]


@pytest.mark.parametrize(
    ("seq", "left"), [(25, {"b"}), (13, {"b"}), (17, {"b"}), (15, {"a", "b"}), (42, {"a"})]
)
def test_every_answer_based_on_a_message_can_be_erased(
    answers: LanceAnswers, seq: int, left: set[str]
) -> None:
    """`a` is about turns 20 to 29 and quoted 13 and 17, `b` about 40 to 49 with 33 and 37."""
    answers.put_answer(paid("a", first=20))
    answers.put_answer(paid("b", first=40))
    answers.put_answer(paid("a", first=20, key=OTHER))
    answers.erase(KEY, seq)
    assert {digest for digest in "ab" if answers.answer(KEY, digest)} == left
    assert answers.answer(OTHER, "a") == "{}"


def test_costs_of_a_path_that_is_not_a_store_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        paid_tokens(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="is not a Backscroll store"):
        paid_tokens(tmp_path / "empty")
