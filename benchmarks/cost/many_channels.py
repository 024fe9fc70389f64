"""Measure many channels under a memory ceiling: how often a channel is hot, and the cost of a cold one.

Traffic is Zipf-like: the channel of rank r gets a share of about 1 / r. Each event is a small window that
closes: its channel answers one sparse query, and the window is recorded in a group with others, as in the
engine. The store is maintained meanwhile.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from backscroll.benchmarks.cost.history import DIMENSIONS, FINGERPRINT, ClusteredVectors
from backscroll.benchmarks.cost.synthetic_channel import grown_windows
from backscroll.connectors.lancedb.maintenance import maintain
from backscroll.connectors.lancedb.store import LanceStore
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.history.histories import Histories
from backscroll.operators.messages import ChannelKey, Message
from backscroll.operators.stream.windows import Window, WindowRef

__all__ = ["measure_channels"]

_TURNS = 4  # per window: many channels with little content each
_WINDOWS = 3  # per channel, on average
_EVENTS = 3072
_TOGETHER = 64
_GROUP = 2000


def measure_channels(
    dialogues: Sequence[Sequence[Message]],
    folder: Path,
    *,
    channels: int,
    ceiling: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Figures for a new process that holds `channels` channels in at most `ceiling` bytes.

    Its growth is its peak memory minus its memory with the libraries loaded and the store open, but without
    any history.
    """
    say(f"{channels:,} channels: store")
    chooser = np.random.default_rng(0)
    shares = 1 / np.arange(1, channels + 1)
    shares /= shares.sum()
    store = LanceStore(folder, FINGERPRINT, DIMENSIONS)
    traffic = _Traffic(dialogues, channels)
    first = [*range(channels), *chooser.choice(channels, (_WINDOWS - 1) * channels, p=shares).tolist()]
    for start in range(0, len(first), _GROUP):
        store.append([traffic.next(number) for number in first[start : start + _GROUP]])
    maintain(store, exclusive=True)
    store.close()
    events = chooser.choice(channels, _EVENTS, p=shares).tolist()
    say("traffic")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        figures = process.submit(_serve, folder, traffic, events, ceiling).result()
    return {"channels": channels, "windows": len(first) + _EVENTS, "events": _EVENTS, **figures}


def _serve(folder: Path, traffic: _Traffic, events: Sequence[int], ceiling: int) -> dict[str, Any]:
    """Run the traffic; called in a separate process."""
    store = LanceStore(folder, FINGERPRINT, DIMENSIONS)
    histories = Histories(store, ClusteredVectors(), Chunker(), ceiling=ceiling)
    hits, cold, held = 0, list[float](), 0
    maintain(store, retention=timedelta(minutes=1))
    before = _peak()
    for start in range(0, len(events), _TOGETHER):
        group = [traffic.next(number) for number in events[start : start + _TOGETHER]]
        for recorded in group:
            loads, started = histories.loads, time.perf_counter()
            history = histories[recorded.window.ref.key]
            if histories.loads == loads:
                hits += 1
            else:
                cold.append((time.perf_counter() - started) * 1000)
            history.as_of(recorded.window.ref.first_seq).sparse(recorded.window.turns[0].text)
            held = max(held, histories.nbytes)
        histories.commit(group)
        if start % (16 * _TOGETHER) == 0 and start:
            maintain(store, retention=timedelta(minutes=1))
    store.close()
    return {
        "ceiling_mb": ceiling >> 20,
        "held_mb_at_most": round(held / 2**20, 1),
        "process_grew_mb": round((_peak() - before) / 2**20, 1),
        "hot_channels_at_the_end": len(histories.hot),
        "hit_rate": round(hits / len(events), 3),
        "cold_load_p50_ms": round(float(np.percentile(cold or [0], 50)), 1),
        "cold_load_p95_ms": round(float(np.percentile(cold or [0], 95)), 1),
    }


class _Traffic:
    """Small windows with real text, for any channel."""

    def __init__(self, dialogues: Sequence[Sequence[Message]], channels: int) -> None:
        windows = grown_windows(dialogues, 200_000)
        turns = [turn for window in windows for turn in window.turns]
        self._parts = [turns[start : start + _TURNS] for start in range(0, len(turns) - _TURNS, _TURNS)]
        self._next = np.zeros((channels, 2), np.int64)  # window, turn
        self._made = 0
        self._embedder, self._chunker = ClusteredVectors(), Chunker()

    def next(self, number: int) -> RecordedWindow:
        """The next window of channel `number`."""
        index, seq = self._next[number].tolist()
        part = self._parts[self._made % len(self._parts)]
        self._made += 1
        turns = tuple(replace(turn, seq=at, id=f"m{at}") for at, turn in enumerate(part, seq))
        self._next[number] += 1, len(turns)
        key = ChannelKey("bench", f"channel-{number}")
        chunks = self._chunker.chunk(turns)
        return RecordedWindow(
            Window(WindowRef(key, index, seq, seq + len(turns) - 1), turns),
            chunks,
            self._embedder.make(len(chunks)),
            self._embedder.make(len(turns)),
        )


def _peak() -> int:
    """The peak memory of this process in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
