"""Short chats as messages read for acts, for tests."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from backscroll.connectors.embedding.onnx import OnnxEmbedder
from backscroll.operators.acts.classifier import Acts, find_acts
from backscroll.operators.acts.reading import ReadMessage, read_messages
from backscroll.operators.language.salience import analyse_turns
from support.chats import chat


def read(*lines: str, minutes: int = 2) -> list[ReadMessage]:
    """The messages of lines `Author: text`, as in `chat`."""
    turns = chat(*lines, minutes=minutes)
    return read_messages(analyse_turns(turns), {turn.author.name for turn in turns})


def acts_of(*lines: str, vectors: bool = False, minutes: int = 2) -> list[Acts]:
    """What the messages of a chat do, by the packaged models."""
    messages = read(*lines, minutes=minutes)
    return find_acts(messages, embedded(tuple(one.turn.text for one in messages)) if vectors else None)


@cache
def embedded(texts: tuple[str, ...]) -> NDArray[np.float32]:
    """Texts as vectors of the packaged embedding model."""
    return _embedder().embed_passages(list(texts))


@cache
def _embedder() -> OnnxEmbedder:
    return OnnxEmbedder()
