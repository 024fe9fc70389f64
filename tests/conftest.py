from __future__ import annotations

from pathlib import Path

import pytest

from backscroll.connectors.embedding.packaged import INSTALL_TORCH, torch_is_installed

REPOSITORY = Path(__file__).resolve().parents[1]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("torch") and not torch_is_installed():
        pytest.skip(f"needs torch: make parity, or {INSTALL_TORCH}")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the repository, with data sets too large to keep in it."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"needs the data in {folder}, which is not here")
    return folder


@pytest.fixture(scope="session")
def sample() -> Path:
    """The sample chat that ships with the repository."""
    return REPOSITORY / "samples" / "harbor.jsonl"
