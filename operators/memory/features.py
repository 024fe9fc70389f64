"""Features that predict whether an earlier turn is evidence for a window: one row per turn.

There are two steps. First, a small model over `RELEVANCE` gives the *relevance* of a turn to a query
(a gap, or any utterance of the window as a weak query). Then the best relevances, ranks, recency and
who speaks to whom form a row of `FEATURES`. Every feature is a rank, a share or a normalised score,
so that changing the embedder does not shift it. If no gap was found in a window, the utterances that
depend most on the history are the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.memory.additive import AdditiveModel
from backscroll.operators.memory.excerpt import Excerpt
from backscroll.operators.memory.request import MemoryRequest
from backscroll.operators.memory.turn_bm25 import Lexical, TurnTerms, idf, mentions
from backscroll.operators.memory.turn_features import COLUMNS, TurnRows, stems, window_columns

__all__ = [
    "DENSE",
    "FEATURES",
    "RELEVANCE",
    "EvidenceFeatures",
    "evidence_features",
    "named_authors",
    "relevance_features",
]

Floats = NDArray[np.floating[Any]]

_OF_TURN = ("salience", "first_person", "digit", "code", "question", "asked", "log_tokens", "log_terms")
_MATCH = ("first", "last", "rarest", "shared")
_WHOSE = ("gap", "utterance", "window")
RELEVANCE = (
    *("z", "before_z", "near_z", "near3_z"),
    *("coverage", "share_of_best", "before_coverage", "near_coverage", "near3_coverage"),
    *(*_MATCH, "author_named", *_OF_TURN),
)
FEATURES = (
    *("gap_z", "utterance_z", "gap_z_rank", "utterance_z_rank", "window_z"),
    *("gap_coverage", "utterance_coverage", "gap_bm25_rank", "utterance_bm25_rank"),
    *("fused", "fused_sum", "distance", "place", "same_author", "author_named"),
    *("utterance_author_named", "window_coverage", "window_bm25", "age", "age_decay", "age_turns"),
    *("minutes", "pauses", "author_present", "new_terms"),
    *("gap_relevance", "utterance_relevance", "gap_relevance_rank", "utterance_relevance_rank"),
    *("gap_relevance_sum", "window_relevance", "window_relevance_rank", "salient_relevance"),
    *("window_relevance_sum", *(f"{whose}_{name}" for whose in _WHOSE for name in _MATCH)),
    *_OF_TURN,
)
"""The features, in column order."""
DENSE = frozenset(
    (
        "z",
        "before_z",
        "near_z",
        "near3_z",
        "gap_z",
        "utterance_z",
        "gap_z_rank",
        "utterance_z_rank",
        "window_z",
    )
)
"""Features that need vectors; without vectors they are zero."""

_NEAR = 3
_PAUSE_SECONDS = 4 * 3600
_MOST_PAUSES = 6
_AGE_SCALE, _DECAY_TOKENS = 64, 800
_WEAK_QUERIES = 6
_FLOOR = -8.0
_BEST = 3
# Weights of a word that another query or the window has, and of one that neither has.
_SAID, _UNSAID = 0.5, 0.25


@dataclass(frozen=True, slots=True)
class EvidenceFeatures:
    """`rows` is `[turns, FEATURES]`, and `relevance` is log-odds, `[queries, turns]`.

    `wanted(position, word)` is how much a word, given as a stem, counts in that turn: its idf, times 1
    if the query that the turn answers best has the word, 0.5 if another query or the window has it,
    and 0.25 otherwise.

    Query `i` is gap `i`. If there are no gaps, queries are weak queries and belong to no gap.
    """

    rows: Floats
    relevance: Floats
    wanted: Callable[[int, str], float]


@dataclass(frozen=True, slots=True)
class _Query:
    """The text of a query, and the index of its utterance in the window."""

    text: str
    place: int


def relevance_features(
    rows: TurnRows, match: Lexical, cosine: Floats | None, named: Floats
) -> dict[str, Floats]:
    """`RELEVANCE` of every query and turn, `[queries, turns]` or `[1, turns]` each.

    `named` is whether the query names the turn's author. Cosines are standardised: their distance
    from the mean over the turns in view, in standard deviations.
    """
    z = np.zeros_like(match.score) if cosine is None else standard(cosine)
    coverage = match.coverage
    found: dict[str, Floats] = {
        "z": z,
        "before_z": _before(z),
        "near_z": _near(z, 1),
        "near3_z": _near(z, _NEAR),
        "coverage": coverage,
        "share_of_best": match.score / (match.score.max(axis=1, keepdims=True, initial=0) + 1e-6),
        "before_coverage": _before(coverage),
        "near_coverage": _near(coverage, 1),
        "near3_coverage": _near(coverage, _NEAR),
        **{name: getattr(match, name) for name in _MATCH},
        "author_named": named,
    }
    return found | {name: values[None] for name, values in _of_turn(rows).items()}


def evidence_features(request: MemoryRequest, among: Excerpt, relevance: AdditiveModel) -> EvidenceFeatures:
    """The features of every turn of an excerpt of the request's history, which must not be empty."""
    rows, window = among.rows(), request.turns
    own = window_columns(request.history, window)
    worth, leaning = own[:, COLUMNS.index("salience")], own[:, COLUMNS.index("leaning")]
    queries = _queries(request, leaning)
    places = np.array([query.place for query in queries], dtype=np.intp)
    asked = len(queries)
    said = [*(query.text for query in queries), *(turn.text for turn in window)]
    terms = [stems(text) for text in said]
    match, cosine = TurnTerms(rows, terms).match(), _cosines(request, among, queries)
    named = named_authors(terms, rows)
    scored = relevance_features(rows, match, cosine, named)
    odds = relevance.score(scored)
    by_gap, by_window = odds[:asked], odds[asked:]
    by_utterance = by_window[places]
    z, score = scored["z"], match.score
    utterance = asked + places
    before = np.cumsum([0, *(turn.tokens for turn in window)])[places].astype(np.float64)

    ranks = {
        "gap_bm25_rank": log_rank(score[:asked]),
        "utterance_bm25_rank": log_rank(score[utterance]),
    }
    if cosine is not None:
        ranks["gap_z_rank"] = log_rank(z[:asked])
        ranks["utterance_z_rank"] = log_rank(z[utterance])
    fused = np.sum([1 / (10 + 2**rank) for rank in ranks.values()], axis=0)
    best, every = fused.argmax(axis=0), np.arange(rows.turns)
    speakers = np.array([rows.authors.get(turn.author.name, -1) for turn in window])
    spoken_of = mentions(rows, [window[place].author.name for place in places])
    age, rarity = _age(rows), idf(rows.frequency(), rows.turns)
    salient = by_window + np.log(worth + 0.05)[:, None]

    found: dict[str, Floats] = {
        "gap_z": z[:asked].max(axis=0),
        "utterance_z": z[utterance].max(axis=0),
        "window_z": z[asked:].max(axis=0),
        "gap_coverage": match.coverage[:asked].max(axis=0),
        "utterance_coverage": match.coverage[utterance].max(axis=0),
        "fused": fused.max(axis=0),
        "fused_sum": fused.sum(axis=0),
        **{name: rank.min(axis=0) for name, rank in ranks.items()},
        "distance": np.log1p((age + before[best]) / _AGE_SCALE),
        "place": np.log1p(before[best] / _AGE_SCALE),
        "same_author": (rows["author"] == speakers[places][best]).astype(np.float64),
        "author_named": named[:asked].max(axis=0),
        "utterance_author_named": spoken_of[best, every],
        "window_coverage": match.coverage[asked:].max(axis=0),
        "window_bm25": _best_mean(score[asked:], _BEST),
        "age": np.log1p(age / _AGE_SCALE),
        "age_decay": np.exp(-age / _DECAY_TOKENS),
        "age_turns": np.log2(np.arange(rows.turns, 0, -1)),
        "author_present": np.isin(rows["author"], speakers).astype(np.float64),
        "new_terms": _new_terms(rows, rarity, terms[asked:]),
        **_in_time(rows, window[0].ts.timestamp()),
        "gap_relevance": by_gap.max(axis=0),
        "utterance_relevance": by_utterance.max(axis=0),
        "gap_relevance_rank": log_rank(by_gap).min(axis=0),
        "utterance_relevance_rank": log_rank(by_utterance).min(axis=0),
        "gap_relevance_sum": _log_sum(by_gap),
        "window_relevance": by_window.max(axis=0),
        "window_relevance_rank": log_rank(by_window.max(axis=0)[None])[0],
        "salient_relevance": salient.max(axis=0),
        "window_relevance_sum": _log_sum(by_window),
        **_of_turn(rows),
    }
    for whose, chosen in zip(_WHOSE, (slice(asked), utterance, slice(asked, None)), strict=True):
        for name in _MATCH:
            found[f"{whose}_{name}"] = getattr(match, name)[chosen].max(axis=0)
    absent = np.zeros(rows.turns)
    table = np.column_stack([found.get(name, absent) for name in FEATURES])
    return EvidenceFeatures(np.round(table, 3), by_gap, _wanted(rows, rarity, terms, by_gap))


