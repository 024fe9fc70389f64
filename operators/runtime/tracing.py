"""OpenTelemetry spans if it is installed (the extra `backscroll[tracing]`); otherwise no-ops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

__all__ = ["span"]

# A stack trace could quote the chat.
_QUIET = {"record_exception": False, "set_status_on_exception": False}


@contextmanager
def span(name: str) -> Iterator[None]:
    """A span around a stage; its exporter is whatever the process has configured."""
    tracer = _tracer()
    with nullcontext() if tracer is None else tracer.start_as_current_span(name, **_QUIET):
        yield


@cache
def _tracer() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.get_tracer("backscroll")
