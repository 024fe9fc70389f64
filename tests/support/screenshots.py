"""The pictures of docs/web.md: the sample chats in a real browser, on a desk and on a phone.

    python tests/support/screenshots.py docs/images

A part of the sample is read first, and the rest while the page is open: so there is something new.
Japanese needs a font, such as Debian's fonts-ipafont-gothic.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page

from support.browser import chromium, opened
from support.commands import BACKSCROLL, run

ROOT = Path(__file__).resolve().parents[2]
CHANNEL = "c/acme/harbor-launch"
CAUGHT_UP = "catchup?since=3d&until=latest&me=Bram&channel=harbor-launch"
OTHERS = ("sommerkonzert.jsonl", "placas-solares.jsonl", "honya-app.jsonl")
CARD = "#w-315"
DESK = {"viewport": {"width": 1360, "height": 860}}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 1.5, "has_touch": True}


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


def flushed(path: Path, lines: int | None = None) -> str:
    """The first messages of a sample, or all, and what closes its window: so that a store has it whole."""
    messages = path.read_text(encoding="utf-8").splitlines()[:lines]
    last = json.loads(messages[-1])
    flush = {"op": "flush", **{name: last[name] for name in ("namespace", "channel", "ts")}}
    return "\n".join([*messages, json.dumps(flush)]) + "\n"


def main(folder: Path) -> None:
    """Write the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    samples = ROOT / "samples"
    with TemporaryDirectory() as temporary, chromium() as browser:
        store, read = Path(temporary) / "store", Path(temporary) / "read.jsonl"

        def replay(*texts: str) -> None:
            read.write_text("".join(texts), encoding="utf-8")
            run("replay", read, "--store", store, "--out", Path(temporary) / "out.jsonl")

        harbor = (samples / "harbor.jsonl").read_text(encoding="utf-8")
        replay("".join(harbor.splitlines(keepends=True)[:300]), *(flushed(samples / name) for name in OTHERS))
        with serving(store) as address, opened(browser, f"{address}{CHANNEL}", **DESK) as page:
            page.goto(f"{address}c/kantorei/sommerkonzert")
            page.goto(address)  # the visit ends
            replay(harbor)
            page.get_by_text(re.compile(r"\d new")).wait_for()
            take(page, folder / "channels.png")
            page.goto(f"{address}{CHANNEL}")
            gap(page)
            take(page, folder / "gap.png")
            page.goto(f"{address}{CAUGHT_UP}")
            take(page, folder / "catchup.png")
            page.goto(f"{address}catchup?since=2026-06-01&me=%E4%BD%90%E8%97%A4&channel=honya-app")
            take(page, folder / "catchup-ja.png")
            page.goto(f"{address}{CHANNEL}/search?q=who+wanted+the+red+button")
            take(page, folder / "search.png")
            page.emulate_media(color_scheme="dark")
            page.goto(f"{address}{CAUGHT_UP}")
            page.locator(".item .open").nth(1).click()
            page.locator("#panel .chosen").wait_for()
            take(page, folder / "dark.png")
            for name, where, colours in (
                ("phone", CHANNEL, "light"),
                ("phone-catchup", CAUGHT_UP, "light"),
                ("phone-gap", CHANNEL, "dark"),
            ):
                with opened(browser, f"{address}{where}", color_scheme=colours, **PHONE) as phone:
                    if name == "phone-gap":
                        gap(phone)
                    take(phone, folder / f"{name}.png")


if __name__ == "__main__":
    started = time.monotonic()
    main(Path(sys.argv[1]))
    sys.stderr.write(f"pictures in {sys.argv[1]}, {time.monotonic() - started:.0f} s\n")
