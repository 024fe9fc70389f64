"""Summary metrics as ReMEMBER defines them (section 3.3 and appendix B), from a judge's verdicts.

Pure arithmetic. None stands for what has no value: nothing to cover, no gap that the memory resolves,
no fact, or verdicts that could not be had. It is never counted as 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean

__all__ = [
    "METRICS",
    "SummaryVerdicts",
    "composite",
    "conciseness",
    "faithfulness",
    "gap_completeness",
    "mean_of_known",
    "window_completeness",
]

METRICS = ("window_completeness", "gap_completeness", "conciseness", "faithfulness")

Cited = Sequence[Collection[int]]
"""For every item the summary sentences that state it, from 0; none where the summary does not."""


def window_completeness(utterances: Cited) -> float | None:
    """|U+| / |U|: the salient utterances whose claim the summary states."""
    return _share_cited(utterances)


def gap_completeness(gaps: Cited) -> float | None:
    """|G++| / |G+|: of the gaps that the memory resolves, those whose resolution the summary states."""
    return _share_cited(gaps)


def conciseness(sentences: int, utterances: Cited, gaps: Cited) -> float | None:
    """|S_win or S_gap| / |S|: the sentences that cover an utterance or resolve a gap."""
    useful = {sentence for cited in (*utterances, *gaps) for sentence in cited}
    return len(useful) / sentences if sentences else None


def faithfulness(facts: Iterable[Collection[bool]]) -> float | None:
    """Supported atomic facts over all, summed over the sentences."""
    supported = [fact for sentence in facts for fact in sentence]
    return sum(supported) / len(supported) if supported else None


def composite(
    *, window: float | None, gap: float | None, concise: float | None, faithful: float | None
) -> float | None:
    """The plain mean of the four; None if one of them is unknown.

    A memory that resolves no gap at all has no gap completeness; the paper counts it as 0 here, and
    so should the caller.
    """
    return _mean([window, gap, concise, faithful])


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """The mean over the windows for which a metric has a value."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None


@dataclass(frozen=True, slots=True)
class SummaryVerdicts:
    """All verdicts on one window's summary of `sentences` sentences.

    `utterances` and `gaps` are None where the judge gave no verdicts or, for the utterances, where the
    window's salient ones are not annotated; `facts` holds for every sentence whether each of its facts
    is supported.
    """

    sentences: int
    utterances: Cited | None
    gaps: Cited | None
    facts: Sequence[Collection[bool]] | None

    @property
    def metrics(self) -> dict[str, float | None]:
        """The four metrics of this summary."""
        both = None
        if self.utterances is not None and self.gaps is not None:
            both = conciseness(self.sentences, self.utterances, self.gaps)
        return {
            "window_completeness": None if self.utterances is None else window_completeness(self.utterances),
            "gap_completeness": None if self.gaps is None else gap_completeness(self.gaps),
            "conciseness": both,
            "faithfulness": None if self.facts is None else faithfulness(self.facts),
        }


def _share_cited(items: Cited) -> float | None:
    return sum(bool(cited) for cited in items) / len(items) if items else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if len(known) == len(values) else None
