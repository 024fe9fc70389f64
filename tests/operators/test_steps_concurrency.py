"""Two hundred slow calls at once, and a source that waits for a slow server: one worker, real flow."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from bytewax.testing import TestingSink, run_main

from backscroll.connectors.callback_sink import CallbackSink
from backscroll.connectors.files.source import FilesSource
from backscroll.flows.summarize import summarize_flow
from backscroll.operators.engine import Engine, EngineConfig
from backscroll.operators.gaps.rules import RulesDetector
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.messages import DeadLetter
from backscroll.operators.stream.windows import Window, WindowCutter
from backscroll.operators.summary.record import Summary
from backscroll.operators.summary.stage import Written
from support.building import turn, window
from support.pace import slowness

pytestmark = pytest.mark.timing


@dataclass
class SlowWriting:
    """A summary stage that takes its time, at most `slots` windows at once."""

    seconds: float
    slots: asyncio.Semaphore
    running: int = 0
    most_running: int = 0

    async def write(self, window: Window, *_: object) -> Written:
        async with self.slots:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            await asyncio.sleep(self.seconds)
            self.running -= 1
        return Written(window.turns[0].text, "abstractive", "slow")


def engine_with(writing: SlowWriting, pending_limit: int = 256) -> Engine:
    """Settings in which every message is a window, without embedding or memory."""
    config = EngineConfig(cutter=WindowCutter(turns=1), strategy="none", pending_limit=pending_limit)
    return Engine(InMemoryStore(), config, summaries=writing)


def replay(
    engine: Engine, path: Path, channels: Sequence[str], watch: Callable[[], None] = lambda: None
) -> tuple[float, list[bytes]]:
    """Send one message per channel through the whole flow; returns the seconds and the summaries."""
    message = {"ts": "2026-03-02T09:00:00Z", "author": "Ana", "text": "We wait."}
    lines = [json.dumps({**message, "channel": name, "id": f"m{n}"}) for n, name in enumerate(channels)]
    path.write_text("\n".join(lines))
    source = FilesSource([(path, "messages")], speed=None, feed=engine.feed)
    bodies, letters = list[bytes](), list[DeadLetter]()

    def write(batch: Sequence[tuple[str, bytes]]) -> None:
        bodies.extend(emission.body or b"" for _, emission in batch)
        watch()

    flow = summarize_flow(engine, source, CallbackSink(write), TestingSink(letters))
    started = time.perf_counter()
    run_main(flow)
    assert letters == []
    return time.perf_counter() - started, bodies


def test_two_hundred_channels_with_calls_of_two_seconds_take_two_rounds_of_calls(tmp_path: Path) -> None:
    """100 at once make two rounds, which take 4 s; one call that waited for a third would take 6 s."""
    RulesDetector().detect(window([turn(0, "Warm the word lists up again.")]))
    channels, best = [f"c{number}" for number in range(200)], float("inf")
    for _ in range(3):
        writing = SlowWriting(2.0, asyncio.Semaphore(100))
        seconds, bodies = replay(engine_with(writing), tmp_path / "chat.jsonl", channels)
        assert len(bodies) == 200
        assert writing.most_running == 100
        best = min(best, (seconds - 4) / slowness())
        if best < 1:
            break
    print(f"\n200 channels x 2 s, 100 at once: {best:.2f} s beside the calls")
    assert best < 1


def test_the_source_waits_if_the_server_is_slower_than_the_stream(tmp_path: Path) -> None:
    writing = SlowWriting(0.02, asyncio.Semaphore(4))
    engine, ahead = engine_with(writing, pending_limit=16), list[int]()

    def watch() -> None:
        ahead.append(engine.runtime.counters["messages"] - engine.runtime.counters["summaries"])

    _, bodies = replay(engine, tmp_path / "chat.jsonl", ["a"] * 600, watch)
    batch = 128
    assert max(ahead) <= 16 + batch
    assert [Summary.from_json(body).window.first_seq for body in bodies] == list(range(600))
