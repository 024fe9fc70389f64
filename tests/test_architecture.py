"""Arrows point one way: flows to operators and connectors, connectors to operators."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "operators": {"operators"},
    "connectors": {"operators", "connectors"},
    "benchmarks": {"operators", "connectors", "benchmarks"},
    "training": {"operators", "connectors", "benchmarks", "training"},
    "web": {"operators", "connectors", "web"},
    "flows": {"operators", "connectors", "benchmarks", "web", "flows"},
}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    wrong = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            for name in names:
                top = name.split(".")[0]
                if top in MAY_IMPORT and top not in MAY_IMPORT[package]:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


@pytest.mark.parametrize(
    ("package", "least"),
    [("operators", 20), ("web", 20), ("connectors", 0), ("flows", 0), ("benchmarks", 0)],
)
def test_every_data_file_of_a_package_is_installed_with_it(package: str, least: int) -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = setuptools["package-data"].get(package, [])
    packed = {path for pattern in patterns for path in (ROOT / package).glob(pattern)}
    files = {
        path for path in (ROOT / package).rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert files - packed == set()
    assert len(files) >= least
    assert all([*(ROOT / package).glob(pattern)] for pattern in patterns)  # no pattern is out of date


def test_every_package_is_installed() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert set(setuptools["packages"]) == set(MAY_IMPORT) - {"training"}


def test_no_module_writes_message_text_to_a_log() -> None:
    """Chat is private: product modules do not print, and do not log at all."""
    calls = []
    for package in MAY_IMPORT:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                    calls.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert calls == []
