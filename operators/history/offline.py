"""Admit one channel's messages, cut them into windows and record them, without a dataflow.

The result is the same as the dataflow's, computed message by message on one thread:

>>> from backscroll.operators.history.chunks import Chunker
>>> from backscroll.operators.history.histories import Histories
>>> from backscroll.operators.history.in_memory import InMemoryStore
>>> from backscroll.operators.messages import parse_message
>>> said = [
...     '{"channel": "ops", "id": "a", "ts": "2026-03-02T09:00:00Z", "author": "Ana", "text": "Noon?"}',
...     '{"channel": "ops", "id": "b", "ts": "2026-03-02T09:01:00Z", "author": "Ben", "text": "Yes."}',
...     '{"channel": "ops", "id": "c", "ts": "2026-03-02T09:02:00Z", "author": "Ana", "text": "Good."}',
... ]
>>> messages = [parse_message(line.encode()) for line in said]
>>> histories = Histories(InMemoryStore(), None, Chunker())
>>> channel = OfflineChannel(histories, messages[0].key, WindowCutter(turns=2))
>>> for message in messages:
...     channel.add(message)
>>> [[turn.id for turn in window.turns] for window in channel.windows]
[['a', 'b'], ['c']]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from backscroll.operators.history.channel import ChannelHistory
from backscroll.operators.history.histories import Histories
from backscroll.operators.messages import ChannelKey, Message, Turn
from backscroll.operators.stream.admission import Admission, AdmissionState, Event
from backscroll.operators.stream.changes import Change, Changes
from backscroll.operators.stream.windows import Cutting, Window, WindowCutter

__all__ = ["OfflineChannel", "cut_turns"]


class OfflineChannel:
    """A channel that grows message by message.

    Args:
        histories: where closed windows are recorded; they may already hold windows of the channel.
        key: the channel.
        cutter: how windows are cut.
        record: False to keep closed windows out of the history, which saves embedding them. Edits and
            deletions of recorded messages still reach the history.
        counters: receives the counts of admission.
    """

    def __init__(
        self,
        histories: Histories,
        key: ChannelKey,
        cutter: WindowCutter | None = None,
        *,
        record: bool = True,
        counters: Counter[str] | None = None,
    ) -> None:
        self.key = key
        self.histories = histories
        self._record = record
        self._admission = Admission(AdmissionState.over(self.history), counters)
        self._cutting = Cutting.begin(cutter or WindowCutter(), key, self.history, None)
        self._unrecorded: list[Window] = []

    @property
    def history(self) -> ChannelHistory:
        """The recorded windows."""
        return self.histories[self.key]

    @property
    def beyond(self) -> tuple[Turn, ...]:
        """The turns after the recorded windows, in order, including deleted ones."""
        return (*(turn for window in self._unrecorded for turn in window.turns), *self._cutting.open)

    @property
    def windows(self) -> Iterator[Window]:
        """Every window in its current state, the open one last."""
        for ref in self.history.windows:
            yield Window(ref, tuple(self.histories.window_turns(ref)))
        yield from self._unrecorded
        still_open = self._cutting.provisional(self.history)
        if still_open is not None:
            yield still_open

    def add(self, message: Message) -> None:
        """Process the next message, edit, deletion or flush.

        Raises:
            MessageError: the message cannot be admitted.
        """
        for event in self._admission.admit(message, self.history):
            self._take(event)

    def _take(self, event: Event) -> None:
        history = self.history
        if isinstance(event, Change):
            self._cutting, closed, is_open = self._cutting.change(event, history)
            if not is_open and not self._change_unrecorded(event):
                self.histories.commit([Changes(self.key, (event,))])
        elif event is None:
            self._cutting, closed = self._cutting.flush(history)
        else:
            self._cutting, closed = self._cutting.push(event, history)
        for window in closed:
            if not window.turns:  # recorded before, and seen again
                continue
            if self._record:
                self.histories.record(window)
            else:
                self._unrecorded.append(window)

    def _change_unrecorded(self, change: Change) -> bool:
        """Change a turn of a closed but unrecorded window; False if no such window holds it."""
        for place, window in enumerate(self._unrecorded):
            if any(turn.id == change.id for turn in window.turns):
                turns = (
                    (change.apply(turn) or turn) if turn.id == change.id else turn for turn in window.turns
                )
                self._unrecorded[place] = Window(window.ref, tuple(turns))
                return True
        return False


def cut_turns(turns: Iterable[Turn], history: ChannelHistory, cutter: WindowCutter) -> Iterator[Window]:
    """Cut turns that follow a history into windows, the open one last; nothing is recorded."""
    cutting = Cutting.begin(cutter, history.key, history, None)
    for turn in turns:
        cutting, closed = cutting.push(turn, history)
        yield from closed
    still_open = cutting.provisional(history)
    if still_open is not None:
        yield still_open
