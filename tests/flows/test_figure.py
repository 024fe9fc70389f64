"""The dataflow as Bytewax draws it, and the step ids used as keys in the recovery store."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource
from bytewax.visualize import RenderedOperator, to_mermaid, to_rendered

from backscroll.flows.ingest import ingest_flow
from backscroll.flows.summarize import summarize_flow
from backscroll.operators.engine import Engine
from backscroll.operators.history.in_memory import InMemoryStore


def drawn() -> Dataflow:
    return summarize_flow(
        Engine(InMemoryStore()), TestingSource([]), TestingSink([]), TestingSink([]), TestingSink([])
    )


def steps_within(steps: list[RenderedOperator]) -> Iterator[RenderedOperator]:
    for step in steps:
        yield step
        yield from steps_within(step.substeps)


def test_the_drawing_of_the_dataflow_is_the_figure() -> None:
    mermaid = to_mermaid(drawn())
    arrows = re.findall(r'^backscroll\.(\w+) -- ".*" --> backscroll\.(\w+)$', mermaid, re.MULTILINE)
    assert arrows == [
        ("messages", "turns"),
        ("turns", "windows"),
        ("windows", "history"),
        ("history", "gaps"),
        ("gaps", "memory"),
        ("memory", "summaries"),
        ("summaries", "sink"),
        ("summaries", "debug"),
        ("turns", "dead_letters"),
        ("summaries", "dead_letters"),
        ("dead_letters", "rejects"),
        ("summaries", "failure"),
        ("dead_letters", "failure"),
    ]


@pytest.mark.parametrize(
    ("flow", "stateful"),
    [
        (
            drawn(),
            [
                "backscroll.turns.admit",
                "backscroll.windows.cut",
                "backscroll.history.record",
                "backscroll.gaps.detect",
                "backscroll.memory.build",
                "backscroll.summaries.write",
            ],
        ),
        (
            ingest_flow(Engine(InMemoryStore()), TestingSource([]), TestingSink([]), TestingSink([])),
            [
                "backscroll_ingest.turns.admit",
                "backscroll_ingest.windows.cut",
                "backscroll_ingest.history.record",
            ],
        ),
    ],
    ids=["summarize", "ingest"],
)
def test_the_ids_of_steps_with_state_never_change(flow: Dataflow, stateful: list[str]) -> None:
    """The recovery store uses them as keys. A step that only holds the end back never stores anything."""
    rendered = list(steps_within(to_rendered(flow).substeps))
    ids = [step.step_id for step in rendered if step.op_type == "stateful_batch"]
    assert [id_ for id_ in ids if not id_.startswith(f"{flow.flow_id}.failure.hold.")] == stateful
    assert [step.step_id for step in rendered if step.op_type == "input"] == [
        f"{flow.flow_id}.messages",
        f"{flow.flow_id}.failure.failure",
    ]
