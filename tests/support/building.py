"""What tests are built from: turns, windows, histories and a small real embedder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from backscroll.operators.history.channel import AsOf, ChannelHistory
from backscroll.operators.history.chunks import Chunker
from backscroll.operators.history.columns import RecordedWindow
from backscroll.operators.index.bm25 import tokenize
from backscroll.operators.index.embedder import Vectors
from backscroll.operators.language.tokens import count
from backscroll.operators.messages import Author, ChannelKey, Message, Turn
from backscroll.operators.stream.windows import Window, WindowRef

KEY = ChannelKey("default", "general")
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def message(
    id_: str,
    text: str,
    author: str = "Ana",
    minute: int = 0,
    *,
    key: ChannelKey = KEY,
    thread: str | None = None,
    reply_to: str | None = None,
    permalink: str | None = None,
    bot: bool = False,
) -> Message:
    """A posted message, `minute` minutes after `START`."""
    ts = START + timedelta(minutes=minute)
    author_ = Author(author, author, bot)
    return Message("post", key, id_, ts, author_, text, thread, reply_to, permalink)


def turn(
    seq: int,
    text: str,
    author: str = "Ana",
    minute: int | None = None,
    *,
    id_: str | None = None,
    thread: str | None = None,
    reply_to: str | None = None,
    permalink: str | None = None,
    bot: bool = False,
    late: bool = False,
) -> Turn:
    """The turn of a message `m<seq>`, as admission makes it; `minute` is `seq` unless given."""
    post = message(
        id_ or f"m{seq}",
        text,
        author,
        seq if minute is None else minute,
        thread=thread,
        reply_to=reply_to,
        permalink=permalink,
        bot=bot,
    )
    tokens = count(f"{author}: {text}\n")
    return Turn(
        seq, post.id, post.ts, post.author, text, tokens, post.digest, thread, reply_to, permalink, late
    )


def sized(seq: int, tokens: int, minute: int | None = None) -> Turn:
    """A turn of exactly `tokens` tokens (at least 4), of which three are `Ana`, `:` and the line break."""
    built = turn(seq, " ".join(["word"] * (tokens - 3)), minute=minute)
    assert built.tokens == tokens
    return built


def window(turns: Iterable[Turn], index: int = 0, *, key: ChannelKey = KEY, final: bool = True) -> Window:
    """A window of these turns."""
    turns = tuple(turns)
    return Window(WindowRef(key, index, turns[0].seq, turns[-1].seq, final=final), turns)


def windows_of(texts: Iterable[Sequence[str]]) -> list[Window]:
    """Windows of consecutive turns by Ana, one for each series of texts."""
    built = list[Window]()
    seq = 0
    for index, series in enumerate(texts):
        built.append(window([turn(seq + place, text) for place, text in enumerate(series)], index))
        seq += len(series)
    return built


def recorded(closed: Window, embedder: HashingEmbedder | None, chunker: Chunker) -> RecordedWindow:
    """A window with its chunks and vectors, as `Histories.record` computes them."""
    chunks = chunker.chunk(closed.turns)
    if embedder is None:
        return RecordedWindow(closed, chunks, None, None)
    return RecordedWindow(
        closed,
        chunks,
        embedder.embed_passages([chunk.text for chunk in chunks]),
        embedder.embed_passages([turn.rendered for turn in closed.turns]),
    )


def history_of(
    windows: Iterable[Window], *, embedder: HashingEmbedder | None = None, chunker: Chunker | None = None
) -> ChannelHistory:
    """A hot history of these windows."""
    history = ChannelHistory(KEY, embedder.dimensions if embedder else None)
    for closed in windows:
        history.append(recorded(closed, embedder, chunker or Chunker()))
    return history


class HashingEmbedder:
    """Bags of words: every word adds one, or takes one away, in a dimension picked by its hash."""

    name = "hashing"
    fingerprint = "hashing-64"
    dimensions = 64

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32 `[texts, 64]`; a text without a word gets the first axis."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in tokenize(text):
                digest = blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest()
                row[digest[0] % self.dimensions] += 1 if digest[1] % 2 else -1
            if not row.any():
                row[0] = 1
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Queries are encoded like passages."""
        return self.embed_passages(texts)


def cosines(past: AsOf, queries: Vectors) -> NDArray[np.float64]:
    """Cosine of every query to every chunk in sight, `[queries, chunks]`."""
    found = np.full((len(queries), past.chunks), np.nan)
    for row, nearest in zip(found, past.nearest(queries, past.chunks), strict=True):
        for position, cosine in nearest:
            row[position] = cosine
    return found
