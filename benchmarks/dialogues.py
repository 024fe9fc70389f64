"""Dialogues cut into windows and recorded as a history, as a replay would do it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from connectors.formats import read_file
from operators.admission import Admission, AdmissionState, Event
from operators.changes import Change, Changes
from operators.chunks import Chunker
from operators.dense import Embedder
from operators.histories import Histories
from operators.history import RecordedWindow, StoredChannel, StoredSummary
from operators.messages import ChannelKey, MessageError, Turn, parse_message
from operators.windows import Cutting, Window, WindowCutter

__all__ = ["Dialogue", "record_dialogue"]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A channel with its recorded history and all its windows, the open one at the end included."""

    key: ChannelKey
    histories: Histories
    windows: tuple[Window, ...]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns."""
        return tuple(turn for window in self.windows for turn in window.turns)


class _Unstored:
    """A history store that keeps nothing: the histories of a measurement live in memory alone."""

    def load(self, _key: ChannelKey) -> StoredChannel:
        return StoredChannel(())

    def append(self, recorded: Sequence[RecordedWindow]) -> None:
        pass

    def begin_change(self, key: ChannelKey, turns: Sequence[Turn], windows: Sequence[int]) -> None:
        pass

    def finish_change(self, recorded: RecordedWindow) -> None:
        pass

    def resting_on(self, _key: ChannelKey, _seqs: Sequence[int]) -> list[StoredSummary]:
        return []

    def put_erased(self, key: ChannelKey, ids: Sequence[str]) -> None:
        pass

    def summary(self, summary_id: str) -> bytes:
        raise KeyError(summary_id)

    def put_summaries(self, summaries: Sequence[StoredSummary]) -> None:
        pass


def record_dialogue(path: Path, embedder: Embedder | None, chunker: Chunker | None = None) -> Dialogue:
    """Read a file of one channel in any known format and record it.

    Raises:
        FormatError: the file cannot be read.
    """
    histories = Histories(_Unstored(), embedder, chunker or Chunker())
    events, key = _admitted(path, histories)
    history, cutting = histories[key], Cutting(WindowCutter(), key)
    for event in events:
        if isinstance(event, Turn):
            cutting, closed = cutting.push(event, history)
        elif isinstance(event, Change):
            cutting, closed, in_open = cutting.change(event, history)
            if not in_open:
                histories.commit([Changes(key, (event,))])
        else:
            cutting, closed = cutting.flush(history)
        for window in closed:
            histories.record(window)
    windows = [Window(ref, tuple(histories.window_turns(ref))).live for ref in history.windows]
    still_open = cutting.provisional(history)
    return Dialogue(key, histories, (*windows, *([still_open.live] if still_open else [])))


def _admitted(path: Path, histories: Histories) -> tuple[Sequence[Event], ChannelKey]:
    values = [received.value for received in read_file(path)]
    messages = [parse_message(value) for value in values if not isinstance(value, MessageError)]
    key = messages[0].key
    history = histories[key]
    admission = Admission(AdmissionState.over(history))
    return [
        event for message in messages if message.key == key for event in admission.admit(message, history)
    ], key
