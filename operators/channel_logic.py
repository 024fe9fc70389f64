"""The stateful logic of a channel, and the small state that Bytewax keeps: admission and open window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from bytewax.operators import StatefulBatchLogic

from backscroll.operators.engine import Engine
from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.history.store import HistoryError
from backscroll.operators.in_flight import Arrival
from backscroll.operators.messages import ChannelKey, DeadLetter, MessageError, Received, Turn
from backscroll.operators.runtime.metrics import DEAD_LETTERS
from backscroll.operators.runtime.state import Stamped
from backscroll.operators.state_types import CODEC
from backscroll.operators.stream.admission import Admission, AdmissionState, Admitted, Event
from backscroll.operators.stream.changes import Change, Changes
from backscroll.operators.stream.windows import Cutting, Window

__all__ = ["AdmissionLogic", "CuttingLogic", "reject"]

_LOOK_AGAIN = timedelta(seconds=1)
_REASON_CHARACTERS = 300


def reject(engine: Engine, received: Received, err: MessageError) -> DeadLetter:
    """Turn a message that cannot be admitted into a dead letter."""
    engine.runtime.counters["dead_letters"] += 1
    DEAD_LETTERS.inc()
    reason = str(err)  # which may quote the input
    if len(reason) > _REASON_CHARACTERS:
        reason = f"{reason[:_REASON_CHARACTERS]}..."
    return DeadLetter(received.origin, reason, received.raw, received.key, received.headers)


class AdmissionLogic(StatefulBatchLogic[Arrival, Admitted | DeadLetter, Stamped | None]):
    """Admits one channel's messages. Its state is cursors, waiting messages and unrecorded ids.

    If the channel cannot be processed, for example because its store is unavailable, the dataflow stops
    in an orderly way. Messages that arrive meanwhile become part of the state and are processed after
    the restart.
    """

    def __init__(self, engine: Engine, resume: Stamped | None) -> None:
        self._engine = engine
        self._config, self._runtime = engine.config, engine.runtime
        state, arrivals = CODEC.decode(resume) or (None, ())
        self._resumed: AdmissionState | None = state
        self._backlog: list[Arrival] = list(arrivals)
        self._admission: Admission | None = None
        self._key: ChannelKey | None = None
        self._release_at: datetime | None = None
        if self._backlog:
            self._release_at = datetime.now(UTC)
        elif state is not None and state.held:
            self._key = state.held[0].key
            self._wait()

    def on_batch(self, values: list[Arrival]) -> tuple[list[Admitted | DeadLetter], bool]:
        """Bytewax: new messages of the channel."""
        self._backlog += values
        out: list[Admitted | DeadLetter] = []
        while self._backlog:
            arrival = self._backlog[0]
            key = self._key = arrival.message.key
            try:
                recorded = self._engine.histories[key]
                admission = self._begun(recorded)
                self._check_part(admission, arrival.received.part)
            except Exception as err:  # from the store, the embedder (it finishes changes) or `_check_part`
                self._runtime.fail(err)
                break
            self._backlog.pop(0)
            try:
                events = admission.admit(arrival.message, recorded)
            except MessageError as err:
                out.append(reject(self._engine, arrival.received, err))
                continue
            if arrival.received.watermark is not None:
                events += admission.release(recorded, arrival.received.watermark)
            out += self._count(key, events)
        self._release_at = None  # counted from the latest message
        self._wait()
        return out, self.RETAIN

    def on_notify(self) -> tuple[list[Admitted | DeadLetter], bool]:
        """Bytewax: the watermark has not moved for a while, so release the messages that are held back."""
        self._release_at = None
        if self._backlog:
            return self.on_batch([])
        assert self._key is not None
        if not self._runtime.liveness.is_live:
            self._wait()
            return [], self.RETAIN
        try:
            recorded = self._engine.histories[self._key]
        except Exception as err:
            self._runtime.fail(err)
            return [], self.RETAIN
        return self._count(self._key, self._begun(recorded).release(recorded, None)), self.RETAIN

    def notify_at(self) -> datetime | None:
        """Bytewax: when to admit the messages held back, whatever the watermark."""
        return None if self._runtime.stopping.is_set() else self._release_at

    def on_eof(self) -> tuple[list[Admitted | DeadLetter], bool]:
        """Bytewax: the input has ended; admit what is held back, unless the engine is only stopping."""
        if self._runtime.stopping.is_set() or self._key is None or self._admission is None:
            return [], self.RETAIN
        recorded = self._engine.histories[self._key]
        return self._count(self._key, self._admission.release(recorded, None)), self.RETAIN

    def snapshot(self) -> Stamped | None:
        """Bytewax: a copy of the state."""
        state = self._resumed
        if self._admission is not None and self._key is not None:
            state = self._admission.snapshot(self._engine.histories[self._key])
        return None if state is None and not self._backlog else CODEC.encode((state, tuple(self._backlog)))

    def _begun(self, recorded: ChannelHistory) -> Admission:
        if self._admission is None:
            engine, state = self._engine, self._resumed or AdmissionState.over(recorded)
            self._admission = Admission(
                state, engine.runtime.counters, patience=engine.config.lateness > timedelta()
            )
        return self._admission

    def _check_part(self, admission: Admission, part: str) -> None:
        if admission.part and part != admission.part and not self._config.scattered_channels:
            raise HistoryError(
                f"{self._key} is in {part} but was in {admission.part} before: key the topic by channel, "
                "or set scattered_channels (a replay may then give other summary ids)"
            )
        admission.part = part

    def _count(self, key: ChannelKey, events: Iterable[Event]) -> list[Admitted | DeadLetter]:
        admitted = [Admitted(key, event) for event in events]
        self._runtime.counters["turns"] += sum(isinstance(item.event, Turn) for item in admitted)
        self._runtime.counters["changes"] += sum(isinstance(item.event, Change) for item in admitted)
        return list(admitted)

    def _wait(self) -> None:
        """Set the time at which the messages held back are released."""
        holding = self._admission.holding if self._admission is not None else True
        if not holding:
            self._release_at = None
        elif self._release_at is None:
            self._release_at = datetime.now(UTC) + max(self._config.lateness, timedelta(milliseconds=10))


class CuttingLogic(StatefulBatchLogic[Admitted, Window | Changes, Stamped | None]):
    """Cuts one channel into windows. Its state is the turns of the open window."""

    def __init__(self, engine: Engine, resume: Stamped | None) -> None:
        self._engine = engine
        self._config, self._runtime = engine.config, engine.runtime
        state: Cutting | None = CODEC.decode(resume)
        self._cutting = None if state is None else replace(state, cutter=self._config.cutter)
        self._last = datetime.now(UTC)  # wall-clock time of the channel's last event

    def on_batch(self, values: list[Admitted]) -> tuple[list[Window | Changes], bool]:
        """Bytewax: new events of the channel."""
        out: list[Window | Changes] = []
        changes: list[Change] = []

        def hand_on_changes() -> None:
            if changes:
                out.append(Changes(values[0].key, tuple(changes)))
                changes.clear()

        for admitted in values:
            event, recorded = admitted.event, self._engine.histories[admitted.key]
            if self._cutting is None:
                first = event.seq if isinstance(event, Turn) else None
                self._cutting = Cutting.begin(self._config.cutter, admitted.key, recorded, first)
            if isinstance(event, Change):
                self._cutting, closed, open_ = self._cutting.change(event, recorded)
                if not open_:
                    changes.append(event)
            elif event is None:
                self._cutting, closed = self._cutting.flush(recorded)
            else:
                self._cutting, closed = self._cutting.push(event, recorded)
            if closed:
                hand_on_changes()
            out += closed
        hand_on_changes()
        self._last = datetime.now(UTC)
        return self._counted(out), self.RETAIN

    def on_notify(self) -> tuple[list[Window | Changes], bool]:
        """Bytewax: close the open window if the channel has been silent for long enough."""
        now, cutting = datetime.now(UTC), self._cutting
        assert cutting is not None
        assert cutting.cutter.idle is not None
        if now < self._quiet_since() + cutting.cutter.idle:
            return [], self.RETAIN
        self._cutting, closed = cutting.flush(self._engine.histories[cutting.key])
        return self._counted(list(closed)), self.RETAIN

    def notify_at(self) -> datetime | None:
        """Bytewax: when to check whether silence closes the open window."""
        cutting = self._cutting
        if (
            cutting is None
            or not cutting.open
            or cutting.cutter.idle is None
            or not self._runtime.liveness.used
        ):
            return None
        if self._runtime.stopping.is_set():
            return None
        return max(self._quiet_since() + cutting.cutter.idle, datetime.now(UTC) + timedelta(milliseconds=10))

    def on_eof(self) -> tuple[list[Window | Changes], bool]:
        """Bytewax: the input has ended; emit the open window as provisional, and keep it open."""
        if self._runtime.stopping.is_set() or self._cutting is None:
            return [], self.RETAIN
        window = self._cutting.provisional(self._engine.histories[self._cutting.key])
        if window is None:
            return [], self.RETAIN
        self._runtime.counters["provisional"] += 1
        self._runtime.pending.add(1)
        self._engine.wait_to_be_recorded([window])
        return [window], self.RETAIN

    def snapshot(self) -> Stamped | None:
        """Bytewax: the state, which is immutable."""
        return None if self._cutting is None else CODEC.encode(self._cutting)

    def _quiet_since(self) -> datetime:
        """Since when the channel has been silent in a live stream; a future time if the source is behind."""
        return max(self._last, self._runtime.liveness.since or datetime.now(UTC) + _LOOK_AGAIN)

    def _counted(self, out: list[Window | Changes]) -> list[Window | Changes]:
        windows = sum(isinstance(item, Window) for item in out)
        self._runtime.counters["windows"] += windows
        self._runtime.pending.add(windows)
        self._engine.wait_to_be_recorded(out)
        return out
