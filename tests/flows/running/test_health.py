"""When an engine is ready and when its dataflow is stalled, with exact times."""

from __future__ import annotations

import pytest

from backscroll.flows.running.health import Health, Verdict
from backscroll.operators.runtime.progress import Progress, ProgressRecorder


class Answers:
    """The state of the brokers."""

    def __init__(self, answering: float | None, **ends: int) -> None:
        self.answering = answering
        self.ends = {f"{topic}:0": end for topic, end in ends.items()}


def reported(epochs: int, moved: float, **offsets: int) -> Progress:
    return Progress(2, epochs, moved, {f"{topic}:0": offset for topic, offset in offsets.items()})


def health(
    brokers: Answers, *progress: Progress, processes: int = 2, alone: bool = True, now: float = 100
) -> Health:
    return Health(
        lambda: dict(enumerate(progress)), brokers, processes=processes, alone=alone, clock=lambda: now
    )


@pytest.mark.parametrize(
    ("brokers", "progress", "says"),
    [
        (
            Answers(0, a=5, b=9),
            (reported(9, 99, a=5), reported(9, 98, b=9)),
            "ok: last epoch closed 2.0 s ago",
        ),
        (
            Answers(0, a=5, b=9),
            (reported(9, 99, a=5), reported(9, 39, b=7)),
            "no: stalled: process 1 has closed no epoch for 61 s and 2 messages wait",
        ),
        (
            Answers(0, a=5, b=9),
            (reported(9, 99, a=5), reported(9, 41, b=7)),
            "ok: last epoch closed 59.0 s ago",
        ),
        (
            Answers(0, a=5, b=9),
            (reported(9, 30, a=5), reported(9, 30, b=9)),
            "ok: last epoch closed 70.0 s ago",
        ),
        (Answers(None, a=9), (reported(9, 30, a=5),), "ok: the brokers do not answer"),
        (Answers(41, a=9), (reported(9, 30, a=5),), "ok: last epoch closed 70.0 s ago"),
        (Answers(0), (Progress(2), Progress(2)), "ok: starting"),
    ],
    ids=["proceeds", "stands", "stands shortly", "nothing waits", "away", "back for 59 s", "starts"],
)
def test_a_dataflow_is_stalled_when_no_epoch_closes_and_messages_wait(
    brokers: Answers, progress: tuple[Progress, ...], says: str
) -> None:
    assert told(health(brokers, *progress).live()) == says


@pytest.mark.parametrize(
    ("brokers", "progress", "alone", "says"),
    [
        (Answers(0), (reported(1, 99, a=5), reported(1, 98, b=9)), True, "ok: 2 of 2 partitions are read"),
        (Answers(0), (reported(1, 99, a=5),), True, "no: starting"),
        (Answers(0), (reported(1, 99, a=5), Progress()), True, "no: 1 of 2 partitions are assigned"),
        (Answers(0), (reported(1, 99, a=5), Progress(2)), False, "ok: 1 of 2 partitions are read"),
        (Answers(0), (Progress(2), Progress(2)), False, "no: 0 of 2 partitions are assigned"),
        (
            Answers(0),
            (reported(1, 99, a=5), reported(0, 98, b=9)),
            True,
            "no: recovering: no epoch has closed yet",
        ),
        (Answers(None), (reported(1, 99, a=5), reported(1, 98, b=9)), True, "no: the brokers do not answer"),
    ],
    ids=["ready", "one is not there", "unassigned", "with other pods", "no part in it", "recovers", "away"],
)
def test_an_engine_is_ready_when_it_is_recovered_assigned_and_answered(
    brokers: Answers, progress: tuple[Progress, ...], alone: bool, says: str
) -> None:
    assert told(health(brokers, *progress, alone=alone).ready()) == says


def told(verdict: Verdict) -> str:
    return f"{'ok' if verdict.good else 'no'}: {verdict.why}"


def test_the_finished_offset_is_the_one_read_an_epoch_earlier() -> None:
    """An epoch starts when every process has finished the one before the last."""
    recorder = ProgressRecorder()
    recorder.listed(2)
    recorder.assigned("a:0", 5)
    assigned = recorder.latest
    assert (assigned.listed, assigned.epochs, assigned.offsets) == (2, 0, {"a:0": 5})
    recorder.epoch_closed("a:0", 9)
    assert recorder.latest.offsets == {"a:0": 5}
    recorder.epoch_closed("a:0", 9)
    assert (recorder.latest.epochs, recorder.latest.offsets) == (2, {"a:0": 9})
    assert recorder.latest.moved > assigned.moved
