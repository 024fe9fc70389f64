"""Admission: decides which posted messages become turns of their channel, and assigns their `seq`.

Each message id is admitted once. An identical copy is a duplicate; a known id with different content is
refused. A message recorded in the history by an earlier run keeps its `seq` and is emitted again, so
that a repeated run produces the same windows. Messages wait for the watermark, so that late ones can
be put in order. An edit waits for its message, and a message deleted before it arrives never becomes a
turn.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol, TypeAlias

from backscroll.operators.language.tokens import count
from backscroll.operators.messages import ChannelKey, Message, MessageError, Turn
from backscroll.operators.stream.changes import Change

__all__ = ["Admission", "AdmissionState", "Admitted", "Event", "RecordedTurns"]

HELD_BYTES = 24_576  # the limit for held messages in the state
_BESIDE = 160  # bytes of a message in the state, besides its text and id
WAITING_EDITS, WAITING_CHARACTERS = 32, 8_192
Event: TypeAlias = Turn | Change | None
_REVISED = 0  # used instead of the digest of an edited or deleted message


@dataclass(frozen=True, slots=True)
class Admitted:
    """An event of a channel: a turn, a change to an earlier turn, or None for a `flush`."""

    key: ChannelKey
    event: Event


@dataclass(frozen=True, slots=True)
class AdmissionState:
    """What a restart needs: the cursors, and what is in no recorded window yet.

    Turns below `first_new` were recorded before this stream started; those below `next_replayed` have been
    emitted again. `next_seq` is the position of the next new turn. `held` are messages beyond the
    watermark, `waiting` are edits whose message has not arrived, `erased` are ids deleted before they
    arrived that may not be in the store yet, and `part` is the source's partition.
    """

    first_new: int
    next_replayed: int
    next_seq: int
    latest: datetime | None = None
    unrecorded: tuple[tuple[str, int, int], ...] = ()  # id, seq, digest
    held: tuple[Message, ...] = ()
    waiting: tuple[Change, ...] = ()
    erased: tuple[str, ...] = ()
    part: str = ""

    @classmethod
    def over(cls, recorded: RecordedTurns) -> AdmissionState:
        """The state at the start of a stream, given the recorded history."""
        return cls(recorded.recorded_until, 0, recorded.recorded_until)


class RecordedTurns(Protocol):
    """The part of a channel's history that admission needs."""

    @property
    def recorded_until(self) -> int:
        """The first `seq` that is in no recorded window."""
        ...

    def find(self, message_id: str) -> Turn | None:
        """The recorded turn with a message id; None if there is none."""
        ...

    def is_erased(self, message_id: str) -> bool:
        """Whether the message was deleted before it arrived."""
        ...


