"""Cache vectors in a file, so that a second training run embeds nothing."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from backscroll.operators.index.embedder import Embedder, Vectors

__all__ = ["KeptVectors"]


class KeptVectors:
    """An embedder with a cache; `save` writes it to a file."""

    def __init__(self, embedder: Embedder, path: Path | None) -> None:
        self._embedder = embedder
        self._path = path
        self._kept: dict[bytes, Vectors] = {}
        self.name, self.fingerprint, self.dimensions = (
            embedder.name,
            embedder.fingerprint,
            embedder.dimensions,
        )
        if path is not None and path.exists():
            with np.load(path) as file:
                self._kept = {
                    bytes(key): vector for key, vector in zip(file["keys"], file["vectors"], strict=True)
                }

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32 `[texts, dimensions]`."""
        return self._look_up("passage", texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32 `[texts, dimensions]`."""
        return self._look_up("query", texts)

    def save(self) -> None:
        """Write all vectors to the file, if there is one."""
        if self._path is not None and self._kept:
            keys = np.array([np.frombuffer(key, np.uint8) for key in self._kept])
            np.savez(self._path, keys=keys, vectors=np.array(list(self._kept.values())))

    def _look_up(self, kind: str, texts: Sequence[str]) -> Vectors:
        keys = [blake2b(f"{kind}:{text}".encode(), digest_size=16).digest() for text in texts]
        missing = [text for key, text in zip(keys, texts, strict=True) if key not in self._kept]
        if missing:
            embed = self._embedder.embed_queries if kind == "query" else self._embedder.embed_passages
            self._kept |= dict(
                zip((key for key in keys if key not in self._kept), embed(missing), strict=True)
            )
        return np.array([self._kept[key] for key in keys], np.float32).reshape(-1, self.dimensions)
