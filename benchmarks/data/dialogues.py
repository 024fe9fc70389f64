"""Dialogues cut into windows and recorded as a history, as a replay would do it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.connectors.files.formats import read_file
from backscroll.operators.history.channel import RecordedWindow
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.store import StoredChannel, StoredSummary
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.messages import (
    DEFAULT_NAMESPACE,
    ChannelKey,
    Message,
    MessageError,
    Turn,
    parse_message,
)
from backscroll.operators.stream.admission import Admission, AdmissionState, Event
from backscroll.operators.stream.changes import Change, Changes
from backscroll.operators.stream.windows import Cutting, Window, WindowCutter

__all__ = ["Dialogue", "Unstored", "dialogue_files", "read_channels", "record_channel", "record_dialogue"]


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


class Unstored:
    """A history store that keeps nothing: the histories of a measurement live in memory alone."""

    def load(self, _key: ChannelKey) -> StoredChannel:
        return StoredChannel(())

    def append(self, recorded: Sequence[RecordedWindow]) -> None:
        pass

    def begin_change(self, key: ChannelKey, turns: Sequence[Turn], windows: Sequence[int]) -> None:
        pass

    def finish_change(self, recorded: RecordedWindow) -> None:
        pass

    def depending_on(self, _key: ChannelKey, _seqs: Sequence[int]) -> list[StoredSummary]:
        return []

    def put_erased(self, key: ChannelKey, ids: Sequence[str]) -> None:
        pass

    def summary(self, summary_id: str) -> bytes:
        raise KeyError(summary_id)

    def put_summaries(self, summaries: Sequence[StoredSummary]) -> None:
        pass


def dialogue_files(paths: Iterable[Path]) -> list[Path]:
    """Files as they are, and of folders the JSON Lines files in them."""
    return [file for path in paths for file in (sorted(path.rglob("*.jsonl")) if path.is_dir() else [path])]


def read_channels(
    path: Path, format: str = "auto", *, namespace: str = DEFAULT_NAMESPACE
) -> tuple[dict[ChannelKey, list[Message]], int]:
    """The messages of a file in any known format by channel, and how many entries are none.

    Raises:
        FormatError: the file cannot be read.
    """
    channels, refused = dict[ChannelKey, list[Message]](), 0
    for received in read_file(path, format):
        try:
            if isinstance(received.value, MessageError):
                raise received.value
            message = parse_message(received.value, namespace=namespace)
        except MessageError:
            refused += 1
        else:
            channels.setdefault(message.key, []).append(message)
    return channels, refused


def record_dialogue(path: Path, embedder: Embedder | None, chunker: Chunker | None = None) -> Dialogue:
    """Read a file of one channel in any known format and record it.

    Raises:
        BenchmarkError: the file holds no message.
        FormatError: the file cannot be read.
    """
    channels, _ = read_channels(path)
    if not channels:
        raise BenchmarkError(f"{path} holds no message")
    return record_channel(next(iter(channels.values())), embedder, chunker)


def record_channel(
    messages: Sequence[Message], embedder: Embedder | None, chunker: Chunker | None = None
) -> Dialogue:
    """Record the messages of one channel, at least one; what cannot be admitted is left out."""
    key = messages[0].key
    histories = Histories(Unstored(), embedder, chunker or Chunker())
    history, cutting = histories[key], Cutting(WindowCutter(), key)
    admission = Admission(AdmissionState.over(history))
    events = list[Event]()
    for message in messages:
        with suppress(MessageError):
            events += admission.admit(message, history)
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