class Admission:
    """Admits the messages of one channel.

    Args:
        state: the state to continue from.
        counters: `duplicates` counts repeated messages, and `unposted` counts deleted or edited messages
            that are never posted.
        patience: whether messages wait for the watermark; if not, they are admitted on arrival.
    """

    def __init__(
        self, state: AdmissionState, counters: Counter[str] | None = None, *, patience: bool = False
    ) -> None:
        self._counters = Counter() if counters is None else counters
        self._first_new = state.first_new
        self._next_replayed = state.next_replayed
        self._next_seq = state.next_seq
        self._latest = state.latest
        self._patience = patience
        self._unrecorded = {id_: (seq, digest) for id_, seq, digest in state.unrecorded}
        self._held = list(state.held)  # sorted by time and id
        self._waiting = {change.id: change for change in state.waiting}
        self._erased = dict.fromkeys(state.erased)
        self.part = state.part

    @property
    def holding(self) -> bool:
        """Whether any messages are waiting for the watermark."""
        return bool(self._held)

    def admit(self, message: Message, recorded: RecordedTurns) -> list[Event]:
        """The events that follow from a message; none if it is a duplicate or has to wait.

        Raises:
            MessageError: the message cannot be admitted.
        """
        if message.op == "flush":
            return [*self.release(recorded, None), None]
        if message.op == "delete":
            return self._delete(message, recorded)
        if message.op == "edit":
            return self._edit(message, recorded)
        if self._is_erased(message, recorded):
            self._counters["unposted"] += 1
            return []
        if self._known(message, recorded) or not self._patience:
            turn = self._turn(message, recorded)
            return [] if turn is None else [turn]
        return list(self._hold(message, recorded))

    def release(self, recorded: RecordedTurns, until: datetime | None) -> Iterator[Event]:
        """Admit the held messages up to a time, in order; all of them if it is None."""
        while self._held and (until is None or self._held[0].ts <= until):
            with suppress(MessageError):  # an earlier run recorded the id with different content
                turn = self._turn(self._held.pop(0), recorded)
                if turn is not None:
                    yield turn

    def snapshot(self, recorded: RecordedTurns) -> AdmissionState:
        """A copy of the state, without what the history has recorded meanwhile."""
        self._forget(recorded)
        unrecorded = tuple((id_, seq, digest) for id_, (seq, digest) in self._unrecorded.items())
        return AdmissionState(
            self._first_new,
            self._next_replayed,
            self._next_seq,
            self._latest,
            unrecorded,
            tuple(self._held),
            tuple(self._waiting.values()),
            tuple(self._erased),
            self.part,
        )

    def _known(self, message: Message, recorded: RecordedTurns) -> bool:
        return message.id in self._unrecorded or recorded.find(message.id) is not None

    def _hold(self, message: Message, recorded: RecordedTurns) -> Iterator[Event]:
        for held in self._held:
            if held.id == message.id:
                self._agree(message, message.digest, held.digest)
                self._counters["duplicates"] += 1
                return
        insort(self._held, message, key=lambda held: (held.ts, held.id))
        while len(self._held) > 1 and sum(map(_size, self._held)) > HELD_BYTES:
            yield from self.release(recorded, self._held[0].ts)

    def _turn(self, message: Message, recorded: RecordedTurns) -> Turn | None:
        """The turn for a posted message; None for a duplicate."""
        known = recorded.find(message.id)
        if known is not None:
            if known.edited is None:
                self._agree(message, message.digest, known.digest)
            if not self._is_replayed(known.seq):
                self._counters["duplicates"] += 1
                return None
            self._see(known.ts)
            return known
        if message.id in self._unrecorded:
            self._agree(message, message.digest, self._unrecorded[message.id][1])
            self._counters["duplicates"] += 1
            return None
        return self._append(message, recorded)

    def _delete(self, message: Message, recorded: RecordedTurns) -> list[Event]:
        self._waiting.pop(message.id, None)
        if not self._known(message, recorded):
            if self._is_erased(message, recorded):
                self._counters["duplicates"] += 1
                return []
            self._held = [held for held in self._held if held.id != message.id]
            self._erased[message.id] = None
        return [self._revise(Change(message.id, message.ts, None))]

    def _edit(self, message: Message, recorded: RecordedTurns) -> list[Event]:
        change = Change(message.id, message.ts, message.text)
        if self._known(message, recorded):
            return [self._revise(change)]
        if self._is_erased(message, recorded):
            self._counters["duplicates"] += 1
        else:
            self._wait(change)
        return []

    def _is_erased(self, message: Message, recorded: RecordedTurns) -> bool:
        return message.id in self._erased or recorded.is_erased(message.id)

    def _wait(self, change: Change) -> None:
        """Keep an edit until its message is admitted; the oldest edits are dropped if there are too many."""
        earlier = self._waiting.pop(change.id, None)
        self._waiting[change.id] = change if earlier is None or earlier.ts <= change.ts else earlier
        while len(self._waiting) > WAITING_EDITS or (
            len(self._waiting) > 1
            and sum(len(kept.text or "") for kept in self._waiting.values()) > WAITING_CHARACTERS
        ):
            del self._waiting[next(iter(self._waiting))]
            self._counters["unposted"] += 1

    def _revise(self, change: Change) -> Change:
        if change.id in self._unrecorded:
            self._unrecorded[change.id] = self._unrecorded[change.id][0], _REVISED
        return change

    def _is_replayed(self, seq: int) -> bool:
        """Advance the cursors over a recorded turn; False if this stream is already past it."""
        if seq >= self._next_seq:  # recorded after the snapshot of this state
            self._next_seq = seq + 1
            return True
        if seq >= self._first_new or seq < self._next_replayed:
            return False
        self._next_replayed = seq + 1
        return True

    def _append(self, message: Message, recorded: RecordedTurns) -> Turn:
        seq = max(self._next_seq, recorded.recorded_until)
        turn = Turn(
            seq=seq,
            id=message.id,
            ts=message.ts,
            author=message.author,
            text=message.text,
            tokens=count(f"{message.author.name}: {message.text}\n"),
            digest=message.digest,
            thread=message.thread,
            reply_to=message.reply_to,
            permalink=message.permalink,
            late=self._latest is not None and message.ts < self._latest,
        )
        edit = self._waiting.pop(message.id, None)
        if edit is not None:
            # Even if the text is the same, its time shows later that older edits are obsolete.
            turn = edit.apply(turn) or replace(turn, edited=edit.ts)
        self._unrecorded[message.id] = (seq, message.digest if edit is None else _REVISED)
        self._next_seq = seq + 1
        self._see(message.ts)
        if len(self._unrecorded) % 512 == 0:
            self._forget(recorded)
        return turn

    def _see(self, ts: datetime) -> None:
        ts = min(ts, datetime.now(UTC))  # a message from the future must not make others late
        self._latest = ts if self._latest is None else max(self._latest, ts)

    def _forget(self, recorded: RecordedTurns) -> None:
        until = recorded.recorded_until
        self._unrecorded = {id_: known for id_, known in self._unrecorded.items() if known[0] >= until}
        self._erased = {id_: None for id_ in self._erased if not recorded.is_erased(id_)}

    @staticmethod
    def _agree(message: Message, digest: int, known: int) -> None:
        if known not in (digest, _REVISED):
            raise MessageError(f"id {message.id!r} was already used with different content")


def _size(message: Message) -> int:
    """The approximate size of a message in a snapshot, in bytes."""
    return len(message.text.encode(errors="surrogatepass")) + len(message.id) + _BESIDE
