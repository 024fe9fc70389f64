"""The web application: its routes, security headers and one-line errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from fastapi import FastAPI, Form, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from backscroll.operators.catchup.period import PeriodError
from backscroll.operators.history.store import HistoryError
from backscroll.web import api
from backscroll.web.access import COOKIE, Access, UnknownUserError
from backscroll.web.catchup import BusyError, CatchUp
from backscroll.web.events import StoreWatcher
from backscroll.web.library import Library
from backscroll.web.pages import channels, messages, search
from backscroll.web.rendering import templates

__all__ = ["create_app"]

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "font-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # addresses name channels
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_LOCAL = ["127.0.0.1", "localhost", "[::1]"]
_THIRTY_DAYS = 30 * 24 * 3600


def create_app(
    library: Library, access: Access | None, catch_up: CatchUp, *, poll_seconds: float = 1.0
) -> FastAPI:
    """The web pages and the JSON API of a library.

    Args:
        library: the store to show.
        access: who may read what; None to show everything to anyone on this machine.
        catch_up: makes the catch-ups.
        poll_seconds: how often the store is checked for news, in seconds.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with app.state.watch.running():
            yield

    app = FastAPI(
        title="Backscroll",
        summary="Chat summaries you can read without scrolling back.",
        version=version("backscroll"),
        lifespan=lifespan,
        docs_url=None,  # its page loads scripts from another host
        redoc_url=None,
    )
    app.state.library, app.state.access, app.state.catch_up = library, access, catch_up
    app.state.watch = StoreWatcher(library.store, poll_seconds)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    for part in (api, channels, search, messages):
        app.include_router(part.router)
    _add_login_routes(app)
    _explain_errors(app)
    app.middleware("http")(_with_headers)
    if access is None:  # protects against DNS rebinding by another site
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=_LOCAL)
    return app


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers.update(_HEADERS)
    cache = "max-age=3600" if request.url.path.startswith("/static/") else "no-store"
    response.headers["Cache-Control"] = cache
    return response


def _add_login_routes(app: FastAPI) -> None:
    @app.get("/healthz", include_in_schema=False)
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/login", include_in_schema=False)
    def login(request: Request, next: str = "/") -> Response:
        context = {"next": _local_address(next), "wrong": False}
        return templates.TemplateResponse(request, "login.html", context)

    @app.post("/login", include_in_schema=False)
    def enter(
        request: Request, token: Annotated[str, Form()] = "", next: Annotated[str, Form()] = "/"
    ) -> Response:
        access: Access | None = app.state.access
        if access is None or access.by_token(token.strip()) is None:
            context = {"next": _local_address(next), "wrong": True}
            return templates.TemplateResponse(request, "login.html", context, status_code=401)
        response = RedirectResponse(_local_address(next), status_code=303)
        response.set_cookie(
            COOKIE,
            token.strip(),
            max_age=_THIRTY_DAYS,
            httponly=True,
            samesite="strict",
            secure=_is_https(request, access),
        )
        return response

    @app.post("/logout", include_in_schema=False)
    def leave() -> Response:
        response = RedirectResponse("/login", status_code=303)
        response.delete_cookie(COOKIE)
        return response


def _local_address(address: str) -> str:
    """The address if it is on this site, else the home page."""
    here = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if here and address.isprintable() else "/"


def _is_https(request: Request, access: Access) -> bool:
    peer = request.client.host if request.client else ""
    forwarded = request.headers.get("X-Forwarded-Proto") == "https" and access.is_proxy(peer)
    return request.url.scheme == "https" or forwarded


def _explain_errors(app: FastAPI) -> None:
    @app.exception_handler(UnknownUserError)
    def unknown(request: Request, _: UnknownUserError) -> Response:
        access: Access = app.state.access
        if not _is_api(request) and request.method == "GET" and access.tokens:
            query = f"?{request.url.query}" if request.url.query else ""
            return RedirectResponse(
                f"/login?next={quote(request.url.path + query, safe='')}", status_code=303
            )
        refused = _error(request, 401, "not signed in: send a bearer token, or sign in through the proxy")
        refused.headers["WWW-Authenticate"] = "Bearer"
        return refused

    @app.exception_handler(StarletteHTTPException)
    def refused(request: Request, err: HTTPException) -> Response:
        return _error(request, err.status_code, str(err.detail))

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, err: RequestValidationError) -> Response:
        first = err.errors()[0]
        return _error(request, 400, f"{first['loc'][-1]}: {first['msg']}")

    @app.exception_handler(PeriodError)
    def bad_period(request: Request, err: PeriodError) -> Response:
        return _error(request, 400, str(err))

    @app.exception_handler(BusyError)
    def busy(request: Request, err: BusyError) -> Response:
        return _error(request, 503, str(err))

    @app.exception_handler(HistoryError)
    def unreadable(request: Request, _: HistoryError) -> Response:
        return _error(request, 503, "the store cannot be read at the moment: try again shortly")


def _is_api(request: Request) -> bool:
    return request.url.path.startswith(("/api/", "/openapi.json"))


def _error(request: Request, status: int, line: str) -> Response:
    if _is_api(request):
        return JSONResponse({"detail": line}, status)
    fragment = request.headers.get("HX-Target") == "panel"
    context = {"line": line, "status": status, "fragment": fragment, "searched": "/search"}
    return templates.TemplateResponse(request, "error.html", context, status_code=status)
