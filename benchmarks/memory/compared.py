"""The memories that `bench memory` compares: the engine's, the paper's references and ablations."""

from __future__ import annotations

from backscroll.operators.memory.registry import MEMORIES

__all__ = ["COMPARED"]

COMPARED = MEMORIES.extended(
    {
        "full": "backscroll.benchmarks.memory.ablations:FULL",
        "ideal": "backscroll.benchmarks.memory.ablations:IDEAL",
        "backscroll-of-all": "backscroll.benchmarks.memory.ablations:BACKSCROLL_OF_ALL",
        "remember-without-gaps": "backscroll.benchmarks.memory.ablations:WITHOUT_GAPS",
        "remember-without-refinement": "backscroll.benchmarks.memory.ablations:WITHOUT_REFINEMENT",
        "incremental": "backscroll.benchmarks.memory.model_written:Incremental",
        "hierarchical": "backscroll.benchmarks.memory.model_written:Hierarchical",
    }
)
