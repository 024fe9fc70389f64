"""The types that the recovery store may hold, by tag.

Tags are part of the format: keep a tag when its class is renamed or moved, and never reuse it for
another type. See `operators.state` for the changes that need no new version of the format.
"""

from __future__ import annotations

from operators.admission import AdmissionState
from operators.changes import Change, Changes
from operators.gaps import Gap
from operators.in_flight import Arrival, Gapped, Recalled
from operators.llm import Usage
from operators.memory import MemoryRef
from operators.messages import Author, ChannelKey, Message, Received, Turn
from operators.stages import Detection
from operators.state import Codec
from operators.windows import Cutting, Window, WindowCutter, WindowRef

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
