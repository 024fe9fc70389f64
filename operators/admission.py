"""Admission: which posted messages become turns of their channel, and with which `seq`.

Every message id is admitted once. An identical repetition is a duplicate; a known id with other
content is refused. A message that the history recorded in an earlier run keeps its `seq` and is
passed on once, so that a repeated run walks over the same windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from operators.messages import ChannelKey, Message, MessageError, Turn
from operators.tokens import count

__all__ = ["Admission", "AdmissionState", "Admitted", "RecordedTurns"]


@dataclass(frozen=True, slots=True)
class Admitted:
    """A turn of a channel, or, without one, the wish to close the open window (`flush`)."""

    key: ChannelKey
    turn: Turn | None


@dataclass(frozen=True, slots=True)
class AdmissionState:
    """What a restart needs: the cursors and the turns that no recorded window holds yet.

    Turns below `first_new` were recorded before this stream began; of those, the ones below
    `next_replayed` have been passed on. `next_seq` is the place of the next new turn.
    """

    first_new: int
    next_replayed: int
    next_seq: int
    latest: datetime | None = None
    unrecorded: tuple[tuple[str, int, int], ...] = ()  # id, seq, digest


class RecordedTurns(Protocol):
    """What admission asks of a channel's history."""

    @property
    def recorded_until(self) -> int:
        """The first `seq` that no recorded window holds."""
        ...

    def find(self, message_id: str) -> Turn | None:
        """The recorded turn of a message, by its id."""
        ...


class Admission:
    """Admits the messages of one channel, in the order of its stream."""

    def __init__(self, state: AdmissionState) -> None:
        self._first_new = state.first_new
        self._next_replayed = state.next_replayed
        self._next_seq = state.next_seq
        self._latest = state.latest
        self._unrecorded = {id_: (seq, digest) for id_, seq, digest in state.unrecorded}

    @classmethod
    def begin(cls, recorded: RecordedTurns) -> Admission:
        """Begin a stream over what the history holds."""
        return cls(AdmissionState(recorded.recorded_until, 0, recorded.recorded_until))

    def admit(self, message: Message, recorded: RecordedTurns) -> Turn | None:
        """The turn of a posted message; None for a duplicate.

        Raises:
            MessageError: the message cannot be admitted.
        """
        if message.op in ("edit", "delete"):
            raise MessageError(f"op {message.op!r} is not supported yet: only post and flush are")
        digest = message.digest
        known = recorded.find(message.id)
        if known is not None:
            self._agree(message, digest, known.digest)
            if not self._is_replayed(known.seq):
                return None
            self._see(known.ts)
            return known
        if message.id in self._unrecorded:
            self._agree(message, digest, self._unrecorded[message.id][1])
            return None
        return self._append(message, digest, recorded)

    def snapshot(self, recorded_until: int) -> AdmissionState:
        """A copy of the state, without what the history knows by now."""
        self._forget(recorded_until)
        unrecorded = tuple((id_, seq, digest) for id_, (seq, digest) in self._unrecorded.items())
        return AdmissionState(self._first_new, self._next_replayed, self._next_seq, self._latest, unrecorded)

    def _is_replayed(self, seq: int) -> bool:
        """Move the cursors over a recorded turn; False where this stream has passed it on before."""
        if seq >= self._next_seq:  # recorded after the snapshot that this state came from
            self._next_seq = seq + 1
            return True
        if seq >= self._first_new or seq < self._next_replayed:
            return False
        self._next_replayed = seq + 1
        return True

    def _append(self, message: Message, digest: int, recorded: RecordedTurns) -> Turn:
        seq = self._next_seq
        late = self._latest is not None and message.ts < self._latest
        turn = Turn(
            seq=seq,
            id=message.id,
            ts=message.ts,
            author=message.author,
            text=message.text,
            tokens=count(f"{message.author.name}: {message.text}\n"),
            digest=digest,
            thread=message.thread,
            reply_to=message.reply_to,
            permalink=message.permalink,
            late=late,
        )
        self._unrecorded[message.id] = (seq, digest)
        self._next_seq = seq + 1
        self._see(message.ts)
        if len(self._unrecorded) % 512 == 0:
            self._forget(recorded.recorded_until)
        return turn

    def _see(self, ts: datetime) -> None:
        self._latest = ts if self._latest is None else max(self._latest, ts)

    def _forget(self, recorded_until: int) -> None:
        self._unrecorded = {
            id_: known for id_, known in self._unrecorded.items() if known[0] >= recorded_until
        }

    @staticmethod
    def _agree(message: Message, digest: int, known: int) -> None:
        if digest != known:
            raise MessageError(f"id {message.id!r} is already known with other content")
