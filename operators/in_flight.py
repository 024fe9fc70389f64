"""Items on their way between the steps; what has not been handed on is part of the state."""

from __future__ import annotations

from dataclasses import dataclass

from backscroll.operators.gaps.stage import Detection
from backscroll.operators.memory.request import MemoryRef
from backscroll.operators.messages import Message, Received
from backscroll.operators.stream.windows import Window

__all__ = ["Arrival", "Gapped", "Recalled"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A valid message and how it was received, in case its channel refuses it.

    The received `value` is empty: the message holds what it said.
    """

    message: Message
    received: Received


@dataclass(frozen=True, slots=True)
class Gapped:
    """A window with its gaps. Its turns are inside only while it is provisional.

    `revision` is the channel's when its turns were read. `known` says that an earlier run made the
    summary, `gone` that all messages of the window were deleted; `failure` is why it can get none.
    """

    window: Window
    revision: int
    detection: Detection
    gaps_ms: float
    known: bool = False
    failure: str | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Recalled:
    """A gapped window with references to its memory; `degraded` says why something is missing from it."""

    gapped: Gapped
    memory: tuple[MemoryRef, ...]
    memory_ms: float
    degraded: str | None = None
