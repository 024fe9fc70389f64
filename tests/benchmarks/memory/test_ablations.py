from __future__ import annotations

import pytest

from backscroll.benchmarks.memory.compared import COMPARED
from backscroll.operators.memory import excerpt as module
from backscroll.operators.memory.request import MemoryParameters, MemoryRequest
from backscroll.operators.memory.verbatim import build_verbatim
from support.building import HashingEmbedder, history_of, windows_of


def test_the_memory_of_all_also_takes_turns_that_an_excerpt_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_RECENT", 1)
    monkeypatch.setattr(module, "_FOUND", 0)
    embedder = HashingEmbedder()
    *before, window = windows_of([["the bilge pump leaks"], ["lunch?"], ["no"], ["did the bilge pump come?"]])
    history = history_of(before, embedder=embedder).as_of(3)
    request = MemoryRequest(window.turns, [], history, MemoryParameters(embedder))
    found = {
        name: {entry.turn.seq for entry in build_verbatim(COMPARED.get(name), request).turns}
        for name in ("backscroll", "backscroll-of-all")
    }
    assert found == {"backscroll": {2}, "backscroll-of-all": {0, 1, 2}}
