"""Builds the embedder that the settings name: none, a local model, or one on a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from backscroll.connectors.embedding.packaged import (
    DEFAULT_MODEL,
    INSTALL_TORCH,
    UnsupportedModelError,
    model_fingerprint,
    torch_is_installed,
)
from backscroll.connectors.embedding.sentence_transformers import SentenceTransformersEmbedder
from backscroll.connectors.lancedb.store import Fingerprint
from backscroll.flows.settings.settings import Settings
from backscroll.operators.index.bm25 import ANALYSER
from backscroll.operators.index.embedder import Embedder, Vectors
from backscroll.operators.language.tokens import TOKENIZER

__all__ = ["make_embedder", "make_fingerprint", "packaged_vectors"]


def make_embedder(settings: Settings) -> Embedder | None:
    """The embedder of the settings; None for a history without vectors.

    With an `embedding_url`, the default `embedding_model` means the only model of that server.

    Raises:
        EmbedderError: it cannot be used.
    """
    if settings.embedding_model == "none":
        return None
    if settings.embedding_url is None:
        return _on_this_machine(settings)
    from backscroll.connectors.embedding.openai import OpenAIEmbedder

    key = settings.embedding_api_key
    return OpenAIEmbedder(
        url=settings.embedding_url,
        model=None if settings.embedding_model == DEFAULT_MODEL else settings.embedding_model,
        api_key=None if key is None else key.get_secret_value(),
        query_instruction=settings.embedding_query_task,
    )


def packaged_vectors(
    settings: Settings, embedder: Embedder | None
) -> Callable[[Sequence[str]], Vectors] | None:
    """Embeds messages with the packaged model, which the models of acts know; None if it is not in use.

    Args:
        settings: without an embedder, the packaged model is opened at the first call if they name it.
        embedder: the embedder of the history, if there is one.
    """
    if embedder is not None:
        known = embedder.fingerprint.startswith(model_fingerprint(DEFAULT_MODEL, embedder.dimensions))
        return embedder.embed_passages if known else None
    if settings.embedding_model != DEFAULT_MODEL or settings.embedding_url is not None:
        return None
    opened = cache(lambda: _on_this_machine(settings))
    return lambda texts: opened().embed_passages(texts)


def _on_this_machine(settings: Settings) -> Embedder:
    """ONNX, or torch as the fallback; in single precision both give the same vectors."""
    if settings.embedding_backend != "torch":
        try:
            return _onnx(settings)
        except UnsupportedModelError as err:
            if settings.embedding_backend == "onnx" or settings.embedding_precision != "float32":
                raise
            if not torch_is_installed():
                raise UnsupportedModelError(f"{err}; to use torch instead: {INSTALL_TORCH}") from err
    return SentenceTransformersEmbedder(settings.embedding_model)


def _onnx(settings: Settings) -> Embedder:
    try:
        from backscroll.connectors.embedding.onnx import OnnxEmbedder
    except ImportError as err:
        raise UnsupportedModelError(
            f"the ONNX backend needs {err.name}: pip install onnx onnxruntime"
        ) from err
    return OnnxEmbedder(
        settings.embedding_model,
        precision=settings.embedding_precision,
        threads=settings.embedding_threads,
    )


def make_fingerprint(settings: Settings, embedder: Embedder | None) -> Fingerprint:
    """The fingerprint of a store written with these settings and this embedder."""
    return Fingerprint(
        tokenizer=TOKENIZER,
        window_tokens=settings.window_tokens,
        chunk_tokens=settings.chunk_tokens,
        chunk_overlap=settings.chunk_overlap,
        analyser=ANALYSER,
        embedder=embedder.fingerprint if embedder else None,
    )
