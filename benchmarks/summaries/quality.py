"""Summary quality: what a judge says about the summaries of the annotated windows, added up.

Completeness, conciseness and faithfulness are means over the windows for which they have a value, the
composite is the plain mean of the four (ReMEMBER, section 5.1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from backscroll.benchmarks.data.benchmark import Benchmark
from backscroll.benchmarks.data.gaps import WindowRow
from backscroll.benchmarks.judge.judge import Judge, turn_lines
from backscroll.benchmarks.judge.schemas import SUPPORTED
from backscroll.benchmarks.memory.recall import TYPES
from backscroll.benchmarks.summaries.metrics import METRICS, SummaryVerdicts, composite, mean_of_known
from backscroll.operators.language.sentences import sentences
from backscroll.operators.llm.prompts import chat_line
from backscroll.operators.summary.record import Summary

__all__ = ["Judged", "judge_summary", "quality"]


@dataclass(frozen=True, slots=True)
class Judged:
    """One summary: the verdicts, which gaps its memory resolves, and the errors of its facts by category.

    `remembered` is None where that could not be judged.
    """

    row: WindowRow
    verdicts: SummaryVerdicts
    remembered: tuple[bool, ...] | None
    errors: Counter[str] = field(default_factory=Counter)


async def judge_summary(
    benchmark: Benchmark, row: WindowRow, record: Summary, judge: Judge, *, judge_memory: bool
) -> Judged:
    """Ask all questions about one summary.

    Whether its memory resolves a gap is told by the ids of the turns in it, or by the judge.
    """
    window = benchmark.window(row)
    memory = [chat_line(entry.ts, entry.author, entry.text) for entry in record.memory]
    ids = {entry.id for entry in record.memory}
    gaps = [(gap, benchmark.evidence(row, gap, ids)) for gap in row.gaps]
    remembered: Sequence[bool] | None = [gap.resolved(ids) for gap in row.gaps]
    if judge_memory:
        remembered = await judge.memory(window, memory, gaps)
    said = [record.summary[slice(*span)] for span in sentences(record.summary)]
    utterances, resolved = None, None
    if row.salient is not None:
        salient = [turn for turn in window.turns if turn.id in row.salient]
        utterances = await judge.utterances(window, said, salient)
    if remembered is not None:
        known = [gap for gap, resolves in zip(gaps, remembered, strict=True) if resolves]
        resolved = await judge.gaps(window, said, known)
    sources = {"memory": memory} if memory else {}
    sources["window"] = turn_lines(window.turns)
    facts = await judge.facts(window.ref, said)
    categories, supported = None, None
    if facts is not None:
        categories = await judge.categories(window.ref, sources, list(chain.from_iterable(facts)))
    if facts is not None and categories is not None:
        verdicts = iter(categories)
        supported = [[next(verdicts) == SUPPORTED for _ in sentence] for sentence in facts]
    return Judged(
        row,
        SummaryVerdicts(len(said), utterances, resolved, supported),
        None if remembered is None else tuple(remembered),
        Counter(category for category in categories or () if category != SUPPORTED),
    )


def quality(judged: Sequence[Judged], windows: int) -> dict[str, Any]:
    """The figures of one system over `windows` annotated windows; None is never counted as 0.

    `missing` are windows without a summary; `judged` and `not_judged` count the windows of each metric.
    A window counts for neither where the metric has no value: its salient utterances are not annotated,
    its memory resolves no gap, or its summary states no fact.
    """
    metrics = [one.verdicts.metrics for one in judged]
    means = {name: mean_of_known(values[name] for values in metrics) for name in METRICS}
    unknown = {name: sum(_is_not_judged(name, one) for one in judged) for name in METRICS}
    pairs = [(gap, one, place) for one in judged for place, gap in enumerate(one.row.gaps)]
    remembered = [one.remembered[place] for _, one, place in pairs if one.remembered is not None]
    no_gap = bool(judged) and not any(remembered) and not unknown["gap_completeness"]
    overall = composite(
        window=means["window_completeness"],
        gap=0.0 if no_gap else means["gap_completeness"],
        concise=means["conciseness"],
        faithful=means["faithfulness"],
    )
    return {
        **{name: _rounded(value) for name, value in means.items()},
        "composite": _rounded(overall),
        "memory_recall": _rounded(sum(remembered) / len(remembered)) if remembered else None,
        "windows": len(judged),
        "missing": windows - len(judged),
        "judged": {name: sum(values[name] is not None for values in metrics) for name in METRICS},
        "not_judged": unknown,
        "gaps": {kind: _reach(judged, kind) for kind in TYPES},
        "errors": dict(sorted(sum((one.errors for one in judged), Counter[str]()).items())),
    }


def _is_not_judged(metric: str, one: Judged) -> bool:
    verdicts, marked = one.verdicts, one.row.salient is not None
    if metric == "window_completeness":
        return verdicts.utterances is None and marked
    if metric == "gap_completeness":
        return verdicts.gaps is None
    if metric == "conciseness":
        return marked and (verdicts.utterances is None or verdicts.gaps is None)
    return verdicts.facts is None


def _reach(judged: Sequence[Judged], kind: str) -> dict[str, int]:
    """How many gaps of a type there are, in memory, and of those in the summary (the paper's table 3)."""
    reach = {"annotated": 0, "in_memory": 0, "in_summary": 0}
    for one in judged:
        if one.remembered is None or one.verdicts.gaps is None:
            continue
        cited = iter(one.verdicts.gaps)
        for gap, resolved in zip(one.row.gaps, one.remembered, strict=True):
            stated = resolved and bool(next(cited))
            if gap.type == kind:
                reach["annotated"] += 1
                reach["in_memory"] += resolved
                reach["in_summary"] += stated
    return reach


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
