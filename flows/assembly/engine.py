"""Builds a running engine from the settings: embedder, store, detector and the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from backscroll.connectors.files.recorded_gaps import RecordedDetector
from backscroll.connectors.lancedb.store import LanceStore
from backscroll.flows.assembly.embedder import make_embedder, make_fingerprint
from backscroll.flows.assembly.language_model import make_stages
from backscroll.flows.settings.settings import Settings
from backscroll.operators.engine import Engine, EngineConfig
from backscroll.operators.gaps.gap import GapDetector
from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.history.store import HistoryStore
from backscroll.operators.index.embedder import Embedder, VectorSearch
from backscroll.operators.llm.budget import AnswerStore, CurrentAnswers
from backscroll.operators.llm.in_memory import InMemoryAnswers
from backscroll.operators.memory.request import Retrieval
from backscroll.operators.runtime.calls import drain
from backscroll.operators.runtime.runtime import Runtime
from backscroll.operators.stream.windows import WindowCutter

__all__ = ["open_engine"]


@contextmanager
def open_engine(
    settings: Settings,
    *,
    runtime: Runtime | None = None,
    detected: Path | None = None,
    shared: bool = False,
    processes: int = 1,
) -> Iterator[Engine]:
    """Open an engine over the store of the settings, or over one in memory if none is set.

    Args:
        settings: the engine's settings.
        runtime: the state of the run; a new one when None.
        detected: a file of recorded gaps to use instead of the rules.
        shared: the process that started this one holds the store open.
        processes: how many processes the engine has; they share the day's tokens.

    Raises:
        FormatError: the recorded gaps cannot be read.
        EmbedderError: the embedding model cannot be used.
        LLMSetupError: the language model cannot be used.
        StoreError: the store cannot be used.
    """
    detector: GapDetector = RulesDetector() if detected is None else RecordedDetector.read(detected)
    embedder = make_embedder(settings)
    chunker = Chunker(settings.chunk_tokens, settings.chunk_overlap)
    with _open_store(settings, embedder, shared=shared) as (store, paid, search):
        try:
            histories = Histories(store, embedder, chunker, ceiling=settings.history_mb << 20, search=search)
            answers = CurrentAnswers(paid, histories.is_current)
            gaps, summaries = make_stages(
                settings, detector, answers, recorded=detected is not None, processes=processes
            )
            yield Engine(histories, _config(settings), gaps=gaps, summaries=summaries, runtime=runtime)
        finally:
            drain()


@contextmanager
def _open_store(
    settings: Settings, embedder: Embedder | None, *, shared: bool
) -> Iterator[tuple[HistoryStore, AnswerStore, VectorSearch | None]]:
    """The store of the settings, or one in memory; its paid answers, and its own vector search."""
    if settings.store is None:
        answers = InMemoryAnswers()
        yield InMemoryStore(answers.erase), answers, None
        return
    store = LanceStore(
        settings.store,
        make_fingerprint(settings, embedder),
        embedder.dimensions if embedder else None,
        shared=shared,
        exact_chunks=settings.exact_chunks,
    )
    try:
        yield store, store.answers, store.search
    finally:
        store.close()


def _config(settings: Settings) -> EngineConfig:
    idle = None if settings.idle_minutes is None else timedelta(minutes=settings.idle_minutes)
    return EngineConfig(
        namespace=settings.namespace,
        cutter=WindowCutter(settings.window_tokens, settings.window_turns, idle),
        strategy=settings.strategy,
        budget=settings.budget,
        retrieval=Retrieval(settings.top_k, settings.rrf_constant, settings.chunk_tokens),
        max_gaps=settings.max_gaps,
        pending_limit=settings.pending_windows,
        unrecorded_limit=settings.unrecorded_windows,
        embedding_windows=settings.embedding_windows,
        lateness=timedelta(seconds=settings.lateness_seconds),
        scattered_channels=settings.scattered_channels,
        reissue=settings.reissue,
    )
