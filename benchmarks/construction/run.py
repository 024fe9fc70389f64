"""Build a benchmark: choose windows, estimate the calls, and annotate all windows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from backscroll.benchmarks.construction.agreement import AnnotatorAgreement
from backscroll.benchmarks.construction.folder import ToAnnotate
from backscroll.benchmarks.construction.panel import Panel, WorkStopped
from backscroll.benchmarks.construction.prompts import passages_prompt, utterances_prompt
from backscroll.benchmarks.construction.stages import (
    STAGES,
    AnnotatedWindow,
    Stage,
    annotate,
    passage_batches,
)
from backscroll.benchmarks.data.dialogues import Dialogue
from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.operators.language.tokens import count
from backscroll.operators.llm.protocol import Prompt

__all__ = ["BuildReport", "Estimate", "annotate_all", "choose_windows", "estimate"]

# Assumptions for stages that depend on earlier answers: gaps per window, and tokens per gap and question.
ASSUMED_GAPS = 3
_EVIDENCE_TOKENS = 4000
_VALIDATION_TOKENS = 2000


def choose_windows(
    dialogues: Mapping[str, Dialogue], *, min_history: int, most: int | None
) -> list[ToAnnotate]:
    """The full windows with enough history: at most `most` per dialogue, evenly spread.

    Raises:
        BenchmarkError: there is no such window.
    """
    chosen, longest = list[ToAnnotate](), 0
    for name, dialogue in dialogues.items():
        windows = [window for window in dialogue.windows if window.ref.final and window.turns]
        places = [ToAnnotate(name, window, tuple(windows[:n])) for n, window in enumerate(windows)]
        longest = max([longest, *(place.history_tokens for place in places)])
        fitting = [place for place in places if place.history and place.history_tokens >= min_history]
        step = 1 if most is None else max(len(fitting) / most, 1)
        chosen += [fitting[int(step * number)] for number in range(int(len(fitting) / step))]
    if not chosen:
        raise BenchmarkError(
            f"no full window has {min_history:,} tokens of history (the longest has {longest:,}): "
            "lower --min-history"
        )
    return chosen


@dataclass(frozen=True, slots=True)
class Estimate:
    """The number of calls for a question and the tokens they read; `sure` is "", "at most" or "about"."""

    question: str
    calls: int
    tokens: int
    sure: str


def estimate(places: Sequence[ToAnnotate], annotators: int) -> list[Estimate]:
    """The calls of a build from scratch: the first two questions are counted, the others assumed."""
    windows = [_tokens(utterances_prompt(place.window)) for place in places]
    screening = [
        _tokens(passages_prompt(place.window, group))
        for place in places
        for group in passage_batches(place.history)
    ]
    gaps = ASSUMED_GAPS * len(places)
    return [
        Estimate("salience and dependence", annotators * len(windows), annotators * sum(windows), ""),
        Estimate("screening", annotators * len(screening), annotators * sum(screening), "at most"),
        Estimate("evidence", annotators * gaps, annotators * gaps * _EVIDENCE_TOKENS, "about"),
        Estimate("validation", annotators * gaps, annotators * gaps * _VALIDATION_TOKENS, "about"),
    ]


@dataclass(slots=True)
class BuildReport:
    """The outcome for all candidates; `rejected` counts utterances, `dropped` counts evidence and quotes."""

    windows: int = 0
    accepted: int = 0
    evidence: int = 0
    rejected: Counter[tuple[Stage, str]] = field(default_factory=Counter)
    dropped: Counter[tuple[Stage, str]] = field(default_factory=Counter)
    agreement: dict[Stage, AnnotatorAgreement] = field(
        default_factory=lambda: {stage: AnnotatorAgreement() for stage in STAGES}
    )

    @property
    def candidates(self) -> int:
        """The number of utterances that at least one annotator found salient."""
        return self.accepted + self.rejected.total()

    @classmethod
    def of(cls, windows: Iterable[AnnotatedWindow]) -> BuildReport:
        """The report of annotated windows."""
        report = cls()
        for found in windows:
            report.windows += 1
            report.accepted += len(found.gaps)
            report.evidence += sum(len(gap.evidence) for gap in found.gaps)
            for one in found.rejected:
                is_utterance = one.turn is not None and one.evidence is None
                (report.rejected if is_utterance else report.dropped)[one.stage, one.reason] += 1
            for stage, labels in found.labels:
                report._add(stage, labels)
        return report

    def _add(self, stage: Stage, labels: Sequence[Hashable]) -> None:
        self.agreement[stage].add(labels)


def annotate_all(
    panel: Panel, places: Sequence[ToAnnotate], counters: Counter[str], *, at_once: int
) -> list[AnnotatedWindow] | None:
    """Annotate every window; returns None if the user stopped the work.

    Args:
        panel: the annotators.
        places: the windows with their histories.
        counters: `windows` is increased for each finished window.
        at_once: the largest number of windows in progress.

    Raises:
        BenchmarkError: an annotator failed.
    """

    async def run() -> list[AnnotatedWindow | None]:
        lane = asyncio.Semaphore(at_once)

        async def one(place: ToAnnotate) -> AnnotatedWindow | None:
            async with lane:
                if panel.calls.stopped:
                    return None
                try:
                    found = await annotate(panel, place.window, place.history)
                except WorkStopped:
                    return None
                counters["windows"] += 1
                return found

        try:
            return await asyncio.gather(*map(one, places))
        finally:
            await panel.close()

    found = asyncio.run(run())
    if panel.calls.failure is not None:
        raise BenchmarkError(f"{panel.calls.failure}; its answers are kept: run the command again to resume")
    done = [window for window in found if window is not None]
    return done if len(done) == len(places) else None


def _tokens(prompt: Prompt) -> int:
    return count(prompt.system) + count(prompt.user)
