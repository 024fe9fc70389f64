"""The channel state that Bytewax keeps: admission cursors and the open window, both small."""

from __future__ import annotations

from dataclasses import dataclass

from bytewax.operators import StatefulBatchLogic

from operators.admission import Admission, AdmissionState, Admitted
from operators.engine import Engine
from operators.history import HistoryError
from operators.messages import ChannelKey, DeadLetter, Message, MessageError, Received
from operators.metrics import DEAD_LETTERS
from operators.windows import Cutting, Window

__all__ = ["AdmissionLogic", "Arrival", "CuttingLogic", "reject"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A valid message and how it was received, in case its channel refuses it."""

    message: Message
    received: Received


def reject(engine: Engine, received: Received, err: MessageError) -> DeadLetter:
    """What cannot be admitted, as a dead letter."""
    engine.counters["dead_letters"] += 1
    DEAD_LETTERS.inc()
    return DeadLetter(received.origin, str(err), received.raw)


class AdmissionLogic(StatefulBatchLogic[Arrival, Admitted | DeadLetter, AdmissionState | None]):
    """One channel's admission: its state is cursors and the ids that no recorded window holds."""

    def __init__(self, engine: Engine, resume: AdmissionState | None) -> None:
        self._engine = engine
        self._resumed = resume
        self._admission = None if resume is None else Admission(resume)
        self._key: ChannelKey | None = None

    def on_batch(self, values: list[Arrival]) -> tuple[list[Admitted | DeadLetter], bool]:
        out: list[Admitted | DeadLetter] = []
        for arrival in values:
            message = arrival.message
            self._key = message.key
            try:
                recorded = self._engine.histories[message.key]
            except HistoryError as err:
                self._engine.fail(err)
                break
            if self._admission is None:
                self._admission = Admission.begin(recorded)
            if message.op == "flush":
                out.append(Admitted(message.key, None))
                continue
            try:
                turn = self._admission.admit(message, recorded)
            except MessageError as err:
                out.append(reject(self._engine, arrival.received, err))
                continue
            if turn is None:
                self._engine.counters["duplicates"] += 1
            else:
                self._engine.counters["turns"] += 1
                out.append(Admitted(message.key, turn))
        return out, self.RETAIN

    def snapshot(self) -> AdmissionState | None:
        if self._admission is None or self._key is None:
            return self._resumed  # nothing came for the channel since
        return self._admission.snapshot(self._engine.histories[self._key].recorded_until)


class CuttingLogic(StatefulBatchLogic[Admitted, Window, Cutting | None]):
    """One channel's cut: its state is the open window's turns."""

    def __init__(self, engine: Engine, resume: Cutting | None) -> None:
        self._engine = engine
        self._cutting = resume

    def on_batch(self, values: list[Admitted]) -> tuple[list[Window], bool]:
        out: list[Window] = []
        for admitted in values:
            recorded = self._engine.histories[admitted.key]
            cutting = self._cutting or Cutting(self._engine.cutter, admitted.key, len(recorded.windows))
            if admitted.turn is None:
                self._cutting, closed = cutting.flush()
            else:
                self._cutting, closed = cutting.push(admitted.turn, recorded)
            out += closed
        self._engine.counters["windows"] += len(out)
        self._engine.pending.add(len(out))
        return out, self.RETAIN

    def on_eof(self) -> tuple[list[Window], bool]:
        if self._engine.stopping.is_set() or self._cutting is None:
            return [], self.RETAIN
        window = self._cutting.provisional()
        if window is None:
            return [], self.RETAIN
        self._engine.counters["provisional"] += 1
        self._engine.pending.add(1)
        return [window], self.RETAIN

    def snapshot(self) -> Cutting | None:
        return self._cutting
