from __future__ import annotations

import ast
from pathlib import Path

from backscroll.operators import errors

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("operators", "connectors", "flows", "benchmarks", "web", "training")


def test_the_tree_of_errors_shows_every_class_below_the_base() -> None:
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for top in TOPS
        for path in (ROOT / top).rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    assert errors.__doc__ is not None
    drawn = [line.split("── ")[1].split()[0] for line in errors.__doc__.splitlines() if "── " in line]
    assert [name for name in drawn if name != "StoreError"] == sorted(
        name for name, of in bases.items() if "BackscrollError" in of
    )
    assert drawn[drawn.index("StoreError") - 1] == "HistoryError"
    assert bases["StoreError"] == ["HistoryError"]
