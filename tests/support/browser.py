"""Debian's Chromium, without a window, and pages in it that note whatever goes wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["chromium", "opened"]

_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; the test is skipped where none is installed."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs Debian's chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_QUIET)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """A page of a new visitor; it has to write no error and to ask no other host for anything."""
    here = "/".join(address.split("/")[:3]) + "/"
    context = browser.new_context(**{"reduced_motion": "reduce", **options})
    context.set_default_timeout(10_000)
    page, wrong = context.new_page(), list[str]()
    page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda err: wrong.append(str(err)))
    page.on("request", lambda asked: None if asked.url.startswith(here) else wrong.append(asked.url))
    try:
        page.goto(address)
        yield page
    finally:
        context.close()
    assert wrong == []
