"""Read one partition with kafka-python: where to start, and what to do if an offset no longer exists."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from kafka import KafkaConsumer, TopicPartition, codec, errors

from backscroll.connectors.kafka.connection import BatchError, KafkaConnection, KafkaError, OffsetError

__all__ = ["BATCH", "OnLost", "PartitionReader", "Place", "Start"]

Start: TypeAlias = Literal["earliest", "latest"] | datetime
OnLost: TypeAlias = Literal["stop", "earliest"]

BATCH = 128
_ANSWER_MS = 10_000  # for the broker to return offsets
_GLANCE_MS = 200  # the same, if the answer is not essential
_CODECS = {"python-snappy": codec.has_snappy, "lz4": codec.has_lz4, "zstandard": codec.has_zstd}


@dataclass(frozen=True, slots=True)
class Place:
    """The offset to continue from. `lost` messages before it were skipped; `warning` says why."""

    offset: int
    lost: int = 0
    warning: str | None = None


class PartitionReader:
    """A kafka-python consumer of one partition. Apart from those documented, it raises `kafka.errors`.

    Raises:
        KafkaError: the cluster does not answer within ten seconds, or rejects the login.
    """

    def __init__(self, connection: KafkaConnection, at: TopicPartition) -> None:
        self._connection = connection
        self._at = at
        self._name = f"{at.topic}[{at.partition}]"
        self._consumer, self._net = connection.connect(
            KafkaConsumer,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            allow_auto_create_topics=False,
            isolation_level="read_committed",
            fetch_max_wait_ms=50,
            max_poll_records=BATCH,
            metrics_enabled=False,
        )
        self._consumer.assign([at])

    def begin(self, offset: int | None, start: Start, on_lost: OnLost) -> Place:
        """Seek to an offset, or to `start` if it is None; blocks until the broker answers.

        An offset beyond the end is noticed only when it is fetched.

        Raises:
            OffsetError: retention has deleted the offset, and the policy is to stop.
            BatchError: as `poll`.
            KafkaError: the partition's broker does not answer.
        """
        try:
            if offset is None:
                place = Place(self._first(start))
            else:
                first = self._beginning()
                place = Place(offset) if offset >= first else self._after_loss(offset, first, None, on_lost)
        except errors.KafkaError as err:
            raise self._connection.explain(err) from err
        self._consumer.seek(self._at, place.offset)
        return place

    def poll(self) -> list[Any]:
        """Records that have arrived, at most `BATCH`; never waits.

        Raises:
            BatchError: the next records cannot be decoded. Close the reader then: kafka-python would
                loop forever over the rest of them.
        """
        return self._poll(0)

    def find(self, offset: int, on_lost: OnLost, highwater: int = 0) -> Place:
        """Seek to where to continue if the broker does not know an offset, or it is beyond the end.

        The end is the broker's answer or the recent `highwater`, whichever is greater.

        Raises:
            OffsetError: the policy is to stop.
        """
        place = self._after_loss(offset, self._beginning(), max(self._told_end(), highwater), on_lost)
        self._consumer.seek(self._at, place.offset)
        return place

    def is_last_committed(self, offset: int) -> bool:
        """Ask the broker whether only records of open transactions lie beyond an offset."""
        try:
            ends = self._consumer.end_offsets([self._at], timeout_ms=_GLANCE_MS)
        except errors.KafkaError:
            return False
        return int(ends[self._at]) == offset

    def seek(self, offset: int) -> None:
        """Continue reading from an offset."""
        self._consumer.seek(self._at, offset)

    @property
    def position(self) -> int | None:
        """The offset of the next record; transaction markers are skipped."""
        position: int | None = self._consumer.position(self._at, timeout_ms=0)
        return position

    @property
    def highwater(self) -> int | None:
        """The end of the partition according to the last fetch; None before the first."""
        highwater: int | None = self._consumer.highwater(self._at)
        return highwater

    @property
    def connected(self) -> bool:
        """Whether there is a connection to any broker of the cluster."""
        return any(self._net.connected(broker.node_id) for broker in self._net.cluster.brokers())

    def close(self) -> None:
        """Close the consumer's thread and connections; never raises."""
        with suppress(Exception):
            self._consumer.close(autocommit=False, timeout_ms=1000 if self.connected else 50)

    def _poll(self, timeout_ms: int) -> list[Any]:
        try:
            records: list[Any] = self._consumer.poll(timeout_ms=timeout_ms).get(self._at, [])
        except (errors.UnsupportedCodecError, errors.CorruptRecordError) as err:
            raise self._undecodable(err) from None
        except (errors.KafkaError, KafkaError):
            raise
        except Exception as err:  # each codec raises its own errors
            raise self._undecodable(err) from None
        return records

    def _undecodable(self, err: Exception) -> BatchError:
        """Why the next records cannot be decoded; leaves out the text of `err`, which may quote them."""
        where = f"{self._name}: the records at offset {self.position}"
        missing = [package for package, installed in _CODECS.items() if not installed()]
        if isinstance(err, errors.UnsupportedCodecError) and missing:
            why = f"are compressed with a codec that is not installed: pip install {' '.join(missing)}"
            return BatchError(f"{where} {why}")
        fix = "restore them from another replica, or delete them with kafka-delete-records and set"
        fix += " on_lost_offset to earliest"
        return BatchError(f"{where} are corrupt ({type(err).__name__}): {fix}")

    def _first(self, start: Start) -> int:
        if start == "earliest":
            return self._beginning()
        if isinstance(start, datetime):
            at = int(start.timestamp() * 1000)
            found = self._consumer.offsets_for_times({self._at: at}, timeout_ms=_ANSWER_MS)[self._at]
            if found is not None and found.timestamp >= 0:
                return int(found.offset)
        return self._end()

    def _beginning(self) -> int:
        offsets = self._consumer.beginning_offsets([self._at], timeout_ms=_ANSWER_MS)
        return int(offsets[self._at])

    def _told_end(self) -> int:
        offsets = self._consumer.end_offsets([self._at], timeout_ms=_ANSWER_MS)
        return int(offsets[self._at])

    def _end(self) -> int:
        """The end of the partition; also checked by a fetch, as some brokers report it wrongly."""
        end = self._told_end()
        self._consumer.seek(self._at, end)
        deadline = time.monotonic() + 2.0
        while self.highwater is None and time.monotonic() < deadline:
            self._poll(20)
        return max(end, self.highwater or 0)

    def _after_loss(self, offset: int, first: int, end: int | None, on_lost: OnLost) -> Place:
        if end is not None and first <= offset <= end:
            return Place(offset)  # for a moment a new leader did not know it
        lost = max(first - offset, 0)
        if lost or end is None:
            what = f"offset {offset} no longer exists: the partition now starts at {first}, and {lost:,}"
            what += " messages were deleted by retention before they were read"
        else:
            what = f"offset {offset} is beyond the end, {end}: the topic was recreated"
        if on_lost == "stop":
            fix = f"set on_lost_offset to earliest to continue at {first}, or use a new recovery store"
            raise OffsetError(f"{self._name}: {what}: {fix}")
        return Place(first, lost, f"{self._name}: {what}: continuing at {first}")
