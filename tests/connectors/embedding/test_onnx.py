from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from backscroll.connectors.embedding import onnx as onnx_embedder
from backscroll.connectors.embedding.onnx import OnnxEmbedder, multiplies_int8_exactly
from backscroll.connectors.embedding.packaged import EmbedderError, UnsupportedModelError, packaged_folder
from backscroll.connectors.embedding.sentence_transformers import SentenceTransformersEmbedder
from backscroll.flows.assembly.embedder import make_embedder
from backscroll.flows.settings.settings import load_settings

needs_vnni = pytest.mark.skipif(not multiplies_int8_exactly(), reason="needs a processor with VNNI")
TEXTS = [
    "Ana: the pump leaks\n",
    "",
    "Kim: Größe? 那个泵 🙂 half a pair: \ud83d",
    "Ana: " + "again and " * 300,
    "ok",
]
MEAN = {"pooling_mode": "mean", "include_prompt": True, "embedding_dimension": 24}
FIRST = {"word_embedding_dimension": 24, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}


def cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", left.astype(np.float64), right.astype(np.float64))


def write_model(folder: Path, *, pooling: Mapping[str, Any] = MEAN, **changes: Any) -> Path:
    """A small BERT sentence encoder with random weights, a limit of 16 word pieces, and prompts."""
    shape = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "hidden_act": "gelu",
        "vocab_size": 30522,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "max_position_embeddings": 32,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-6,
        **changes,
    }
    files: Mapping[str, Any] = {
        "config.json": shape,
        "modules.json": [
            {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for place, (kind, path) in enumerate([("Transformer", ""), ("Pooling", "1_Pooling")])
        ],
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": 16, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {"query": "find: ", "stored": "about: "},
            "default_prompt_name": "stored",
        },
    }
    (folder / "1_Pooling").mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    packaged = packaged_folder()
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(packaged / name, folder)
    save_file(random_weights(), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def random_weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    linear = {f"attention.self.{part}": (24, 24) for part in ("query", "key", "value")}
    linear |= {"attention.output.dense": (24, 24), "intermediate.dense": (40, 24), "output.dense": (24, 40)}
    norms = ["embeddings.LayerNorm"]
    shapes = dict[str, tuple[int, ...]]()
    for name, rows in (("word", 30522), ("position", 32), ("token_type", 2)):
        shapes[f"embeddings.{name}_embeddings.weight"] = (rows, 24)
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
        for name, shape in linear.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
    for name in norms:
        shapes |= {f"{name}.weight": (24,), f"{name}.bias": (24,)}
    return {name: random.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def minilm() -> OnnxEmbedder:
    return OnnxEmbedder()


@pytest.mark.torch
def test_the_packaged_model_gives_the_vectors_of_torch_but_for_last_bits(minilm: OnnxEmbedder) -> None:
    torch = SentenceTransformersEmbedder()
    texts = [text.encode("utf-8", "replace").decode() for text in TEXTS]
    theirs, ours = torch.embed_passages(texts), minilm.embed_passages(TEXTS)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    np.testing.assert_allclose(minilm.embed_queries(TEXTS), torch.embed_queries(texts), atol=1e-6)
    assert (minilm.name, minilm.fingerprint, minilm.dimensions) == (
        torch.name,
        torch.fingerprint,
        torch.dimensions,
    )


@pytest.mark.torch
@pytest.mark.parametrize("pooling", [MEAN, FIRST], ids=["mean", "first"])
def test_any_bert_encoder_gives_the_vectors_of_torch_with_its_prompts_pooling_and_limit(
    tmp_path: Path, pooling: Mapping[str, Any]
) -> None:
    model = str(write_model(tmp_path / "small", pooling=pooling))
    torch, ours = SentenceTransformersEmbedder(model), OnnxEmbedder(model)
    texts = ["the pump leaks", "one " * 40, ""]
    np.testing.assert_allclose(ours.embed_passages(texts), torch.embed_passages(texts), atol=1e-6)
    np.testing.assert_allclose(ours.embed_queries(texts), torch.embed_queries(texts), atol=1e-6)
    assert abs(ours.embed_queries(texts) - ours.embed_passages(texts)).max() > 0.01, "the prompts differ"
    assert ours.fingerprint == torch.fingerprint


def test_a_vector_is_identical_whatever_else_is_in_the_call_and_on_any_number_of_threads(
    minilm: OnnxEmbedder,
) -> None:
    together = minilm.embed_passages([*TEXTS, TEXTS[0]])
    np.testing.assert_array_equal(together[0], together[-1])
    alone = OnnxEmbedder(threads=1)
    np.testing.assert_array_equal(together[:-1], np.concatenate([alone.embed_passages([x]) for x in TEXTS]))


def test_no_texts_give_no_vectors(minilm: OnnxEmbedder) -> None:
    assert minilm.embed_queries([]).shape == (0, 384)


@needs_vnni
def test_int8_gives_similar_vectors_under_another_name_and_fingerprint(minilm: OnnxEmbedder) -> None:
    rounded = OnnxEmbedder(precision="int8")
    near = cosines(rounded.embed_passages(TEXTS), minilm.embed_passages(TEXTS))
    assert near.min() > 0.97
    assert near.max() < 0.9999
    assert rounded.name == "all-MiniLM-L6-v2 (int8)"
    assert rounded.fingerprint == "all-MiniLM-L6-v2-53aa5117-int8"
    alone = np.concatenate([rounded.embed_passages([text]) for text in TEXTS])
    np.testing.assert_array_equal(rounded.embed_passages(TEXTS), alone)


def test_int8_is_refused_if_the_processor_would_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_embedder, "multiplies_int8_exactly", lambda: False)
    with pytest.raises(EmbedderError, match="int8 needs a processor with VNNI"):
        OnnxEmbedder(precision="int8")


def test_torch_is_not_loaded() -> None:
    code = (
        "import sys; from backscroll.connectors.embedding.onnx import OnnxEmbedder; "
        "OnnxEmbedder(); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model_type": "roberta"}, "its model_type is 'roberta', not 'bert'"),
        ({"hidden_act": "relu"}, "its hidden_act is 'relu', not 'gelu'"),
        ({"pooling": {"pooling_mode": "max"}}, "its pooling is neither mean nor first token"),
        ({"num_hidden_layers": 3}, "weight 'encoder.layer.2.attention.self.query.weight' is missing"),
    ],
)
def test_the_error_for_an_unsupported_model_gives_the_reason(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    model = str(write_model(tmp_path / "small", **change))
    with pytest.raises(UnsupportedModelError) as caught:
        OnnxEmbedder(model)
    assert str(caught.value) == f"embedding model {model!r} does not run on ONNX: {reason}"


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json", "modules.json"])
def test_a_model_with_a_missing_file_is_refused(tmp_path: Path, name: str) -> None:
    model = write_model(tmp_path / "small")
    (model / name).unlink()
    with pytest.raises(UnsupportedModelError, match=name):
        OnnxEmbedder(str(model))


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json", "modules.json"])
def test_a_model_with_a_damaged_file_is_refused(tmp_path: Path, name: str) -> None:
    model = write_model(tmp_path / "small")
    (model / name).write_bytes(b"\xff\x00{")
    with pytest.raises(UnsupportedModelError, match=r"does not run on ONNX: it(s \w+)? cannot be read"):
        OnnxEmbedder(str(model))


def test_onnx_is_the_default() -> None:
    assert isinstance(make_embedder(load_settings({})), OnnxEmbedder)


@pytest.mark.torch
def test_torch_runs_what_onnx_cannot(tmp_path: Path) -> None:
    model = str(write_model(tmp_path / "small", hidden_act="relu"))
    assert isinstance(make_embedder(load_settings({"embedding_model": model})), SentenceTransformersEmbedder)
    with pytest.raises(UnsupportedModelError, match="its hidden_act is 'relu'"):
        make_embedder(load_settings({"embedding_model": model, "embedding_backend": "onnx"}))
    torch = make_embedder(load_settings({"embedding_backend": "torch"}))
    assert isinstance(torch, SentenceTransformersEmbedder)


@pytest.mark.torch
def test_without_onnxruntime_torch_runs_the_model_unless_onnx_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "backscroll.connectors.embedding.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert isinstance(make_embedder(load_settings({})), SentenceTransformersEmbedder)
    with pytest.raises(UnsupportedModelError, match="needs onnxruntime: pip install onnx onnxruntime"):
        make_embedder(load_settings({"embedding_backend": "onnx"}))


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sentence_transformers", "torch"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("without_torch")
def test_without_torch_a_model_that_needs_it_names_the_extra(tmp_path: Path) -> None:
    model = str(write_model(tmp_path / "small", hidden_act="relu"))
    refused = f"embedding model {model!r} does not run on ONNX: its hidden_act is 'relu', not 'gelu'"
    for backend, said in [
        ("auto", f"{refused}; to use torch instead: pip install 'backscroll[torch]'"),
        ("onnx", refused),
        ("torch", "the torch backend needs sentence_transformers: pip install 'backscroll[torch]'"),
    ]:
        with pytest.raises(EmbedderError) as caught:
            make_embedder(load_settings({"embedding_model": model, "embedding_backend": backend}))
        assert str(caught.value) == said


@pytest.mark.usefixtures("without_torch")
@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_without_onnx_and_torch_both_commands_are_named(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    for module in ("onnx", "bert_graph", "bert"):
        monkeypatch.delitem(sys.modules, f"backscroll.connectors.embedding.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnsupportedModelError) as caught:
        make_embedder(load_settings({}))
    assert str(caught.value) == (
        f"the ONNX backend needs {package}: pip install onnx onnxruntime; "
        "to use torch instead: pip install 'backscroll[torch]'"
    )
