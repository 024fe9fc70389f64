"""The pictures of docs/web.md: the sample chats in a real browser, on a desk and on a phone.

    python tests/screenshots.py docs/images

A part of the sample is read first, and the rest after a visit: so there is something new.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from browser import chromium, opened
from commands import BACKSCROLL, run
from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[1]
CHANNEL = "c/acme/harbor-launch"
CARD = "#w-315"
DESK = {"viewport": {"width": 1360, "height": 860}}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "has_touch": True}


@contextmanager
def serving(store: Path) -> Iterator[str]:
    """The address of `backscroll serve` over a store."""
    command = [str(BACKSCROLL), "serve", "--store", str(store), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://\S+", process.stderr.readline())
            assert found is not None
            yield found.group()
        finally:
            process.terminate()


def take(page: Page, path: Path) -> None:
    """A picture once the fonts are there."""
    page.evaluate("document.fonts.ready")
    page.wait_for_load_state("load")
    page.screenshot(path=path)


def gap(page: Page) -> None:
    """Open a phrase that an earlier message explains."""
    page.locator(f"{CARD} .gap:not(.open-gap)").first.click()
    page.locator("#panel .evidence").wait_for()


def main(folder: Path) -> None:
    """Write the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    sample = ROOT / "samples" / "harbor.jsonl"
    with TemporaryDirectory() as temporary, chromium() as browser:
        part, store = Path(temporary) / "part.jsonl", Path(temporary) / "store"
        part.write_text("".join(sample.read_text(encoding="utf-8").splitlines(keepends=True)[:300]))
        run("replay", part, "--store", store, "--out", Path(temporary) / "part.out")
        with serving(store) as address, opened(browser, f"{address}{CHANNEL}", **DESK) as page:
            page.goto(address)  # the visit ends
            run("replay", sample, "--store", store, "--out", Path(temporary) / "all.out")
            page.get_by_text(re.compile(r"\d new")).wait_for()
            take(page, folder / "channels.png")
            page.goto(f"{address}{CHANNEL}")
            gap(page)
            take(page, folder / "gap.png")
            page.goto(f"{address}{CHANNEL}/search?q=who+wanted+the+red+button")
            take(page, folder / "search.png")
            page.goto(f"{address}{CHANNEL}")
            page.emulate_media(color_scheme="dark")
            take(page, folder / "dark.png")
            with opened(browser, f"{address}{CHANNEL}", color_scheme="light", **PHONE) as phone:
                take(phone, folder / "phone.png")
            with opened(browser, f"{address}{CHANNEL}", color_scheme="dark", **PHONE) as phone:
                gap(phone)
                take(phone, folder / "phone-gap.png")


if __name__ == "__main__":
    started = time.monotonic()
    main(Path(sys.argv[1]))
    sys.stderr.write(f"pictures in {sys.argv[1]}, {time.monotonic() - started:.0f} s\n")
