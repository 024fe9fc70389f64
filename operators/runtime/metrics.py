"""Prometheus metrics of the engine, in the default registry of its process. No label holds text.

Where several processes are one engine, their values are added up; of the last epoch the oldest counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from prometheus_client import Counter, Gauge, Histogram
from pydantic import BaseModel

__all__ = [
    "DEAD_LETTERS",
    "DEGRADED",
    "DROPPED_GAPS",
    "EMBEDDING_SECONDS",
    "EPOCH_PROGRESS",
    "EXECUTOR_SECONDS",
    "LOST",
    "MESSAGES",
    "PENDING_WINDOWS",
    "SUMMARIES",
    "stage",
]

T = TypeVar("T", bound=BaseModel)


MESSAGES = Counter("backscroll_messages", "Messages received.")


DEAD_LETTERS = Counter("backscroll_dead_letters", "Input and windows that were refused.")


LOST = Counter("backscroll_lost_messages", "Messages that the broker no longer had.", ["topic", "partition"])


SUMMARIES = Counter("backscroll_summaries", "Summaries emitted.", ["kind", "origin"])


DEGRADED = Counter("backscroll_degraded_summaries", "Summaries that are less than was asked for.", ["reason"])


DROPPED_GAPS = Counter("backscroll_dropped_gaps", "Gaps of a model that a guard dropped.", ["reason"])


PENDING_WINDOWS = Gauge(
    "backscroll_pending_windows",
    "Windows between their close and their summary.",
    multiprocess_mode="livesum",
)


EPOCH_PROGRESS = Gauge(
    "backscroll_epoch_progress_timestamp_seconds",
    "When the last epoch closed; +Inf where no partition is read.",
    multiprocess_mode="livemin",
)


EPOCH_PROGRESS.set(math.inf)  # 0 would be an engine that stands since 1970


STAGE_SECONDS = Histogram(
    "backscroll_stage_seconds",
    "Time of one window in a stage, waiting included.",
    ["stage"],
    buckets=(0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300),
)


EXECUTOR_SECONDS = Counter(
    "backscroll_executor_seconds", "Time of the thread that works on the processor and the disk.", ["work"]
)


EMBEDDING_SECONDS = Counter("backscroll_embedding_seconds", "Time in the embedder, whichever work it is for.")


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Measure one window's way through a stage, as a metric and, with OpenTelemetry, as a span."""
    from backscroll.operators.runtime.tracing import span

    with STAGE_SECONDS.labels(name).time(), span(f"backscroll.{name}"):
        yield