def standard(scores: Floats) -> Floats:
    """Standardise each row: subtract its mean and divide by its standard deviation."""
    deviation = scores.std(axis=1, keepdims=True) + 1e-6
    values: Floats = (scores - scores.mean(axis=1, keepdims=True)) / deviation
    return values


def log_rank(scores: Floats) -> Floats:
    """Base-2 logarithm of the rank within the row, counting from 1; the best value has 0."""
    rounded = np.round(scores, 4)
    ranks = np.empty(scores.shape)
    for row, values, ordered in zip(ranks, rounded, np.sort(rounded, axis=1), strict=True):
        row[:] = len(values) - np.searchsorted(ordered, values, side="right")
    better: Floats = np.log2(ranks + 1)
    return better


def _queries(request: MemoryRequest, leaning: NDArray[np.float64]) -> list[_Query]:
    places = {turn.id: place for place, turn in enumerate(request.turns)}
    found = [_Query(gap.text, places.get(gap.utterance, 0)) for gap in request.gaps]
    if found:
        return found
    weak = sorted(np.argsort(-leaning, kind="stable")[:_WEAK_QUERIES].tolist())
    return [_Query(request.turns[place].text, place) for place in weak]


def _cosines(request: MemoryRequest, among: Excerpt, queries: Sequence[_Query]) -> Floats | None:
    """Cosines to the turns of the excerpt, first of every query, then of every utterance of the window."""
    embedder = request.parameters.embedder
    if embedder is None or not request.history.has_vectors:
        return None
    window = request.history.window_vectors(request.turns, embedder)
    asked = (
        embedder.embed_queries([gap.text for gap in request.gaps])
        if request.gaps
        else window[[query.place for query in queries]]
    )
    cosines: Floats = np.concatenate([asked, window]) @ among.vectors().T
    return cosines


