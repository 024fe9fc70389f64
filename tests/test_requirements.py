"""What the product imports is what its package requires."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = ("backscroll", "operators", "connectors", "flows", "benchmarks", "web", "training")
# Parts of what is required, imported by their own names.
BROUGHT_BY = {
    "annotated_types": "pydantic",
    "pydantic_core": "pydantic",
    "starlette": "fastapi",
    "typing_extensions": "pydantic",
}
STUBS = {"_typeshed"}  # for type checkers alone


def distribution(requirement: str) -> str:
    """The name of a required package, normalised."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def test_every_imported_package_is_required_by_the_base_or_an_extra() -> None:
    extras = {name: found for name, found in PROJECT["optional-dependencies"].items() if name != "dev"}
    required = {distribution(one) for group in (PROJECT["dependencies"], *extras.values()) for one in group}
    assert set(BROUGHT_BY.values()) <= required
    providers = packages_distributions()
    undeclared = set()
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            tops = {name.split(".")[0] for name in names}
            for top in tops - sys.stdlib_module_names - {"backscroll"} - STUBS:
                # Extras need not be installed here: those are named as they are imported.
                found = {distribution(one) for one in (*providers.get(top, []), top)} | {BROUGHT_BY.get(top)}
                if not found & required:
                    undeclared.add(f"{path.relative_to(ROOT)}: {top}")
    assert undeclared == set()
