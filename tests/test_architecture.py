"""The house: which room may import which, without circles, and what the wheel takes along."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import backscroll

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "operators": {"operators"},
    "connectors": {"operators", "connectors"},
    "benchmarks": {"operators", "connectors", "benchmarks"},
    "training": {"operators", "connectors", "benchmarks", "training"},
    "web": {"operators", "connectors", "web"},
    "flows": {"operators", "connectors", "benchmarks", "web", "flows"},
}
# Rooms of `operators`, each may import those on the lines below it, and none on its own line.
FLOORS = (
    {"steps"},
    {"channel_logic"},
    {"state_types"},
    {"in_flight"},
    {"engine"},
    {"catchup"},
    {"summary"},
    {"memory"},
    {"gaps"},
    {"history", "llm"},
    {"stream"},
    {"acts"},
    {"index", "language"},
    {"messages", "runtime"},
    {"errors"},
)
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def modules() -> Iterator[Path]:
    """Every module of the product, relative to the root."""
    for package in MAY_IMPORT:
        yield from (path.relative_to(ROOT) for path in sorted((ROOT / package).rglob("*.py")))


def imported(path: Path) -> Iterator[Path]:
    """The modules of the product that a module imports anywhere, relative to the root."""
    yield from imports_of((ROOT / path).read_text(encoding="utf-8"))


def imports_of(code: str) -> Iterator[Path]:
    """The modules of the product that code imports; relative imports are refused by ruff."""
    for node in ast.walk(ast.parse(code)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, *parts = backscroll._HOMES.get(name.removeprefix("backscroll."), name).split(".")
            while first == "backscroll" and parts:
                module, package = Path(*parts).with_suffix(".py"), Path(*parts, "__init__.py")
                if found := next((one for one in (module, package) if (ROOT / one).is_file()), None):
                    yield found
                    break
                parts.pop()  # a name in a module


def room(path: Path) -> str:
    """The folder of a module; a module at the top of a package is a room of its own."""
    return str(path.parent if len(path.parts) > 2 else path.with_suffix(""))


def arrows() -> Mapping[str, Set[str]]:
    """Which rooms each room imports."""
    found = defaultdict(set)
    for path in modules():
        for other in imported(path):
            if room(other) != room(path):
                found[room(path)].add(room(other))
    return found


@pytest.mark.parametrize(
    ("code", "module"),
    [
        ("from backscroll import KafkaSource", "connectors/kafka/source.py"),
        ("from backscroll.connectors import lancedb", "connectors/lancedb/__init__.py"),
        ("import backscroll.connectors.lancedb", "connectors/lancedb/__init__.py"),
        ("from backscroll.operators.gaps import stage as gaps", "operators/gaps/stage.py"),
        ("def load():\n    from backscroll.web.api import router", "web/api.py"),
    ],
)
def test_an_import_is_seen_however_it_is_written(code: str, module: str) -> None:
    assert list(imports_of(code)) == [Path(module)]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    wrong = [
        f"{path} imports {other}"
        for path in modules()
        for other in imported(path)
        if path.parts[0] == package and other.parts[0] not in MAY_IMPORT[package]
    ]
    assert wrong == []


def test_the_rooms_of_operators_import_downwards() -> None:
    floor = {f"operators/{name}": level for level, names in enumerate(FLOORS) for name in names}
    assert {
        room(path) for path in modules() if path.parts[0] == "operators" and path.stem != "__init__"
    } == set(floor)
    wrong = [
        f"{source} imports {target}"
        for source, targets in arrows().items()
        for target in sorted(targets)
        if source in floor and floor[target] <= floor[source]
    ]
    assert wrong == []


def test_no_rooms_import_each_other_in_a_circle() -> None:
    try:
        list(TopologicalSorter(arrows()).static_order())
    except CycleError as err:
        pytest.fail(" -> ".join(err.args[1]))


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        list(TopologicalSorter({path: set(imported(path)) for path in modules()}).static_order())
    except CycleError as err:
        pytest.fail(" -> ".join(map(str, err.args[1])))


def test_the_page_on_the_layout_describes_every_room_as_its_package_does() -> None:
    page = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)/` \| (.+) \|$", page, re.MULTILINE)
    sections = re.findall(r"^## `(\S+)/`\n\n(.+)$", page, re.MULTILINE)
    packages = {
        path.parent: (ROOT / path).read_text(encoding="utf-8")
        for path in modules()
        if path.stem == "__init__"
    }
    assert dict(rows + sections) == {
        str(path): ast.get_docstring(ast.parse(text)) for path, text in packages.items()
    }
    (floors,) = re.findall(r"^```\n(steps .*?)^```", page, re.MULTILINE | re.DOTALL)
    assert [set(floor.split(", ")) for floor in " ".join(floors.split()).split(" > ")] == list(FLOORS)


def test_every_package_is_installed_under_the_name_backscroll() -> None:
    folders = {path.parent for path in modules()}
    assert set(SETUPTOOLS["packages"]) == {
        "backscroll",
        *(f"backscroll.{'.'.join(path.parts)}" for path in folders),
    }
    assert all((ROOT / folder / "__init__.py").is_file() for folder in folders)
    tops = {f"backscroll.{package}": package for package in MAY_IMPORT}
    assert SETUPTOOLS["package-dir"] == {"backscroll": "backscroll", **tops}


def test_every_data_file_is_installed() -> None:
    packed = set()
    for package, patterns in SETUPTOOLS["package-data"].items():
        folder = ROOT.joinpath(*package.split(".")[1:] or ["backscroll"])
        for pattern in patterns:
            matching = {path for path in folder.glob(pattern) if path.is_file()}
            assert matching, f"{package}: {pattern} is out of date"
            packed |= matching
    files = {
        path
        for package in ("backscroll", *MAY_IMPORT)
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert files == packed
    assert len(files) > 50


def test_the_checker_of_types_sees_every_package() -> None:
    links = {path.name: path.resolve() for path in (ROOT / ".typing" / "backscroll").iterdir()}
    own = {path.name: path for path in (ROOT / "backscroll").glob("*.py")}
    assert links == {**own, **{package: ROOT / package for package in MAY_IMPORT}}


def test_no_module_prints() -> None:
    """Chat is private: what goes to the terminal goes through the commands, and nothing to a log."""
    calls = [
        f"{path}:{node.lineno}"
        for path in modules()
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert calls == []