def named_authors(texts: Sequence[Sequence[str]], rows: TurnRows) -> NDArray[np.float64]:
    """Whether a text, as stems, has the first word of the turn's author's name, `[texts, turns]`."""
    names = [stems(author)[:1] for author in list(rows.authors)[: int(rows["author"].max()) + 1]]
    named = np.zeros((len(texts), len(names)))
    for place, said in enumerate(map(set, texts)):
        named[place] = [bool(name) and name[0] in said for name in names]
    return named[:, rows["author"].astype(np.intp)]


def _wanted(
    rows: TurnRows, rarity: Floats, texts: Sequence[Iterable[str]], relevance: Floats
) -> Callable[[int, str], float]:
    best, words = relevance.argmax(axis=0), [frozenset(text) for text in texts]
    said = frozenset().union(*words)
    unseen = float(idf(np.zeros(1, np.int64), rows.turns)[0])

    def wanted(position: int, word: str) -> float:
        number = rows.number(word)
        weight = unseen if number is None else float(rarity[number])
        return weight * (1.0 if word in words[best[position]] else _SAID if word in said else _UNSAID)

    return wanted


def _of_turn(rows: TurnRows) -> Mapping[str, NDArray[np.float64]]:
    plain = {name: rows[name] for name in ("salience", "first_person", "digit", "code", "question")}
    return plain | {
        "asked": _before(rows["question"]),
        "log_tokens": np.log(np.maximum(rows["tokens"], 1)),
        "log_terms": np.log1p(rows["terms"]),
    }


def _in_time(rows: TurnRows, start: float) -> dict[str, NDArray[np.float64]]:
    """Logarithm of the minutes from a turn to the window, and the number of long pauses in between."""
    times = rows["time"]
    pauses = np.diff(np.append(times, start)) > _PAUSE_SECONDS
    return {
        "minutes": np.log1p(np.maximum(start - times, 0) / 60),
        "pauses": np.minimum(np.cumsum(pauses[::-1])[::-1], _MOST_PAUSES).astype(np.float64),
    }


def _age(rows: TurnRows) -> NDArray[np.float64]:
    """Tokens between a turn and the window."""
    tokens = rows["tokens"]
    age: NDArray[np.float64] = tokens.sum() - np.cumsum(tokens)
    return age


def _new_terms(rows: TurnRows, rarity: Floats, window: Iterable[Iterable[str]]) -> NDArray[np.float64]:
    """The share of a turn's words, weighted by idf, that do not occur in the window."""
    unsaid = np.ones(rows.terms)
    numbers = (rows.number(term) for said in window for term in said)
    unsaid[[number for number in numbers if number is not None]] = 0
    mass = np.bincount(rows.row, rarity[rows.term], minlength=rows.turns)
    new = np.bincount(rows.row, (rarity * unsaid)[rows.term], minlength=rows.turns)
    share: NDArray[np.float64] = new / (mass + 1e-6)
    return share


def _best_mean(values: Floats, best: int) -> Floats:
    """The mean of the best few values of every column."""
    if len(values) > best:
        values = np.partition(values, len(values) - best, axis=0)[-best:]
    mean: Floats = values.mean(axis=0)
    return mean


def _log_sum(odds: Floats) -> Floats:
    values: Floats = np.log(np.exp(np.clip(odds, _FLOOR, -_FLOOR)).sum(axis=0))
    return values


def _before(values: Floats) -> Floats:
    """The previous turn's value; the lowest value for the first turn."""
    moved = np.full_like(values, values.min(initial=0))
    moved[..., 1:] = values[..., :-1]
    return moved


def _near(values: Floats, reach: int) -> Floats:
    """The best value among the `reach` turns on either side."""
    best = np.full_like(values, values.min(initial=0))
    for step in range(1, reach + 1):
        np.maximum(best[..., step:], values[..., :-step], out=best[..., step:])
        np.maximum(best[..., :-step], values[..., step:], out=best[..., :-step])
    return best
