"""Sentence embeddings from a server with an OpenAI-compatible `/v1/embeddings`.

These are vLLM (`vllm serve MODEL --runner pooling`), llama.cpp (`llama-server --embeddings --pooling ...`)
and hosted services. The client retries temporary failures (no connection, time-outs, 408, 409, 429 with
Retry-After, 5xx) with exponential back-off and jitter.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import openai
from numpy.typing import NDArray

from backscroll.connectors.embedding.packaged import EmbedderError
from backscroll.connectors.llm.openai import base_url
from backscroll.operators.index.embedder import Vectors

__all__ = ["DEFAULT_QUERY_TASK", "OpenAIEmbedder"]

DEFAULT_QUERY_TASK = (
    "Given what an utterance in a group chat takes for granted, "
    "retrieve the earlier chat messages that state it"
)
_INSTRUCTED = re.compile(r"qwen3[\W_]*embedding", re.IGNORECASE)
_SHORT = 512  # characters, which fit any embedding model
_TOO_LARGE = (400, 413, 422)


class OpenAIEmbedder:
    """Unit vectors from an embedding server.

    A text that is too long for the server is cut in half until the server accepts it, much as a local model
    truncates its input.

    Args:
        url: the server's URL, with or without `/v1`.
        model: the model's name; None if the server offers only one.
        api_key: sent as a bearer token; servers without access control ignore it.
        query_instruction: a sentence that tells the model what queries look for, sent with each query as
            `Instruct: ...`; None for the model's default (models named like Qwen3-Embedding have one),
            empty to send plain queries.
        timeout: seconds without data before an attempt fails.
        batch: the largest number of texts in one request.
        max_retries: attempts after the first.

    Raises:
        EmbedderError: the server cannot be used; the message says how to fix it.
    """

    def __init__(
        self,
        *,
        url: str,
        model: str | None = None,
        api_key: str | None = None,
        query_instruction: str | None = None,
        timeout: float = 60.0,
        batch: int = 64,
        max_retries: int = 5,
    ) -> None:
        self._where = _shown(url)
        self._timeout = timeout
        self._batch = batch
        self._client = openai.OpenAI(
            base_url=base_url(url),
            api_key=api_key or "none",
            timeout=openai.Timeout(timeout, connect=min(timeout, 5.0)),
            max_retries=min(max_retries, 2),  # at the start, report a wrong URL soon
        )
        self.name = model or ""
        self.name = model or self._only_model()
        if query_instruction is None and _INSTRUCTED.search(self.name):
            query_instruction = DEFAULT_QUERY_TASK
        self._query_instruction = query_instruction or None
        self.dimensions = 0  # not known until the first answer
        self.dimensions = self._embed(["How long is a vector?"]).shape[1]
        self._client = self._client.with_options(max_retries=max_retries)
        vectors_depend_on = repr((self.name, self.dimensions, self._query_instruction))
        digest = hashlib.sha256(f"openai {vectors_depend_on}".encode()).hexdigest()
        slug = re.sub(r"[^A-Za-z0-9]+", "-", Path(self.name).name).strip("-")[:48].rstrip("-")
        self.fingerprint = f"{slug or 'model'}-{digest[:8]}"

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of stored texts, float32 `[texts, dimensions]`.

        Raises:
            EmbedderError: the server still fails after retries, or its answer is malformed.
        """
        return self._embed(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of queries, sent with the query instruction if there is one.

        Raises:
            EmbedderError: as `embed_passages`.
        """
        if self._query_instruction is None:
            return self._embed(texts)
        return self._embed([f"Instruct: {self._query_instruction}\nQuery:{text}" for text in texts])

    def close(self) -> None:
        """Close the connections to the server."""
        self._client.close()

    def _embed(self, texts: Sequence[str]) -> Vectors:
        vectors = [np.zeros((0, self.dimensions), dtype=np.float32)] if self.dimensions else []
        for start in range(0, len(texts), self._batch):
            part = texts[start : start + self._batch]
            vectors.append(self._unit(self._request(part), len(part)))
        return np.concatenate(vectors)

    def _request(self, texts: Sequence[str]) -> bytes:
        """The body of the response to one request; texts that are too long for the server are cut."""
        # A lone surrogate is not valid UTF-8, and a server may reject an empty text.
        sent = [text.encode("utf-8", "replace").decode() or " " for text in texts]
        longest = max(len(text) for text in sent)
        while True:
            try:
                return self._client.embeddings.with_raw_response.create(
                    model=self.name, input=sent, encoding_format="float"
                ).content
            except (openai.OpenAIError, ValueError) as err:
                # Raised below, outside this block: the server's error may quote the texts, so it
                # must not become the context of ours.
                problem = None if longest > _SHORT and _finds_too_long(err) else self._explained(err)
            if problem is not None:
                raise EmbedderError(problem)
            longest //= 2
            sent = [text[:longest] for text in sent]

    def _unit(self, body: bytes, texts: int) -> Vectors:
        """The vectors in a response, in the order of the texts, each scaled to unit length."""
        rows = _rows(body)
        if rows is None:
            raise self._wrong("has no embeddings: check that the URL is an OpenAI-compatible /v1")
        if sorted(index for index, _ in rows) != list(range(texts)):
            raise self._wrong(f"has {len(rows)} vectors for {texts} texts, or repeats an index")
        by_index = dict(rows)
        lengths = sorted({len(row) for row in by_index.values()})
        if lengths != [self.dimensions or lengths[0]]:
            found, right = " and ".join(map(str, lengths)), self.dimensions or "of one length"
            raise self._wrong(f"has vectors with {found} dimensions, not {right}")
        vectors = np.stack([by_index[index] for index in range(texts)])
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(norms) & (norms > 0)).all():
            raise self._wrong("has a vector that is zero or not finite: see the server's log")
        return np.asarray(vectors / norms, dtype=np.float32)

    def _only_model(self) -> str:
        problem = None
        try:
            models = self._models()
        except (openai.OpenAIError, ValueError, TypeError, AttributeError) as err:
            problem = f"{self._explained(err)}; if the server does not list its models, set embedding_model"
        if problem is not None:
            raise EmbedderError(problem)
        if len(models) != 1:
            raise EmbedderError(
                f"embedding server {self._where} offers {_listed(models)}: set embedding_model to one of them"
            )
        return models[0]

    def _models(self, **options: Any) -> list[str]:
        return [model.id for model in self._client.with_options(**options).models.list()]

    def _wrong(self, what: str) -> EmbedderError:
        return EmbedderError(f"embedding server {self._where}: the answer of {self.name!r} {what}")

    def _explained(self, err: Exception) -> str:
        """Our own error message; leaves out the server's text, which may quote the chat."""
        server = f"embedding server {self._where}"
        attempts = f"{self._client.max_retries + 1} attempts"
        if isinstance(err, openai.APITimeoutError):
            return f"{server} did not answer within {self._timeout:g} s ({attempts}): check its load"
        if isinstance(err, openai.APIConnectionError):
            return f"{server} cannot be reached: check the embedding URL and that the server is running"
        if not isinstance(err, openai.APIStatusError):
            return f"{server}: cannot send the request ({type(err).__name__}): check the URL and the API key"
        status = err.status_code
        if status in (401, 403):
            return f"{server} rejected the API key ({status}): set BACKSCROLL_EMBEDDING_API_KEY"
        if status == 404:
            return f"{server} does not know {self._asked_for()} (404): it offers {self._offered()}"
        if status in (405, 501):
            start = "start vLLM with --runner pooling, llama.cpp with --embeddings"
            return f"{server} does not serve embeddings ({status}): {start}"
        if status == 429:
            return f"{server} is overloaded (429, {attempts}): try again later"
        if status >= 500:
            return f"{server} failed ({status}, {attempts}): see its log"
        return (
            f"{server} rejected the request ({status}): check that {self._asked_for()} is an embedding model"
        )

    def _asked_for(self) -> str:
        return f"model {self.name!r}" if self.name else "/v1/models"

    def _offered(self) -> str:
        try:
            return _listed(self._models(max_retries=0))
        except (openai.OpenAIError, ValueError, TypeError, AttributeError):
            return "no list of models; also check the URL"


def _rows(body: bytes) -> list[tuple[int, NDArray[np.float64]]] | None:
    """Index and vector of each embedding in a response, in its order; None if the response is malformed."""
    try:
        data = json.loads(body)["data"]
        rows = [(int(item["index"]), np.asarray(item["embedding"], dtype=np.float64)) for item in data]
    except (ValueError, TypeError, LookupError):
        return None
    return rows if all(vector.ndim == 1 for _, vector in rows) else None


def _shown(url: str) -> str:
    """The URL without credentials, for error messages."""
    try:
        parts = urlsplit(url)
        host = parts.hostname and f"{parts.hostname}{'' if parts.port is None else f':{parts.port}'}"
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise EmbedderError("the embedding URL is invalid: expected one like http://127.0.0.1:8000/v1")
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}"


def _listed(models: Sequence[str]) -> str:
    shown = ", ".join(repr(model) for model in models[:8])
    return f"{len(models)} models: {shown}, ..." if len(models) > 8 else shown or "no model"


def _finds_too_long(err: Exception) -> bool:
    """Whether a text was too long: the model answered before, so a rejected request means that."""
    if not isinstance(err, openai.APIStatusError):
        return False
    # llama.cpp: "input (5001 tokens) is too large to process", as an error of its own
    return err.status_code in _TOO_LARGE or (err.status_code == 500 and "too large" in str(err.body))
