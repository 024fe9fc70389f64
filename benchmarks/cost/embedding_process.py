"""Run an embedder in a separate process, to measure its loading time and memory."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from time import perf_counter, process_time
from typing import Any, Literal

import numpy as np

from backscroll.operators.index.embedder import Embedder, Vectors

__all__ = ["EmbeddingCase", "EmbeddingProcess", "Round"]

_ALONE = 20  # texts embedded one by one


@dataclass(frozen=True, slots=True)
class EmbeddingCase:
    """A backend and its precision."""

    backend: Literal["torch", "onnx"]
    precision: Literal["float32", "int8"] = "float32"
    model: str = "all-MiniLM-L6-v2"
    threads: int | None = None

    def load(self) -> Embedder:
        """Load the embedder.

        Raises:
            EmbedderError: the model cannot be loaded with this backend and precision.
        """
        if self.backend == "torch":
            from backscroll.connectors.embedding.sentence_transformers import SentenceTransformersEmbedder

            return SentenceTransformersEmbedder(self.model)
        from backscroll.connectors.embedding.onnx import OnnxEmbedder

        return OnnxEmbedder(self.model, precision=self.precision, threads=self.threads)


@dataclass(frozen=True, slots=True)
class Round:
    """One pass over all texts: seconds for turns and chunks, processor seconds, and the vectors."""

    turns_s: float
    chunks_s: float
    processor_s: float
    alone_ms: float
    vectors: Vectors
    memory_mb: float


class EmbeddingProcess:
    """A loaded embedder; `load_s` is its loading time, including imports.

    Raises:
        EmbedderError: the model cannot be loaded.
    """

    def __init__(self, way: EmbeddingCase) -> None:
        spawn = get_context("spawn")
        self._ours, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(way, theirs), daemon=True)
        self._process.start()
        theirs.close()
        try:
            self.load_s: float = self._answer()
        except BaseException:
            self.close()
            raise

    def embed(self, windows: Sequence[tuple[Sequence[str], Sequence[str]]]) -> Round:
        """Embed turns and chunks of windows, with two calls per window, as the engine does."""
        self._ours.send(windows)
        result: Round = self._answer()
        return result

    def close(self) -> None:
        """Stop the process."""
        self._ours.close()
        self._process.join()

    def _answer(self) -> Any:
        try:
            answer = self._ours.recv()
        except EOFError as err:
            raise RuntimeError(
                "an embedding process ended before its answer: was there enough memory?"
            ) from err
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(way: EmbeddingCase, parent: Connection) -> None:
    try:
        start = perf_counter()
        embedder = way.load()
        parent.send(perf_counter() - start)
        while True:
            parent.send(_round(embedder, parent.recv()))
    except EOFError:
        return
    except Exception as err:
        parent.send(err)


def _round(embedder: Embedder, windows: Sequence[tuple[Sequence[str], Sequence[str]]]) -> Round:
    vectors, spent = list[Vectors](), [0.0, 0.0]  # seconds for turns, for chunks
    used = process_time()
    for window in windows:
        for kind, texts in enumerate(window):
            start = perf_counter()
            vectors.append(embedder.embed_passages(texts))
            spent[kind] += perf_counter() - start
    used = process_time() - used
    alone = list[float]()
    for text in [text for turns, _ in windows for text in turns][:_ALONE]:
        start = perf_counter()
        embedder.embed_queries([text])
        alone.append(perf_counter() - start)
    return Round(spent[0], spent[1], used, 1000 * median(alone), np.concatenate(vectors), _most_memory())


def _most_memory() -> float:
    """The peak memory of this process in megabytes."""
    # Linux reports kilobytes, macOS bytes.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)
