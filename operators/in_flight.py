"""The items that pass between the steps; those not yet passed on are part of the state."""

from __future__ import annotations

from dataclasses import dataclass

from backscroll.operators.gaps.stage import Detection
from backscroll.operators.memory.request import MemoryRef
from backscroll.operators.messages import Message, Received
from backscroll.operators.stream.windows import Window

__all__ = ["Arrival", "Gapped", "Recalled"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A valid message and how it was received, for a dead letter if its channel rejects it.

    `received.value` is empty, because `message` has its content.
    """

    message: Message
    received: Received


@dataclass(frozen=True, slots=True)
class Gapped:
    """A window with its gaps. It contains its turns only while it is provisional.

    `revision` is the channel's revision when the turns were read. `known` means that an earlier run
    wrote the summary, and `gone` that all messages of the window were deleted. `failure` is the reason
    if the window cannot get a summary.
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
    """A gapped window with references to its memory; `degraded` is the reason if something is missing."""

    gapped: Gapped
    memory: tuple[MemoryRef, ...]
    memory_ms: float
    degraded: str | None = None
