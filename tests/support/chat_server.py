"""A real HTTP server that speaks chat completions, and misbehaves when told to.

It is no language model: it answers from the schema's name alone, with a fixed answer or with what a
function makes of the request. `behaviours` is a list of what to do with the next requests; when it is
empty the server answers well.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ChatServer:
    """What the server does and saw. Times in seconds."""

    url: str = ""
    delay: float = 0.0
    models: list[str] | None = field(default_factory=lambda: ["tiny"])
    behaviours: list[str] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    arrivals: list[float] = field(default_factory=list)
    answers: dict[str, object] = field(
        default_factory=lambda: {"gaps": {"gaps": []}, "summary": {"summary": "they talked about the ship."}}
    )
    running: int = 0
    most_running: int = 0
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def completion(self, request: dict[str, Any], content: str, finish: str = "stop") -> dict[str, Any]:
        return {
            "id": "c1",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish,
                    "message": {"role": "assistant", "content": content},
                }
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        state = self.server.state
        if state.models is None:
            self.reply(404, {"error": {"message": "no such path"}})
            return
        self.reply(200, {"object": "list", "data": [_model(name) for name in state.models]})

    def do_POST(self) -> None:
        state = self.server.state
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with state.lock:
            state.requests.append(request)
            state.arrivals.append(time.monotonic())
            state.keys.add(self.headers["Authorization"])
            behaviour = state.behaviours.pop(0) if state.behaviours else "answer"
            state.running += 1
            state.most_running = max(state.most_running, state.running)
        try:
            state.released.wait(state.delay)
            self.behave(behaviour, request)
        finally:
            with state.lock:
                state.running -= 1

    def behave(self, behaviour: str, request: dict[str, Any]) -> None:
        state = self.server.state
        stage = request["response_format"]["json_schema"]["name"]
        answer = state.answers[stage]
        good = json.dumps(answer(request) if callable(answer) else answer)
        if behaviour == "answer":
            self.reply(200, state.completion(request, good))
        elif behaviour == "truncated":
            self.reply(200, state.completion(request, good[: len(good) // 2], "length"))
        elif behaviour == "not json":
            self.reply(200, state.completion(request, "Here is your summary: nothing."))
        elif behaviour == "against the schema":
            self.reply(200, state.completion(request, '{"something": "else"}'))
        elif behaviour == "no choices":
            self.reply(200, {**state.completion(request, good), "choices": []})
        elif behaviour.startswith("body "):  # a 200 with any other JSON
            self.reply(200, behaviour.removeprefix("body "))
        elif behaviour == "no completion":
            self.reply(200, "<html>welcome</html>")
        elif behaviour == "hang":
            state.released.wait(60)
            self.close_connection = True
        elif behaviour == "stall":
            body = json.dumps(state.completion(request, good)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            state.released.wait(60)
            self.close_connection = True
        elif behaviour.startswith("429"):
            self.reply(429, {"error": {"message": "slow down"}}, {"Retry-After": behaviour.split()[1]})
        else:
            self.reply(int(behaviour), {"error": {"message": "the prompt was: SECRET TEXT"}})

    def reply(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    state: ChatServer

    def handle_error(self, *_: object) -> None:
        """A client that went away is part of the tests."""


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1, "owned_by": "tests"}


@contextmanager
def chat_server(**options: Any) -> Iterator[ChatServer]:
    """A server on a free loopback port, until the block ends."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.state = ChatServer(url=f"http://127.0.0.1:{server.server_port}", **options)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.state
    finally:
        server.state.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
