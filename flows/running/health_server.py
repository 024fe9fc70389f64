"""Serves `/livez`, `/readyz` and `/metrics` on a separate port, for probes and Prometheus."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from backscroll.flows.running.health import Verdict
from backscroll.flows.terminal.errors import UserError

__all__ = ["serve"]

_PLAIN = "text/plain; charset=utf-8"


class _Server(ThreadingMixIn, TCPServer):
    allow_reuse_address = daemon_threads = True
    verdicts: Mapping[str, Callable[[], Verdict]]
    registry: CollectorRegistry

    def handle_error(self, *_: object) -> None:
        """Do not report clients that disconnected."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "backscroll", ""
    timeout = 5  # seconds for a client to send its request

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, kind = choose_encoder(self.headers.get("Accept", ""))
            self._answer(HTTPStatus.OK, encode(self.server.registry), kind)
        elif path in self.server.verdicts:
            verdict = self.server.verdicts[path]()
            status = HTTPStatus.OK if verdict.good else HTTPStatus.SERVICE_UNAVAILABLE
            self._answer(status, f"{'ok' if verdict.good else 'not ok'}: {verdict.why}\n".encode(), _PLAIN)
        else:
            pages = ", ".join([*self.server.verdicts, "/metrics"])
            self._answer(HTTPStatus.NOT_FOUND, f"not found: use {pages}\n".encode(), _PLAIN)

    do_HEAD = do_GET

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: probes arrive every few seconds."""


@contextmanager
def serve(
    host: str, port: int, verdicts: Mapping[str, Callable[[], Verdict]], registry: CollectorRegistry
) -> Iterator[None]:
    """Serve the verdicts by path, and the registry at `/metrics`, while the context is open.

    Raises:
        UserError: the port cannot be used.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        server = type("_Server", (_Server,), {"address_family": family})((host, port), _Handler)
    except OSError as err:
        why = err.strerror or str(err)
        raise UserError(
            f"http_port: {host}:{port} cannot be used: {why}: set another port, or 0 for none"
        ) from err
    server.verdicts, server.registry = verdicts, registry
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="backscroll-http", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
