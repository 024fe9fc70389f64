"""A store to be read, written as the engine writes it, and a server over it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from backscroll.connectors.lancedb.reader import StoreReader
from backscroll.connectors.lancedb.store import Fingerprint, LanceStore
from backscroll.flows.commands.serve import make_catch_up
from backscroll.flows.settings.settings import Settings
from backscroll.flows.settings.time_zones import shown_zone
from backscroll.operators.gaps.gap import Gap
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.store import StoredSummary
from backscroll.operators.memory.request import MemoryTurn
from backscroll.operators.messages import ChannelKey, Turn
from backscroll.operators.stream.windows import Window, WindowRef
from backscroll.operators.summary.evidence import Evidence
from backscroll.operators.summary.extractive import ExtractiveSummarizer
from backscroll.operators.summary.record import GapEntry, MemoryEntry, Summary, WindowEntry, summary_id
from backscroll.web.access import Access
from backscroll.web.app import create_app
from backscroll.web.library import Library
from support.building import HashingEmbedder, recorded, turn

HARBOR, LAB, SECRET = (
    ChannelKey("acme", "harbor"),
    ChannelKey("acme", "lab/2 100%"),
    ChannelKey("other", "plans"),
)
MARKUP = '<script>document.title = "broken"</script> <img src=x onerror=alert(1)> "quoted" & more.'
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
"""The time at which the pages are read, months after the chat."""
FINGERPRINT = Fingerprint("cl100k_base", 1024, 128, 32, "words", HashingEmbedder.fingerprint)
Said = tuple[str, str]
"""An author and a text."""


class Chat:
    """Writes channels into a store, window by window."""

    def __init__(self, path: Path, store: LanceStore) -> None:
        self.path = path
        self.store = store
        self._windows: dict[ChannelKey, list[Window]] = {}

    def window(
        self,
        key: ChannelKey,
        *said: Said,
        gap: tuple[int, str, int] | None = None,
        day: int = 0,
        text: str | None = None,
        summarised: bool = True,
        unsupported: Sequence[str] = (),
    ) -> Window:
        """Record a window, and its summary.

        Args:
            key: the channel.
            said: the messages.
            gap: a message by its place in the window, the phrase in it, and the turn that explains it.
            day: days after the first of the chat.
            text: an abstractive summary in place of the extractive one.
            summarised: whether there is a summary.
            unsupported: spans of the summary.
        """
        before = self._windows.setdefault(key, [])
        first = before[-1].ref.last_seq + 1 if before else 0
        turns = tuple(
            turn(first + at, words, author, day * 24 * 60 + first + at, id_=f"{key.channel[0]}{first + at}")
            for at, (author, words) in enumerate(said)
        )
        ref = WindowRef(key, len(before), first, first + len(turns) - 1)
        window = Window(ref, turns)
        before.append(window)
        self.store.append([recorded(window, HashingEmbedder(), Chunker())])
        if summarised:
            self.summarise(key, window, gap=gap, text=text, unsupported=unsupported)
        return window

    def summarise(
        self,
        key: ChannelKey,
        window: Window,
        *,
        gap: tuple[int, str, int] | None = None,
        text: str | None = None,
        unsupported: Sequence[str] = (),
        revision: int = 0,
    ) -> None:
        """Keep a window's summary; a higher revision takes the place of the one that is there."""
        turns, gaps, memory = window.turns, list[Gap](), list[MemoryTurn]()
        if gap is not None:
            at, quote, seq = gap
            gaps = [Gap(turns[at].id, quote, "It is not said which.", f"what {quote} is", ("pump",))]
            memory = [MemoryTurn(self.turn(key, seq), None, 10, 0, 1, 5.0)]
        evidence = {at: (Evidence(entry, entry.text),) for at, entry in enumerate(memory)}
        digest = ExtractiveSummarizer().summarize(turns, gaps, evidence)
        record = Summary(
            summary_id(window.ref, "backscroll"),
            revision,
            True,
            *key,
            "extractive" if text is None else "abstractive",
            "backscroll",
            WindowEntry(
                window.ref.index,
                window.ref.first_seq,
                window.ref.last_seq,
                [one.id for one in turns],
                turns[0].ts,
                turns[-1].ts,
                window.tokens,
            ),
            digest if text is None else text,
            [
                GapEntry(
                    one.utterance, one.quote, one.reason, one.query, list(one.keywords), [memory[0].turn.id]
                )
                for one in gaps
            ],
            [
                MemoryEntry(m.turn.id, m.turn.seq, m.turn.author.name, m.turn.ts, m.text, None, 10, 0, 1, 5.0)
                for m in memory
            ],
            {"memory": 10, "prompt": 0, "completion": 0},
            {},
            {"gaps": "rules"},
            unsupported=list(unsupported),
        )
        recalled = tuple(m.turn.seq for m in memory)
        ref = window.ref
        self.store.put_summaries(
            [
                StoredSummary(
                    key,
                    record.summary_id,
                    ref.first_seq,
                    ref.last_seq,
                    recalled,
                    revision,
                    record.to_json(),
                    reissued=revision > 0,
                )
            ]
        )

    def delete(self, key: ChannelKey, seq: int) -> None:
        """Begin the deletion of a message: its turn is a tombstone, the summaries on it are erased."""
        (window,) = [one for one in self._windows[key] if one.ref.first_seq <= seq <= one.ref.last_seq]
        gone = replace(self.turn(key, seq), text="", tokens=0, deleted=True)
        self.store.begin_change(key, [gone], [window.ref.index])

    def turn(self, key: ChannelKey, seq: int) -> Turn:
        """A turn that was written."""
        return next(one for window in self._windows[key] for one in window.turns if one.seq == seq)


