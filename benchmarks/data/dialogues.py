"""Cut dialogues into windows and record them as a history, as a replay does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from backscroll.benchmarks.data.gaps import BenchmarkError
from backscroll.connectors.files.formats import read_file
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.histories import Histories
from backscroll.operators.history.in_memory import InMemoryStore
from backscroll.operators.history.offline import OfflineChannel
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.messages import (
    DEFAULT_NAMESPACE,
    ChannelKey,
    Message,
    MessageError,
    Turn,
    parse_message,
)
from backscroll.operators.stream.windows import Window

__all__ = [
    "Dialogue",
    "dialogue_files",
    "read_channels",
    "read_messages",
    "record_channel",
    "record_dialogue",
]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A channel with its recorded history and all its windows, including the open one at the end."""

    key: ChannelKey
    histories: Histories
    windows: tuple[Window, ...]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns."""
        return tuple(turn for window in self.windows for turn in window.turns)


def dialogue_files(paths: Iterable[Path]) -> list[Path]:
    """The files, with each folder replaced by the JSON Lines files in it."""
    return [file for path in paths for file in (sorted(path.rglob("*.jsonl")) if path.is_dir() else [path])]


def read_channels(
    path: Path, format: str = "auto", *, namespace: str = DEFAULT_NAMESPACE
) -> tuple[dict[ChannelKey, list[Message]], int]:
    """The messages of a file in any known format by channel, and the number of invalid entries.

    Raises:
        FormatError: the file cannot be read.
    """
    messages, refused = read_messages(path, format, namespace=namespace)
    channels = dict[ChannelKey, list[Message]]()
    for message in messages:
        channels.setdefault(message.key, []).append(message)
    return channels, refused


def read_messages(
    path: Path, format: str = "auto", *, namespace: str = DEFAULT_NAMESPACE
) -> tuple[list[Message], int]:
    """The messages of a file in any known format, in its order, and the number of invalid entries.

    Raises:
        FormatError: the file cannot be read.
    """
    messages, refused = list[Message](), 0
    for received in read_file(path, format):
        try:
            if isinstance(received.value, MessageError):
                raise received.value
            messages.append(parse_message(received.value, namespace=namespace))
        except MessageError:
            refused += 1
    return messages, refused


def record_dialogue(path: Path, embedder: Embedder | None, chunker: Chunker | None = None) -> Dialogue:
    """Read a file of one channel in any known format and record it.

    Raises:
        BenchmarkError: the file contains no messages.
        FormatError: the file cannot be read.
    """
    channels, _ = read_channels(path)
    if not channels:
        raise BenchmarkError(f"{path} contains no messages: expected a chat file")
    return record_channel(next(iter(channels.values())), embedder, chunker)


def record_channel(
    messages: Sequence[Message], embedder: Embedder | None, chunker: Chunker | None = None
) -> Dialogue:
    """Record the messages of one channel (at least one); messages that are not admitted are skipped."""
    key = messages[0].key
    histories = Histories(InMemoryStore(), embedder, chunker or Chunker())
    channel = OfflineChannel(histories, key)
    for message in messages:
        with suppress(MessageError):
            channel.add(message)
    return Dialogue(key, histories, tuple(window.live for window in channel.windows))
