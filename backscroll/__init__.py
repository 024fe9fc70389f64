"""Backscroll: summaries of chat streams that can be read without scrolling back.

The public names of the library. `docs/library.md` says what each is for. They are imported when they are
first used, so that `backscroll --help` does not wait for modules it does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backscroll.connectors.embedding.onnx import OnnxEmbedder
    from backscroll.connectors.embedding.openai import OpenAIEmbedder
    from backscroll.connectors.files.source import FilesSource
    from backscroll.connectors.kafka.connection import KafkaConnection
    from backscroll.connectors.kafka.sink import KafkaDeadLetters, KafkaSink
    from backscroll.connectors.kafka.source import KafkaSource
    from backscroll.connectors.lancedb.store import LanceStore
    from backscroll.flows.assembly.engine import open_engine
    from backscroll.flows.settings.settings import Settings, load_settings
    from backscroll.flows.summarize import summarize_flow
    from backscroll.operators.engine import Engine, EngineConfig
    from backscroll.operators.errors import BackscrollError
    from backscroll.operators.gaps.gap import Gap
    from backscroll.operators.history.histories import Histories
    from backscroll.operators.history.in_memory import InMemoryStore
    from backscroll.operators.history.offline import OfflineChannel
    from backscroll.operators.memory.request import Memory, MemoryRequest, MemoryStrategy, MemoryTurn, Needs
    from backscroll.operators.memory.search import search
    from backscroll.operators.messages import (
        Author,
        ChannelKey,
        DeadLetter,
        Message,
        Received,
        Turn,
        parse_message,
    )
    from backscroll.operators.stream.windows import Window, WindowCutter
    from backscroll.operators.summary.record import Emission, Summary

__all__ = [
    "Author",
    "BackscrollError",
    "ChannelKey",
    "DeadLetter",
    "Emission",
    "Engine",
    "EngineConfig",
    "FilesSource",
    "Gap",
    "Histories",
    "InMemoryStore",
    "KafkaConnection",
    "KafkaDeadLetters",
    "KafkaSink",
    "KafkaSource",
    "LanceStore",
    "Memory",
    "MemoryRequest",
    "MemoryStrategy",
    "MemoryTurn",
    "Message",
    "Needs",
    "OfflineChannel",
    "OnnxEmbedder",
    "OpenAIEmbedder",
    "Received",
    "Settings",
    "Summary",
    "Turn",
    "Window",
    "WindowCutter",
    "load_settings",
    "open_engine",
    "parse_message",
    "search",
    "summarize_flow",
]

_MODULES = {
    "connectors.embedding.onnx": ("OnnxEmbedder",),
    "connectors.embedding.openai": ("OpenAIEmbedder",),
    "connectors.files.source": ("FilesSource",),
    "connectors.kafka.connection": ("KafkaConnection",),
    "connectors.kafka.sink": ("KafkaDeadLetters", "KafkaSink"),
    "connectors.kafka.source": ("KafkaSource",),
    "connectors.lancedb.store": ("LanceStore",),
    "flows.assembly.engine": ("open_engine",),
    "flows.settings.settings": ("Settings", "load_settings"),
    "flows.summarize": ("summarize_flow",),
    "operators.engine": ("Engine", "EngineConfig"),
    "operators.errors": ("BackscrollError",),
    "operators.gaps.gap": ("Gap",),
    "operators.history.histories": ("Histories",),
    "operators.history.in_memory": ("InMemoryStore",),
    "operators.history.offline": ("OfflineChannel",),
    "operators.memory.request": ("Memory", "MemoryRequest", "MemoryStrategy", "MemoryTurn", "Needs"),
    "operators.memory.search": ("search",),
    "operators.messages": (
        "Author",
        "ChannelKey",
        "DeadLetter",
        "Message",
        "Received",
        "Turn",
        "parse_message",
    ),
    "operators.stream.windows": ("Window", "WindowCutter"),
    "operators.summary.record": ("Emission", "Summary"),
}
_HOMES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return [*__all__]
