from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from backscroll.connectors.embedding.packaged import INSTALL_TORCH, torch_is_installed

REPOSITORY = Path(__file__).resolve().parents[1]

# A busy machine draws examples slowly, which is no fault of a test.
settings.register_profile("backscroll", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("backscroll")


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
