"""Sort the messages of an export by time.

Times and offsets are kept in memory, 32 bytes per message. The messages themselves are kept in memory
up to 16 MiB, then in an anonymous temporary file that disappears with the process.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import orjson

from backscroll.connectors.files.base.format import ReadItem, Skipped
from backscroll.operators.messages import MessageError, Received

__all__ = ["in_time_order"]

_IN_MEMORY = 16 * 1024 * 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def in_time_order(items: Iterable[ReadItem]) -> Iterator[ReadItem]:
    """Yield skipped items at once, then messages by time.

    The sort is stable; an item without a time stays behind the item before it.
    """
    import numpy as np  # takes a tenth of a second; not needed to list the formats

    with SpooledTemporaryFile(max_size=_IN_MEMORY) as waiting:
        times, places = array("q"), array("q", [0])
        for item in items:
            if isinstance(item, Skipped):
                yield item
                continue
            times.append(_time(item, times[-1] if times else 0))
            places.append(places[-1] + _write(waiting, item))
        for index in np.argsort(np.frombuffer(times, np.int64), kind="stable").tolist() if times else ():
            waiting.seek(places[index])
            yield _read(waiting.read(places[index + 1] - places[index]))


def _time(item: Received, last: int) -> int:
    """Microseconds since 1970, or `last` if the item has no time."""
    try:
        if isinstance(item.value, dict):
            ts = datetime.fromisoformat(item.value["ts"])
            return (ts - _EPOCH) // (datetime.resolution)
    except (KeyError, ValueError, TypeError):
        pass
    return last


def _write(file: IO[bytes], item: Received) -> int:
    failure = str(item.value) if isinstance(item.value, MessageError) else None
    value = None if failure is not None else item.value
    head = orjson.dumps([value, failure, item.origin])
    return file.write(len(head).to_bytes(4) + head + item.raw)


def _read(record: bytes) -> Received:
    until = 4 + int.from_bytes(record[:4])
    value: Any
    value, failure, origin = orjson.loads(record[4:until])
    if failure is not None:
        value = MessageError(failure)
    return Received(value, tuple((name, place) for name, place in origin), record[until:])
