"""Sentence embeddings with onnxruntime, which loads in half a second and needs no torch.

Each text is computed separately, and the texts of a call in parallel threads. So no time is spent on
padding, and a vector depends only on its text, to the last bit, whatever else is in the call.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime

from backscroll.connectors.embedding.bert import SentenceBert
from backscroll.connectors.embedding.bert_graph import Graph, Precision, bert_graph
from backscroll.connectors.embedding.packaged import (
    DEFAULT_MODEL,
    EmbedderError,
    UnsupportedModelError,
    model_fingerprint,
)
from backscroll.operators.index.embedder import Vectors

__all__ = ["OnnxEmbedder", "multiplies_int8_exactly"]

_VNNI = {"avx512_vnni", "avx_vnni"}


class OnnxEmbedder:
    """Unit vectors from a BERT sentence encoder on this machine's processor.

    With `float32` they equal those of sentence-transformers on torch except in the last bits, in which
    torch itself differs from batch to batch. With `int8` they differ (cosine about 0.99), and so does the
    fingerprint.

    Args:
        model: a hub id, a folder, or `all-MiniLM-L6-v2` for the packaged weights.
        precision: the precision of the linear layers.
        threads: how many texts to compute at once; None for one per available processor.

    Raises:
        UnsupportedModelError: the model needs torch.
        EmbedderError: the packaged model is missing or damaged, or the processor cannot compute int8 exactly.
    """

    def __init__(
        self, model: str = DEFAULT_MODEL, *, precision: Precision = "float32", threads: int | None = None
    ) -> None:
        if precision == "int8" and not multiplies_int8_exactly():
            raise EmbedderError(
                "embedding_precision int8 needs a processor with VNNI: use float32 on this one"
            )
        try:
            bert = SentenceBert.read(model)
            graph = bert_graph(bert.weights(), bert.config, precision)
            self._tokenizer = bert.tokenizer()
        except (UnsupportedModelError, KeyError) as err:
            reason = f"weight {err} is missing" if isinstance(err, KeyError) else err
            raise UnsupportedModelError(f"embedding model {model!r} does not run on ONNX: {reason}") from err
        self._prompts = bert.query_prompt, bert.passage_prompt
        self._session, self._weights = _session(graph)
        self._threads = ThreadPoolExecutor(threads or _processors(), thread_name_prefix="backscroll-embed")
        self.dimensions = int(self._session.get_outputs()[0].shape[1])
        fingerprint = model_fingerprint(model, self.dimensions)
        self.name = model if precision == "float32" else f"{model} ({precision})"
        self.fingerprint = fingerprint if precision == "float32" else f"{fingerprint}-{precision}"

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of stored texts, float32 `[texts, dimensions]`."""
        return self._encode(texts, self._prompts[1])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of queries, under the model's query prompt where it has one."""
        return self._encode(texts, self._prompts[0])

    def _encode(self, texts: Sequence[str], prompt: str) -> Vectors:
        # The tokenizer rejects lone surrogates.
        asked = [f"{prompt}{text}".encode("utf-8", "replace").decode() for text in texts]
        distinct = list(dict.fromkeys(asked))
        pieces = [encoding.ids for encoding in self._tokenizer.encode_batch(distinct)]
        longest_first = sorted(range(len(distinct)), key=lambda place: -len(pieces[place]))
        vectors = np.empty((len(distinct), self.dimensions), dtype=np.float32)
        computed = self._threads.map(self._compute, (pieces[place] for place in longest_first))
        for place, vector in zip(longest_first, computed, strict=True):
            vectors[place] = vector
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        places = {text: place for place, text in enumerate(distinct)}
        return vectors[[places[text] for text in asked]]

    def _compute(self, pieces: list[int]) -> Vectors:
        (embedding,) = self._session.run(None, {"input_ids": np.array([pieces], dtype=np.int64)})
        vector: Vectors = embedding[0]
        return vector


def multiplies_int8_exactly() -> bool:
    """Whether this processor adds up products of 8-bit numbers without overflow.

    Intel and AMD processors without VNNI do not; see onnxruntime's documentation on quantization.
    """
    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(_VNNI & set(line.split()) for line in lines if line.startswith("flags"))


def _session(graph: Graph) -> tuple[onnxruntime.InferenceSession, list[onnxruntime.OrtValue]]:
    """The session, and its weights, which must be kept as long as the session."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the threads are for the texts
    options.log_severity_level = 3
    weights = [onnxruntime.OrtValue.ortvalue_from_numpy(values) for values in graph.weights.values()]
    options.add_external_initializers(list(graph.weights), weights)
    session = onnxruntime.InferenceSession(graph.model, options, providers=["CPUExecutionProvider"])
    return session, weights


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
