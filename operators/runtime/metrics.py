"""The engine's Prometheus metrics, in the default registry of the process. Labels never contain chat text.

If an engine has several processes, their values are added up; for the last epoch, the oldest is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import Counter, Gauge, Histogram

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

MESSAGES = Counter("backscroll_messages", "Messages received.")
DEAD_LETTERS = Counter(
    "backscroll_dead_letters", "Rejected messages, and windows that could not be summarised."
)
LOST = Counter(
    "backscroll_lost_messages",
    "Messages lost because the broker had already deleted them.",
    ["topic", "partition"],
)
SUMMARIES = Counter("backscroll_summaries", "Summaries emitted.", ["kind", "origin"])
DEGRADED = Counter("backscroll_degraded_summaries", "Summaries that used a fallback, by reason.", ["reason"])
DROPPED_GAPS = Counter(
    "backscroll_dropped_gaps", "Gaps from the model that failed a check, by reason.", ["reason"]
)
PENDING_WINDOWS = Gauge(
    "backscroll_pending_windows",
    "Closed windows that are waiting for their summary.",
    multiprocess_mode="livesum",
)
EPOCH_PROGRESS = Gauge(
    "backscroll_epoch_progress_timestamp_seconds",
    "When the last epoch closed; +Inf if no partition is being read.",
    multiprocess_mode="livemin",
)


EPOCH_PROGRESS.set(math.inf)  # 0 would look like an engine that has been stuck since 1970


STAGE_SECONDS = Histogram(
    "backscroll_stage_seconds",
    "Time a window spends in a stage, including waiting.",
    ["stage"],
    buckets=(0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300),
)
EXECUTOR_SECONDS = Counter(
    "backscroll_executor_seconds", "Busy time of the worker thread, by kind of work.", ["work"]
)
EMBEDDING_SECONDS = Counter(
    "backscroll_embedding_seconds", "Time spent in the embedder, for all kinds of work."
)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Measure a window's time in a stage, as a metric and, with OpenTelemetry, as a span."""
    from backscroll.operators.runtime.tracing import span

    with STAGE_SECONDS.labels(name).time(), span(f"backscroll.{name}"):
        yield
