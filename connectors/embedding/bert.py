"""Read a BERT encoder from a sentence-transformers folder, without that package: shape, prompts, weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from backscroll.connectors.embedding.bert_graph import BertConfig
from backscroll.connectors.embedding.packaged import DEFAULT_MODEL, UnsupportedModelError, packaged_folder

__all__ = ["SentenceBert"]

_MODULES = ("Transformer", "Pooling", "Normalize")
_FILES = ["*.json", "*/config.json", "model.safetensors"]
_NEEDED = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}


@dataclass(frozen=True, slots=True)
class SentenceBert:
    """A sentence encoder: BERT, mean or first-token pooling, unit vectors.

    Args:
        folder: the folder with its tokenizer and weights.
        config: the shape of the encoder.
        most_tokens: the longest input in word pieces, including the two special ones; longer texts are cut.
        query_prompt: put before each query.
        passage_prompt: put before each stored text.
    """

    folder: Path
    config: BertConfig
    most_tokens: int
    query_prompt: str
    passage_prompt: str

    @classmethod
    def read(cls, model: str) -> SentenceBert:
        """Read a hub id, a folder, or the packaged model.

        Raises:
            UnsupportedModelError: the model is not such an encoder, or a file is missing or damaged.
            EmbedderError: the packaged model is missing or damaged.
        """
        folder = packaged_folder() if model == DEFAULT_MODEL else _folder(model)
        try:
            return cls._read(folder)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as err:
            reason = f"{type(err).__name__}: {err}".splitlines()[0]
            raise UnsupportedModelError(f"it cannot be read ({reason})") from err

    @classmethod
    def _read(cls, folder: Path) -> SentenceBert:
        modules = _json(folder / "modules.json")
        kinds = tuple(module["type"].rpartition(".")[2] for module in modules)
        if kinds not in (_MODULES, _MODULES[:2]) or modules[0]["path"]:
            raise UnsupportedModelError(f"it consists of {', '.join(kinds)}, not of {', '.join(_MODULES)}")
        bert = _json(folder / "config.json")
        for name, value in _NEEDED.items():
            if bert.get(name, value) != value:
                raise UnsupportedModelError(f"its {name} is {bert[name]!r}, not {value!r}")
        for file in ("model.safetensors", "tokenizer.json"):
            if not (folder / file).is_file():
                raise UnsupportedModelError(f"it has no {file}")
        sentences = _optional(folder / "sentence_bert_config.json")
        longest = sentences.get("max_seq_length") or _optional(folder / "tokenizer_config.json").get(
            "model_max_length", bert["max_position_embeddings"]
        )
        settings = _optional(folder / "config_sentence_transformers.json")
        prompts = settings.get("prompts") or {}
        default = prompts.get(settings.get("default_prompt_name")) or ""
        return cls(
            folder=folder,
            config=BertConfig(
                layers=bert["num_hidden_layers"],
                heads=bert["num_attention_heads"],
                epsilon=bert.get("layer_norm_eps", 1e-12),
                pooling=_pooling(_json(folder / modules[1]["path"] / "config.json")),
            ),
            most_tokens=int(min(longest, bert["max_position_embeddings"])),
            query_prompt=(prompts["query"] or "") if "query" in prompts else default,
            passage_prompt=default,
        )

    def tokenizer(self) -> Tokenizer:
        """The tokenizer; it truncates texts to the model's limit and adds no padding.

        Raises:
            UnsupportedModelError: the file is damaged.
        """
        try:
            tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        except Exception as err:  # tokenizers raises only Exception
            raise UnsupportedModelError(f"its tokenizer cannot be read ({err})") from err
        tokenizer.enable_truncation(self.most_tokens)
        tokenizer.no_padding()
        return tokenizer

    def weights(self) -> Mapping[str, NDArray[np.float32]]:
        """The weights in single precision, by their names in a `BertModel`.

        Raises:
            UnsupportedModelError: the file is damaged.
        """
        try:
            loaded = load_file(self.folder / "model.safetensors")
        except (OSError, SafetensorError, TypeError, KeyError) as err:
            raise UnsupportedModelError(f"its weights cannot be read ({type(err).__name__}: {err})") from err
        return {
            name.removeprefix("bert."): values.astype(np.float32, copy=False)
            for name, values in loaded.items()
        }


def _pooling(config: Mapping[str, Any]) -> Literal["mean", "cls"]:
    """The pooling mode, from either form of the configuration: one name, or one flag per mode."""
    flags = {name for name, value in config.items() if name.startswith("pooling_mode_") and value}
    mode = config.get("pooling_mode", flags)
    if config.get("include_prompt", True) and mode in ("mean", {"pooling_mode_mean_tokens"}):
        return "mean"
    if config.get("include_prompt", True) and mode in ("cls", {"pooling_mode_cls_token"}):
        return "cls"
    raise UnsupportedModelError("its pooling is neither mean nor first token")


def _folder(model: str) -> Path:
    if Path(model).is_dir():
        return Path(model)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, allow_patterns=_FILES))
    except (OSError, ValueError) as err:
        raise UnsupportedModelError("it is neither a folder nor available on the hub") from err


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _optional(path: Path) -> Any:
    return _json(path) if path.is_file() else {}
