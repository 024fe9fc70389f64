"""Sentence embeddings from a server with an OpenAI-compatible `/v1/embeddings`.

vLLM (`vllm serve MODEL --runner pooling`), llama.cpp (`llama-server --embeddings --pooling ...`) and
hosted services speak it. The client retries what may pass (no connection, time-outs, 408, 409, 429
with Retry-After, 5xx) with exponential back-off and jitter.
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


_SHORT = 512  # characters that any embedding model reads


_TOO_LARGE = (400, 413, 422)


class OpenAIEmbedder:
    """Unit vectors from an embedding server.

    A text that the server finds too long is cut, to half its length until the server takes it, as
    a local model would cut it to what it reads. A longer stall than `timeout` ends an attempt.

    Args:
        url: where the server is, with or without `/v1`.
        model: the model's name there; None for the only one that the server offers.
        api_key: sent as a bearer token; servers without access control ignore it.
        query_instruction: one sentence that tells the model what queries look for, sent with each as
            `Instruct: ...`; None for the default of the model (models named like Qwen3-Embedding have
            one), empty for queries as they are.
        timeout: seconds without a byte before an attempt is given up.
        batch: most texts in one request.
        max_retries: further attempts after the first.

    Raises:
        EmbedderError: the server cannot be used; the text says what would be right.
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
            max_retries=min(max_retries, 2),  # who starts with a wrong URL is told soon
        )
        self.name = model or ""
        self.name = model or self._only_model()
        if query_instruction is None and _INSTRUCTED.search(self.name):
            query_instruction = DEFAULT_QUERY_TASK
        self._query_instruction = query_instruction or None
        self.dimensions = 0  # any, until the first answer tells
        self.dimensions = self._embed(["How long is a vector?"]).shape[1]
        self._client = self._client.with_options(max_retries=max_retries)
        vectors_depend_on = repr((self.name, self.dimensions, self._query_instruction))
        digest = hashlib.sha256(f"openai {vectors_depend_on}".encode()).hexdigest()
        slug = re.sub(r"[^A-Za-z0-9]+", "-", Path(self.name).name).strip("-")[:48].rstrip("-")
        self.fingerprint = f"{slug or 'model'}-{digest[:8]}"

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of stored texts, float32 `[texts, dimensions]`.

        Raises:
            EmbedderError: the server fails, after retries, or its answer is not what was asked for.
        """
        return self._embed(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of queries, under the query instruction where there is one.

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
        """The body of the answer to one request; texts that are too long for the server are cut."""
        # A server must not see half a surrogate pair, which is not UTF-8, and may refuse an empty text.
        sent = [text.encode("utf-8", "replace").decode() or " " for text in texts]
        longest = max(len(text) for text in sent)
        while True:
            try:
                return self._client.embeddings.with_raw_response.create(
                    model=self.name, input=sent, encoding_format="float"
                ).content
            except (openai.OpenAIError, ValueError) as err:
                # Raised below, outside of this block: a server's error may quote the texts, and so
                # it must not hang on to ours as its context.
                problem = None if longest > _SHORT and _finds_too_long(err) else self._explained(err)
            if problem is not None:
                raise EmbedderError(problem)
            longest //= 2
            sent = [text[:longest] for text in sent]

    def _unit(self, body: bytes, texts: int) -> Vectors:
        """The vectors of an answer in the order of the texts, each of length one."""
        rows = _rows(body)
        if rows is None:
            raise self._wrong("holds no embeddings: is it an OpenAI-compatible /v1 URL?")
        if sorted(index for index, _ in rows) != list(range(texts)):
            raise self._wrong(f"has {len(rows)} vectors for {texts} texts, or twice the same index")
        by_index = dict(rows)
        lengths = sorted({len(row) for row in by_index.values()})
        if lengths != [self.dimensions or lengths[0]]:
            found, right = " and ".join(map(str, lengths)), self.dimensions or "of one length"
            raise self._wrong(f"has vectors of {found} numbers, not {right}")
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
            problem = f"{self._explained(err)}; if it does not list its models, name the embedding model"
        if problem is not None:
            raise EmbedderError(problem)
        if len(models) != 1:
            raise EmbedderError(
                f"embedding server {self._where} offers {_listed(models)}: name one as the embedding model"
            )
        return models[0]

    def _models(self, **options: Any) -> list[str]:
        return [model.id for model in self._client.with_options(**options).models.list()]

    def _wrong(self, what: str) -> EmbedderError:
        return EmbedderError(f"embedding server {self._where}: the answer of {self.name!r} {what}")

    def _explained(self, err: Exception) -> str:
        """The failure in our words: a server's own text may quote the chat, so it is left out."""
        server = f"embedding server {self._where}"
        times = f"{self._client.max_retries + 1} times"
        if isinstance(err, openai.APITimeoutError):
            return f"{server} gave no answer in {self._timeout:g} s, {times}: see if it is overloaded"
        if isinstance(err, openai.APIConnectionError):
            return f"{server} cannot be reached: check the embedding URL and that the server runs"
        if not isinstance(err, openai.APIStatusError):
            return f"{server} was not asked ({type(err).__name__}): check the URL and the API key"
        status = err.status_code
        if status in (401, 403):
            return f"{server} refuses the API key ({status}): set BACKSCROLL_EMBEDDING_API_KEY"
        if status == 404:
            return f"{server} does not know {self._asked_for()} (404): it offers {self._offered()}"
        if status in (405, 501):
            start = "start vLLM with --runner pooling, llama.cpp with --embeddings"
            return f"{server} serves no embeddings ({status}): {start}"
        if status == 429:
            return f"{server} is overloaded (429), {times}: try again later"
        if status >= 500:
            return f"{server} failed ({status}), {times}: see its log"
        return f"{server} refused the request ({status}): make sure that {self._asked_for()} embeds texts"

    def _asked_for(self) -> str:
        return f"model {self.name!r}" if self.name else "/v1/models"

    def _offered(self) -> str:
        try:
            return _listed(self._models(max_retries=0))
        except (openai.OpenAIError, ValueError, TypeError, AttributeError):
            return "no list of models; check the URL, too"


def _rows(body: bytes) -> list[tuple[int, NDArray[np.float64]]] | None:
    """Index and vector of every embedding in an answer, as they stand; None where it is no such answer."""
    try:
        data = json.loads(body)["data"]
        rows = [(int(item["index"]), np.asarray(item["embedding"], dtype=np.float64)) for item in data]
    except (ValueError, TypeError, LookupError):
        return None
    return rows if all(vector.ndim == 1 for _, vector in rows) else None


def _shown(url: str) -> str:
    """The URL as errors show it, without credentials."""
    try:
        parts = urlsplit(url)
        host = parts.hostname and f"{parts.hostname}{'' if parts.port is None else f':{parts.port}'}"
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise EmbedderError("the embedding URL is not one: it must look like http://127.0.0.1:8000/v1")
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}"


def _listed(models: Sequence[str]) -> str:
    shown = ", ".join(repr(model) for model in models[:8])
    return f"{len(models)} models: {shown}, ..." if len(models) > 8 else shown or "no model"


def _finds_too_long(err: Exception) -> bool:
    """A model was probed before, so a request that is refused now holds a text that is too long."""
    if not isinstance(err, openai.APIStatusError):
        return False
    # llama.cpp: "input (5001 tokens) is too large to process", as an error of its own
    return err.status_code in _TOO_LARGE or (err.status_code == 500 and "too large" in str(err.body))
