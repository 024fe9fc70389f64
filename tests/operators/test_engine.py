"""An engine with only a store, its configuration, and its feed for sources that do not use it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.testing import TestingSink, TestingSource, run_main

from backscroll.flows.summarize import summarize_flow
from backscroll.operators.engine import Engine, EngineConfig
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.memory.registry import MemoryStrategyError
from backscroll.operators.messages import DeadLetter, Received
from backscroll.operators.runtime.feed import Feed, fed
from backscroll.operators.summary.record import Emission, Summary


def post(number: int, text: str) -> Received:
    fields = {"channel": "general", "id": f"m{number}", "ts": f"2026-03-02T09:{number:02}:00Z"}
    raw = orjson.dumps({**fields, "author": "Ana", "text": text})
    return Received(raw, (("line", number),), raw)


def test_an_engine_with_only_a_store_needs_no_model_and_no_vectors() -> None:
    out, letters = list[tuple[str, Emission]](), list[DeadLetter]()
    source = TestingSource([post(1, "The pump on quay four leaks."), post(2, "Lunch at noon.")])
    run_main(summarize_flow(Engine(InMemoryStore()), source, TestingSink(out), TestingSink(letters)))
    ((key, emission),) = out
    assert (key, letters) == ("default/general", [])
    summary = Summary.from_json(emission.body or b"")
    assert summary.summary_id == "default/general:0-1:backscroll"
    assert summary.models == {"gaps": "rules", "summary": "extractive", "embedding": "none"}
    assert summary.summary == "09:01 Ana: The pump on quay four leaks.\n09:02 Ana: Lunch at noon."


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("nonsense", "unknown memory strategy 'nonsense'"),
        ("remember", "memory strategy 'remember' needs vectors: give the engine Histories with an embedder"),
    ],
)
def test_a_strategy_that_the_engine_cannot_use_is_refused_at_once(strategy: str, message: str) -> None:
    with pytest.raises(MemoryStrategyError) as refused:
        Engine(InMemoryStore(), EngineConfig(strategy=strategy))
    assert str(refused.value).startswith(message)


def test_a_configuration_is_immutable() -> None:
    config = EngineConfig()
    with pytest.raises(FrozenInstanceError):
        config.budget = 1  # type: ignore[misc]


class Words(DynamicSource[str]):
    """A source without partitions."""

    def build(self, *_: Any) -> _Words:
        return _Words()


class _Words(StatelessSourcePartition[str]):
    def next_batch(self) -> list[str]:
        return ["pump"]


def parts(feed: Feed) -> list[Any]:
    """A partition of each kind of source that the engine can pause and stop."""
    keeping: Any = fed(TestingSource(["pump"]), feed)
    stateless: Any = fed(Words(), feed)
    (name,) = keeping.list_parts()
    return [keeping.build_part("messages", name, None), stateless.build("messages", 0, 1)]


@pytest.mark.parametrize("kind", [0, 1], ids=["partitioned", "dynamic"])
def test_any_source_waits_while_the_engine_is_busy_and_ends_when_it_stops(kind: int) -> None:
    engine = Engine(InMemoryStore(), EngineConfig(pending_limit=1))
    part = parts(engine.feed)[kind]
    engine.runtime.pending.add(1)
    before = datetime.now(UTC)
    assert part.next_batch() == []
    assert part.next_awake() > before
    engine.runtime.pending.add(-1)
    assert part.next_batch() == ["pump"]
    assert part.next_awake() is None
    engine.runtime.stopping.set()
    with pytest.raises(StopIteration):
        part.next_batch()


def test_a_source_that_uses_the_feed_itself_is_not_wrapped() -> None:
    engine = Engine(InMemoryStore())
    source = TestingSource(["pump"])
    source.feed = engine.feed  # type: ignore[attr-defined]
    assert fed(source, engine.feed) is source
