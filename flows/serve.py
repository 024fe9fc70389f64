"""Show a store as a page and a JSON API, as a command."""

from __future__ import annotations

import socket
from contextlib import closing
from ipaddress import ip_address
from typing import TYPE_CHECKING

from rich.console import Console

from connectors.lancedb_reading import StoreReader, recorded_fingerprint
from flows.embedding import make_embedder, make_fingerprint
from flows.mistakes import Mistake, in_one_line
from flows.settings import Settings
from operators.dense import OneAtATime

if TYPE_CHECKING:
    from web.library import Library

__all__ = ["run_serve"]


def run_serve(settings: Settings) -> int:
    """Serve until interrupted; returns the exit code.

    Raises:
        click.ClickException: something is the user's to mend; one line.
    """
    try:
        import uvicorn

        from web.access import AccessError, read_access
        from web.app import create_app
    except ImportError as err:
        raise Mistake(f"serve needs {err.name}: pip install 'backscroll[serve]'") from err
    if settings.store is None:
        raise Mistake("serve needs a --store to show")
    if settings.web_access is None and not _is_local(settings.web_host):
        raise Mistake(
            f"--host {settings.web_host} can be reached from other machines: "
            "name who may read what in an --access FILE, or leave it at 127.0.0.1"
        )
    try:
        access = None if settings.web_access is None else read_access(settings.web_access)
    except AccessError as err:
        raise Mistake(str(err)) from err
    with in_one_line(), closing(_listen(settings.web_host, settings.web_port)) as listening:
        app = create_app(_open(settings), access)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,  # addresses name channels and what was searched for
            proxy_headers=False,  # the proxy is known by its own address
            server_header=False,
            timeout_graceful_shutdown=5,
        )
        server = uvicorn.Server(config)
        app.state.watch.stopping = lambda: server.should_exit
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        Console(stderr=True, highlight=False).print(f"serving {settings.store} at http://{shown}:{port}/")
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:  # uvicorn hands the signal on once it has stopped
            return 130
    return 0


def _open(settings: Settings) -> Library:
    from web.library import Library

    assert settings.store is not None
    found = recorded_fingerprint(settings.store, make_fingerprint(settings, None))
    embedder = make_embedder(settings) if found.embedder else None
    ours = make_fingerprint(settings, embedder)
    wanted = type(found)(
        tokenizer=ours.tokenizer,
        analyser=ours.analyser,
        window_tokens=found.window_tokens,
        chunk_tokens=found.chunk_tokens,
        chunk_overlap=found.chunk_overlap,
        embedder=ours.embedder if embedder else found.embedder,
    )
    store = StoreReader(settings.store, wanted, embedder.dimensions if embedder else None)
    return Library(store, OneAtATime(embedder) if embedder else None, settings.strategy)


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as err:
        raise Mistake(
            f"cannot listen on {host}:{port}: {err.strerror or err}: choose another --port"
        ) from err
