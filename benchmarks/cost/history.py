"""Measure the cost of a window in a long channel, compared with a plain implementation.

The text is varied from real dialogues (`cost.synthetic_channel`). Vectors are random around centres, because
embedding ten million tokens would take hours and search is equally fast over these. Times are wall-clock
times and processor times of this process; on a busy machine, processor time says more.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from backscroll.benchmarks.cost.synthetic_channel import CHANNEL, grown_windows
from backscroll.connectors.lancedb.maintenance import maintain
from backscroll.connectors.lancedb.store import Fingerprint, LanceStore
from backscroll.operators.gaps.gap import Gap
from backscroll.operators.history.channel import AsOf, ChannelHistory
from backscroll.operators.history.chunks import Chunk, Chunker
from backscroll.operators.history.columns import Columns, RecordedWindow
from backscroll.operators.index.bm25 import ANALYSER, tokenize
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.index.fusion import reciprocal_rank_fusion
from backscroll.operators.index.ranking import Ranking
from backscroll.operators.language.tokens import TOKENIZER, encode
from backscroll.operators.memory.registry import get as get_strategy
from backscroll.operators.memory.request import MemoryParameters, MemoryRequest
from backscroll.operators.memory.selection import take_in_rounds
from backscroll.operators.memory.verbatim import build_verbatim
from backscroll.operators.messages import Message

__all__ = ["DIMENSIONS", "FINGERPRINT", "ClusteredVectors", "Stopwatch", "measure_size"]

DIMENSIONS = 384
FINGERPRINT = Fingerprint(TOKENIZER, 1024, 128, 32, ANALYSER, "clustered")
GAPS, TOP_K, CHUNKS, QUERY_TOKENS = 8, 30, 8, 60
_CENTRES, _SPREAD = 512, 0.7
_INDEXED = 64  # queries


class ClusteredVectors:
    """An embedder for measurements: random unit vectors around a few hundred centres, whatever the text."""

    name = fingerprint = "clustered"
    dimensions = DIMENSIONS

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._centres = self._random.standard_normal((_CENTRES, DIMENSIONS)).astype(np.float32)

    def make(self, number: int) -> Vectors:
        """Vectors, float32 `[number, 384]`."""
        vectors = self._random.standard_normal((number, DIMENSIONS), dtype=np.float32) * np.float32(_SPREAD)
        vectors += self._centres[self._random.integers(_CENTRES, size=number)]
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text."""
        return self.make(len(texts))

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text."""
        return self.make(len(texts))


@dataclass(slots=True)
class Stopwatch:
    """Measured times in milliseconds: wall clock and processor."""

    wall: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def of(self, name: str, parts: int = 1) -> Iterator[None]:
        """Time the block, which repeats the measured operation `parts` times."""
        wall, processor = time.perf_counter(), time.process_time()
        yield
        processor, wall = time.process_time() - processor, time.perf_counter() - wall
        self.wall.setdefault(name, []).append(wall * 1000 / parts)
        self.processor.setdefault(name, []).append(processor * 1000 / parts)

    def to_json(self) -> dict[str, dict[str, float]]:
        """Median and 95th percentile of the wall-clock times, and the median processor time."""
        return {
            name: {
                "p50_ms": _rounded(np.percentile(times, 50)),
                "p95_ms": _rounded(np.percentile(times, 95)),
                "cpu_p50_ms": _rounded(np.percentile(self.processor[name], 50)),
            }
            for name, times in self.wall.items()
        }


def measure_size(
    dialogues: Sequence[Sequence[Message]],
    tokens: int,
    folder: Path,
    *,
    windows: int,
    plain: bool,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Measure a channel of `tokens` tokens: the cost of its last windows, its size, and its loading.

    Args:
        dialogues: the dialogues to generate the channel from.
        tokens: the approximate size of the channel.
        folder: an empty folder for the store.
        windows: how many windows to measure.
        plain: whether to also measure `rank_bm25`, brute force, and LanceDB's own search.
        say: called with the current step.
    """
    say(f"{tokens:,} tokens: text")
    chunker, clock, embedder = Chunker(), Stopwatch(), ClusteredVectors()
    closed = list(grown_windows(dialogues, tokens))
    windows = min(windows, len(closed) // 2)
    chunks = [chunker.chunk(window.turns) for window in closed]
    recorded = [
        RecordedWindow(window, of, embedder.make(len(of)), embedder.make(len(window.turns)))
        for window, of in zip(closed, chunks, strict=True)
    ]
    say("store")
    store = LanceStore(folder, FINGERPRINT, DIMENSIONS)
    for start in range(0, len(recorded) - windows, 512):
        store.append(recorded[start : min(start + 512, len(recorded) - windows)])
    history = ChannelHistory(CHANNEL, DIMENSIONS)
    with clock.of("index_all"):
        history.extend(Columns.of(recorded[:-windows]))
    say("windows")
    chooser = random.Random(0)
    for one in recorded[-windows:]:
        _measure_window(history, one, clock, lambda: _query(chooser, chunks[:-windows]), embedder)
        with clock.of("lancedb_append"):
            store.append([one])
    report: dict[str, Any] = {
        "tokens": sum(window.tokens for window in closed),
        "turns": history.recorded_until,
        "windows": len(closed),
        "chunks": history.as_of(history.recorded_until).chunks,
        "words": len({word for of in chunks for chunk in of for word in tokenize(chunk.text)}),
        "measured_windows": windows,
    }
    if plain:
        say("the plain way")
        texts = [chunk.text for of in chunks for chunk in of]
        _measure_plain(store, history, clock, lambda: _query(chooser, chunks), texts)
    report["bytes_per_million_tokens"] = {
        name: round(size / report["tokens"] * 1e6) for name, size in history.sizes().items()
    }
    del recorded, history
    say("load")
    store.close()
    store = LanceStore(folder, FINGERPRINT, DIMENSIONS)
    with clock.of("cold_load"):
        stored = store.load(CHANNEL)
        loaded = ChannelHistory(CHANNEL, DIMENSIONS)
        loaded.extend(stored.windows)
    report["loaded_bytes_per_million_tokens"] = round(loaded.nbytes / report["tokens"] * 1e6)
    store.close()
    say("the store's index of vectors")
    report["indexed_search"] = {"recall_at_30": _measure_index(folder, loaded, clock)}
    report["cost"] = clock.to_json()
    report["times_faster"] = _ratios(report["cost"])
    return report


def _measure_window(
    history: ChannelHistory,
    recorded: RecordedWindow,
    clock: Stopwatch,
    ask: Callable[[], str],
    embedder: ClusteredVectors,
) -> None:
    """Process one window from its close to its memory, stage by stage."""
    window = recorded.window
    with clock.of("chunking"):
        Chunker().chunk(window.turns)
    queries = [ask() for _ in range(GAPS)]
    past, vectors = history.as_of(window.ref.first_seq), embedder.make(GAPS)
    sparse = []
    for query in queries:
        with clock.of("sparse_query"):
            sparse.append(Ranking.top(past.sparse(query), TOP_K))
    with clock.of("dense_query", GAPS):
        dense = past.nearest(vectors, TOP_K)
    with clock.of("fusion", GAPS):
        fused = [reciprocal_rank_fusion(pair)[:CHUNKS] for pair in zip(sparse, dense, strict=True)]
    with clock.of("refinement", GAPS):
        extracted = [_refined(past, best, vector) for best, vector in zip(fused, vectors, strict=True)]
    gaps = [Gap(window.turns[-1].id, "", query, "") for query in queries]
    request = MemoryRequest(window.turns, gaps, past, MemoryParameters(embedder))
    with clock.of("accumulation"):
        take_in_rounds(request, extracted)
    with clock.of("append"):
        history.append(recorded)
    # First with windows that the ranker has not read before, as after a start.
    for name in ("remember", "backscroll_cold", "backscroll"):
        with clock.of(f"memory_{name}"):
            build_verbatim(get_strategy(name.removesuffix("_cold")), request)


def _measure_index(folder: Path, history: ChannelHistory, clock: Stopwatch) -> float:
    """Measure vector search with the store's index, and its recall compared with exact search."""
    store = LanceStore(folder, FINGERPRINT, DIMENSIONS, exact_chunks=0)
    assert store.search is not None
    with clock.of("build_vector_index"):
        maintain(store, exclusive=True)
    past, queries, hits = history.as_of(history.recorded_until), ClusteredVectors(seed=0).make(_INDEXED), 0
    for query, exact in zip(queries, past.nearest(queries, TOP_K), strict=True):
        with clock.of("dense_query_indexed"):
            (found,) = store.search.nearest(CHANNEL, query[None], windows=past.windows, k=TOP_K)
        worst = exact.scores[-1] - 1e-6
        hits += sum(one.cosine >= worst for one in found)
    store.close()
    return round(hits / (TOP_K * _INDEXED), 4)


def _refined(past: AsOf, best: Ranking, vector: Vectors) -> list[tuple[int, float]]:
    seqs = sorted({seq for chunk in best.positions for seq in past.chunk_turns(chunk)})
    scores = (past.turn_vectors(seqs) @ vector).tolist()
    return sorted(zip(seqs, scores, strict=True), key=lambda pair: (-pair[1], pair[0]))


def _query(chooser: random.Random, chunks: Sequence[Sequence[Chunk]]) -> str:
    """A query of sixty tokens from the channel's text."""
    text = chooser.choice(chooser.choice([of for of in chunks[-4096:] if of])).text
    tokens = encode(text)[:QUERY_TOKENS]
    return text[: max(len(text) * len(tokens) // max(len(encode(text)), 1), 1)]


def _measure_plain(
    store: LanceStore,
    history: ChannelHistory,
    clock: Stopwatch,
    ask: Callable[[], str],
    texts: Sequence[str],
) -> None:
    """Measure a plain implementation without our index, with the same chunks and queries."""
    from rank_bm25 import BM25Okapi

    embedder = ClusteredVectors(seed=1)
    past = history.as_of(history.recorded_until)
    with clock.of("plain_rank_bm25_rebuilt"):
        index = BM25Okapi([tokenize(text) for text in texts])
    for _ in range(3):
        query = ask()
        with clock.of("plain_rank_bm25_query"):
            scores = index.get_scores(tokenize(query))
            expected = np.argsort(-scores, kind="stable")[:TOP_K]
        found = Ranking.top(past.sparse(query), TOP_K)
        if not np.allclose(scores[expected], found.scores, rtol=0, atol=1e-9):
            raise AssertionError("the index does not score as rank_bm25 does")
    del index
    matrix = past.chunk_vectors
    for vector in embedder.make(GAPS):
        with clock.of("plain_brute_force"):
            np.argsort(-(matrix @ vector), kind="stable")[:TOP_K]
    table = store.tables.database.open_table("chunks")
    with clock.of("plain_lancedb_fts_index"):
        table.create_fts_index("text")
    vectors = store.tables.database.open_table(f"chunk_vectors_{FINGERPRINT.embedder}")
    for vector in embedder.make(GAPS):
        query = " ".join(tokenize(ask()))
        with clock.of("plain_lancedb_fts"):
            table.search(query, query_type="fts").limit(TOP_K).select(
                ["window", "start", "_score"]
            ).to_arrow()
        with clock.of("plain_lancedb_vectors"):
            vectors.search(vector).metric("dot").limit(TOP_K).select(["position", "_distance"]).to_arrow()


_AGAINST = {
    "sparse_query": ("plain_rank_bm25_rebuilt", "plain_rank_bm25_query", "plain_lancedb_fts"),
    "dense_query": ("plain_brute_force", "plain_lancedb_vectors"),
}


def _ratios(cost: dict[str, dict[str, float]]) -> dict[str, float]:
    """How many times as much processor time the plain implementation takes."""
    return {
        f"{ours} against {plain.removeprefix('plain_')}": round(
            cost[plain]["cpu_p50_ms"] / max(cost[ours]["cpu_p50_ms"], 1e-6), 1
        )
        for ours, plains in _AGAINST.items()
        for plain in plains
        if plain in cost
    }


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
