"""The types that the recovery store can hold, by tag.

Tags are part of the format. Keep a tag when its class is renamed or moved, and never reuse it for
another type. `runtime.state` lists the changes that need no new version of the format.
"""

from __future__ import annotations

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.gaps.stage import Detection
from backscroll.operators.in_flight import Arrival, Gapped, Recalled
from backscroll.operators.llm.protocol import Usage
from backscroll.operators.memory.request import MemoryRef
from backscroll.operators.messages import Author, ChannelKey, Message, Received, Turn
from backscroll.operators.runtime.state import Codec
from backscroll.operators.stream.admission import AdmissionState
from backscroll.operators.stream.changes import Change, Changes
from backscroll.operators.stream.windows import Cutting, Window, WindowCutter, WindowRef

__all__ = ["CODEC"]

CODEC = Codec(
    {
        "channel": ChannelKey,
        "author": Author,
        "message": Message,
        "received": Received,
        "arrival": Arrival,
        "admission": AdmissionState,
        "turn": Turn,
        "change": Change,
        "changes": Changes,
        "cutter": WindowCutter,
        "cutting": Cutting,
        "ref": WindowRef,
        "window": Window,
        "gap": Gap,
        "usage": Usage,
        "detection": Detection,
        "gapped": Gapped,
        "memory": MemoryRef,
        "recalled": Recalled,
    }
)
