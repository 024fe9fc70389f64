"""`backscroll serve`: a web page and a JSON API for a store."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING

from rich.console import Console

from backscroll.connectors.lancedb.reader import StoreReader, recorded_fingerprint
from backscroll.flows.assembly.embedder import make_embedder, make_fingerprint, packaged_vectors
from backscroll.flows.assembly.language_model import open_model
from backscroll.flows.commands.catchup import digest_channels, make_recalling
from backscroll.flows.settings.settings import Settings
from backscroll.flows.settings.time_zones import shown_zone
from backscroll.flows.terminal.errors import UserError, report_user_errors
from backscroll.operators.catchup.digest import ChannelDigest, ChannelRead
from backscroll.operators.catchup.people import Person
from backscroll.operators.catchup.period import Period
from backscroll.operators.index.embedder import Embedder, OneAtATime
from backscroll.operators.llm.protocol import LLMSetupError, LLMUnavailable

if TYPE_CHECKING:
    from backscroll.web.catchup import CatchUp
    from backscroll.web.library import Library

__all__ = ["make_catch_up", "run_serve"]

_LOG = logging.getLogger("backscroll")


def run_serve(settings: Settings) -> int:
    """Serve until interrupted; returns the exit code.

    Raises:
        click.ClickException: a user error, shown as one line.
    """
    try:
        import uvicorn

        from backscroll.web.access import AccessError, read_access
        from backscroll.web.app import create_app
    except ImportError as err:
        raise UserError(f"serve needs {err.name}: pip install 'backscroll[serve]'") from err
    if settings.store is None:
        raise UserError("serve needs --store, the store to show")
    if settings.web_access is None and not _is_local(settings.web_host):
        raise UserError(
            f"--host {settings.web_host} can be reached from other machines: "
            "list who may read what in an --access file, or use 127.0.0.1"
        )
    try:
        access = None if settings.web_access is None else read_access(settings.web_access)
    except AccessError as err:
        raise UserError(str(err)) from err
    with report_user_errors(), closing(_listen(settings.web_host, settings.web_port)) as listening:
        _check_model(settings)
        library, embedder = _open(settings)
        app = create_app(library, access, make_catch_up(settings, library, embedder))
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,  # URLs contain channel names and search terms
            proxy_headers=False,  # the access file trusts the proxy by its own address
            server_header=False,
            timeout_graceful_shutdown=5,
        )
        server = uvicorn.Server(config)
        app.state.watch.stopping = lambda: server.should_exit
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        said = f"serving {settings.store} at http://{shown}:{port}/"
        Console(stderr=True, highlight=False).print(said, markup=False, soft_wrap=True)
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:  # uvicorn raises the signal again after it has stopped
            return 130
    return 0


def make_catch_up(
    settings: Settings,
    library: Library,
    embedder: Embedder | None,
    *,
    now: Callable[[], datetime] | None = None,
) -> CatchUp:
    """Catch-ups as made by `backscroll catchup`, over a library shared by several threads."""
    from backscroll.web.catchup import CatchUp

    zone, zone_name = shown_zone(settings.tz)
    recalling = make_recalling(settings, embedder)
    recalling = replace(recalling, strategy=library.alone(recalling.strategy))
    embed = packaged_vectors(settings, embedder)

    def digest(
        channels: Sequence[ChannelRead], found: Period, *, me: Person | None, max_tokens: int
    ) -> list[ChannelDigest]:
        made = partial(
            digest_channels,
            channels,
            found,
            recalling=recalling,
            me=me,
            max_tokens=max_tokens,
            zone=zone,
            embed=embed,
        )
        try:
            return made(settings)
        except LLMSetupError as err:
            _LOG.warning("%s: rules write this catch-up", err.__cause__ or err)
            return [replace(one, degraded="catchup: connection") for one in made(_without_model(settings))]

    return CatchUp(library, digest, zone, zone_name, now=now)


def _without_model(settings: Settings) -> Settings:
    return settings.model_copy(update={"llm": None})


def _check_model(settings: Settings) -> None:
    """Report at startup that a model cannot be used; one that is only unavailable may come back."""
    if settings.llm is None:
        return
    if settings.llm.startswith("vllm:"):
        raise UserError("serve cannot load a model itself: set --llm to the URL of a server")
    try:
        chosen = open_model(settings, ("--summary-model",) * 2)
    except LLMSetupError as err:
        if not isinstance(err.__cause__, LLMUnavailable):
            raise
        _LOG.warning("%s: rules write catch-ups until it answers", err.__cause__)
        return
    if chosen.aclose is not None:
        asyncio.run(_close(chosen.aclose))


async def _close(aclose: Callable[[], Awaitable[None]]) -> None:
    await aclose()


def _open(settings: Settings) -> tuple[Library, Embedder | None]:
    from backscroll.web.library import Library

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
    store = StoreReader(
        settings.store,
        wanted,
        embedder.dimensions if embedder else None,
        exact_chunks=settings.exact_chunks,
    )
    shared = OneAtATime(embedder) if embedder else None
    zone, _ = shown_zone(settings.tz)
    ceiling = settings.history_mb << 20
    return Library(store, shared, settings.strategy, zone=zone, ceiling=ceiling), shared


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
        raise UserError(
            f"cannot listen on {host}:{port}: {err.strerror or err}: choose another --port"
        ) from err
