from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backscroll.operators.history.channel import AsOf
from backscroll.operators.memory import registry
from backscroll.operators.memory.registry import MemoryStrategyError
from backscroll.operators.memory.request import (
    Memory,
    MemoryParameters,
    MemoryRequest,
    MemoryStatement,
    MemoryStrategy,
    MemoryTurn,
    Needs,
)
from backscroll.operators.memory.verbatim import build_verbatim
from backscroll.operators.messages import Turn
from support.building import history_of, turn, windows_of

SAMPLE = Path(__file__).resolve().parents[3] / "samples" / "harbor.jsonl"
FIRST = '''
from backscroll.operators.memory.request import Memory, MemoryTurn, Needs

class First:
    """The first message of the channel."""

    name = "first"
    needs = Needs()

    async def build(self, request):
        if not request.history.before_seq:
            return Memory()
        turn = request.history.turn(0)
        return Memory((MemoryTurn(turn, None, turn.tokens),), degraded="memory: only the first")

class Asking:
    name = "asking"
    needs = Needs(model=True)

    async def build(self, request):
        return Memory()

nothing = object()
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on `sys.path`, here and in child processes, with a module of memory strategies."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "first_memory.py").write_text(FIRST)
    return tmp_path


def replay(folder: Path, *options: str) -> list[str]:
    """Replay the sample in a separate process; returns the lines of a user error."""
    plain = ("--embedding-model", "none", "--window", "256", "--out", "out.jsonl")
    command = [sys.executable, "-m", "backscroll.flows.cli.main", "replay", str(SAMPLE), *plain, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2), done.stderr
    return [] if done.returncode == 0 else done.stderr.splitlines()[-1:]


def install(folder: Path, package: str, **memories: str) -> None:
    """Create the metadata that pip leaves for a package that adds memory strategies."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in memories.items()]
    (info / "entry_points.txt").write_text("\n".join(["[backscroll.memories]", *lines, ""]))


def test_every_strategy_has_the_name_it_is_registered_under() -> None:
    assert registry.names()[0] == "backscroll"
    assert [registry.get(name).name for name in registry.names()] == list(registry.names())


def test_extending_a_registry_does_not_change_the_original() -> None:
    more = registry.MEMORIES.extended({"latest": "backscroll.operators.memory.baselines:RECENT"})
    assert more.names() == (*registry.names(), "latest")
    assert more.get("latest") is more.get("recent")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    known = ", ".join(registry.names())
    with pytest.raises(MemoryStrategyError, match=f"^unknown memory strategy 'recnt': choose from {known}$"):
        registry.get("recnt")


def test_a_package_adds_a_memory_that_a_replay_can_use(installed: Path) -> None:
    install(installed, "first-memory", first="first_memory:First")
    assert registry.names()[-1] == "first"
    assert replay(installed, "--strategy", "first") == []
    opening, *later = [json.loads(line) for line in (installed / "out.jsonl").read_text().splitlines()]
    first = json.loads(SAMPLE.read_text().splitlines()[0])["id"]
    assert (opening["memory"], opening["degraded"], len(later) > 1) == ([], None, True)
    for record in later:
        assert [entry["id"] for entry in record["memory"]] == [first]
        assert (record["strategy"], record["degraded"]) == ("first", "memory: only the first")
        assert record["summary_id"].endswith(":first")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("no_such_module:First", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("first_memory:Last", "cannot be loaded: AttributeError: .* no attribute 'Last'"),
        ("first_memory:nothing", "is not a MemoryStrategy: first_memory:nothing needs name, needs and build"),
        ("first_memory:First", "is named 'first' in its code: use one name in both"),
    ],
)
def test_a_memory_that_cannot_be_used_names_its_package(installed: Path, value: str, error: str) -> None:
    install(installed, "first-memory", mine=value)
    assert registry.names()[-1] == "mine"  # not loaded to be listed
    with pytest.raises(MemoryStrategyError, match=f"^package first-memory: memory strategy 'mine' {error}$"):
        registry.MEMORIES.extended({}).get("mine")


def test_two_packages_cannot_use_the_same_name(installed: Path) -> None:
    install(installed, "first-memory", first="first_memory:First")
    install(installed, "other-memory", first="first_memory:First")
    with pytest.raises(
        MemoryStrategyError, match=r"'first' is also defined by package \w+-memory: uninstall one"
    ):
        registry.MEMORIES.extended({}).get("first")


def test_a_package_cannot_use_the_name_of_a_built_in_strategy(installed: Path) -> None:
    install(installed, "first-memory", recent="first_memory:First")
    assert registry.MEMORIES.extended({}).get("recent").name == "recent"
    assert replay(installed) == [
        "Error: package first-memory: memory strategy 'recent' is built in: use another name"
    ]


def test_the_engine_refuses_a_memory_that_needs_a_model(installed: Path) -> None:
    install(installed, "first-memory", asking="first_memory:Asking")
    assert replay(installed, "--strategy", "asking") == [
        "Error: strategy: memory strategy 'asking' needs a language model: "
        "use it with `bench memory` only (it is 'asking')"
    ]


class Awaiting:
    name = "awaiting"
    needs = Needs()

    async def build(self, request: MemoryRequest) -> Memory:
        await Later()
        return await registry.get("none").build(request)


class Later:
    def __await__(self):  # type: ignore[no-untyped-def]
        yield


class Stating:
    name = "stating"
    needs = Needs()

    async def build(self, request: MemoryRequest) -> Memory:
        return Memory((MemoryStatement("It rained.", range(request.history.before_seq), 4),))


class Returning:
    """A strategy whose `build` returns what it is given."""

    name = "returning"
    needs = Needs()

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    async def build(self, request: MemoryRequest) -> Any:
        del request
        return self._memory


class NotAsync:
    name = "not-async"
    needs = Needs()

    def build(self, request: MemoryRequest) -> Memory:
        del request
        return Memory()


def remembering(*turns: Turn) -> Returning:
    return Returning(Memory(tuple(MemoryTurn(item, None, item.tokens) for item in turns)))


@pytest.mark.parametrize(
    ("strategy", "error"),
    [
        (Awaiting(), "'awaiting' awaits in build: set needs.model, or do not await"),
        (Stating(), "'stating' returns statements: return verbatim turns"),
        (NotAsync(), "'not-async' has a build that is not async: define it with `async def`"),
        (Returning(None), "'returning' returns NoneType: return a Memory"),
        (
            remembering(turn(0, "pump"), turn(2, "leak")),
            "'returning' returns turn 2: the history in view ends before turn 2",
        ),
        (
            remembering(replace(turn(1, ""), deleted=True)),
            "'returning' returns turn 1, which was deleted: leave out deleted turns",
        ),
        (
            remembering(*(turn(seq % 2, "pump " * 100) for seq in range(11))),
            f"'returning' returns {11 * turn(0, 'pump ' * 100).tokens} tokens: "
            "keep within the budget of 1024",
        ),
    ],
)
def test_a_memory_for_a_summary_holds_only_earlier_turns_within_the_budget(
    strategy: MemoryStrategy, error: str
) -> None:
    past: AsOf = history_of(windows_of([["pump", "valve"], ["leak"]])).as_of(2)
    with pytest.raises(MemoryStrategyError) as raised:
        build_verbatim(strategy, MemoryRequest((), (), past))
    assert str(raised.value) == f"memory strategy {error}"


def test_a_memory_may_fill_the_budget() -> None:
    history = history_of(windows_of([["pump", "valve"], ["leak"]]))
    past = history.as_of(2)
    tokens = sum(past.turn(seq).tokens for seq in (0, 1))
    request = MemoryRequest((), (), past, MemoryParameters(budget=tokens))
    memory = build_verbatim(remembering(past.turn(0), past.turn(1)), request)
    assert [item.turn.text for item in memory.turns] == ["pump", "valve"]