@contextmanager
def chat_of_two_namespaces(path: Path) -> Iterator[Chat]:
    """Three channels in two namespaces: a gap and its evidence, markup, a model's summary, no summary."""
    with empty_chat(path) as chat:
        _fill(chat)
        yield chat


@contextmanager
def empty_chat(path: Path) -> Iterator[Chat]:
    """A store with nothing in it yet."""
    store = LanceStore(path, FINGERPRINT, HashingEmbedder.dimensions)
    try:
        yield Chat(path, store)
    finally:
        store.close()


def _fill(chat: Chat) -> None:
    chat.window(
        HARBOR,
        ("Ana", "The pump at berth seven leaks oil since Friday."),
        ("Ben", "I ordered a new valve for it from Oslo, https://parts.example.com/valve, it costs 640."),
        ("Cem", "Lunch is at noon."),
    )
    chat.window(
        HARBOR,
        ("Ana", "The old one is fixed, no more oil at berth seven."),
        ("Eve", MARKUP),
        ("Ben", "Great news."),
        gap=(0, "The old one", 0),
        day=1,
    )
    chat.window(
        LAB,
        ("Dana", "The laser is aligned again."),
        ("Finn", "We measure on Tuesday at nine."),
        text="Dana aligned the laser. They will measure on Tuesday with Peter.",
        unsupported=("Peter",),
    )
    chat.window(LAB, ("Dana", "The samples are in the fridge."), day=2, summarised=False)
    chat.window(SECRET, ("Gus", "We buy the harbor in May, tell nobody about the pump."))


def app_over(
    path: Path,
    access: Access | None = None,
    *,
    poll_seconds: float = 1.0,
    tz: str | None = None,
    now: datetime = NOW,
) -> FastAPI:
    """What `serve` makes of a store, by rules alone; `now` is the current time for its pages."""
    library, embedder = made_of(path, tz)
    catch_up = make_catch_up(Settings(tz=tz), library, embedder, now=lambda: now)
    return create_app(library, access, catch_up, poll_seconds=poll_seconds)


def made_of(path: Path, tz: str | None = None) -> tuple[Library, HashingEmbedder]:
    """A library over a store, and the embedder of both."""
    embedder = HashingEmbedder()
    reader = StoreReader(path, FINGERPRINT, embedder.dimensions)
    return Library(reader, embedder, "backscroll", zone=shown_zone(tz)[0]), embedder


@contextmanager
def served(path: Path, access: Access | None = None, *, poll_seconds: float = 0.05) -> Iterator[str]:
    """The address of a server over a store."""
    app = app_over(path, access, poll_seconds=poll_seconds)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    app.state.watch.stopping = lambda: server.should_exit
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


def until(met: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until a condition is met; fail when it is not in time."""
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
