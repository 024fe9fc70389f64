"""Maintains the store while an engine runs, in a thread of one of its processes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from backscroll.connectors.lancedb.maintenance import maintain
from backscroll.connectors.lancedb.schema import StoreError
from backscroll.connectors.lancedb.store import LanceStore
from backscroll.flows.settings.settings import Settings

__all__ = ["maintained"]

_PATIENCE_SECONDS = 1.0
_LOG = logging.getLogger("backscroll")


@contextmanager
def maintained(store: LanceStore, settings: Settings) -> Iterator[None]:
    """Compact and clean the store at intervals while the context is open.

    A failed maintenance is logged; the next one tries again.
    """
    done = threading.Event()
    seconds = settings.maintenance_minutes * 60
    thread = threading.Thread(
        target=_work, args=(store, seconds, done), name="backscroll-maintenance", daemon=True
    )
    if seconds:
        thread.start()
    try:
        yield
    finally:
        done.set()
        if seconds:
            thread.join(_PATIENCE_SECONDS)  # may end anywhere: each write takes effect fully or not at all


def _work(store: LanceStore, seconds: float, done: threading.Event) -> None:
    while not done.wait(seconds):
        started = time.monotonic()
        try:
            maintained = maintain(store)
        except Exception as err:  # keep the thread: without maintenance, deleted text stays in files
            _LOG.warning("maintenance failed: %s", err if isinstance(err, StoreError) else repr(err))
            continue
        if maintained is not None:
            _LOG.info("maintenance of %d tables: %.1f s", maintained.tables, time.monotonic() - started)
