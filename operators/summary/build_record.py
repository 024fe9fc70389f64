"""Builds a window's summary record from the results of the stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backscroll.operators.gaps.gap import Gap
from backscroll.operators.gaps.stage import Detection
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.stream.windows import Window
from backscroll.operators.summary.evidence import Evidence, Resolution
from backscroll.operators.summary.record import GapEntry, MemoryEntry, Summary, WindowEntry, summary_id
from backscroll.operators.summary.record_size import fitted
from backscroll.operators.summary.stage import Written

__all__ = ["summary_record"]


def summary_record(
    window: Window,
    detection: Detection,
    memory: Sequence[MemoryTurn],
    resolution: Resolution,
    written: Written,
    *,
    memory_degraded: str | None = None,
    strategy: str,
    embedding: str,
    timings_ms: dict[str, float],
) -> Summary:
    """The record of a window, built from the result of each stage, small enough for a broker.

    It lists only gaps that a reader may ask about. The others served as queries for the memory.
    """
    ref = window.ref
    usage = detection.usage + written.usage
    degraded = detection.degraded, memory_degraded, written.degraded
    reasons = dict.fromkeys(reason for reason in degraded if reason)
    listed = sorted(resolution.asked)
    places = {index: place for place, index in enumerate(listed)}
    record = Summary(
        summary_id=summary_id(ref, strategy),
        revision=ref.revision,
        final=ref.final,
        namespace=ref.key.namespace,
        channel=ref.key.channel,
        kind=written.kind,
        strategy=strategy,
        window=_window_entry(window),
        summary=written.text,
        gaps=[_gap_entry(detection.gaps[index], resolution.evidence.get(index, ())) for index in listed],
        memory=[_memory_entry(entry, places) for entry in memory],
        tokens={
            "memory": sum(entry.tokens for entry in memory),
            "prompt": usage.prompt,
            "completion": usage.completion,
        },
        timings_ms=timings_ms,
        models={
            "gaps": detection.model,
            "summary": written.model,
            "embedding": embedding,
        },
        degraded="; ".join(reasons) or None,
        unsupported=list(written.unsupported),
    )
    return fitted(record)


def _window_entry(window: Window) -> WindowEntry:
    return WindowEntry(
        index=window.ref.index,
        first_seq=window.ref.first_seq,
        last_seq=window.ref.last_seq,
        turns=[turn.id for turn in window.turns],
        start=window.start,
        end=window.end,
        tokens=window.tokens,
    )


def _gap_entry(gap: Gap, evidence: Sequence[Evidence]) -> GapEntry:
    return GapEntry(
        utterance=gap.utterance,
        quote=gap.quote,
        reason=gap.reason,
        query=gap.query,
        keywords=list(gap.keywords),
        evidence=[one.entry.turn.id for one in evidence],
    )


def _memory_entry(entry: MemoryTurn, places: Mapping[int, int]) -> MemoryEntry:
    """An entry of the memory; `places` are the listed gaps, so that it names no gap that is not listed."""
    turn = entry.turn
    return MemoryEntry(
        id=turn.id,
        seq=turn.seq,
        author=turn.author.name,
        ts=turn.ts,
        text=entry.text,
        span=entry.span,
        tokens=entry.tokens,
        gap=None if entry.gap is None else places.get(entry.gap),
        rank=entry.rank,
        score=entry.score,
        permalink=turn.permalink,
    )
