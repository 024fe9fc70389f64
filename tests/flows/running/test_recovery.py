"""Recovery partitions: created once, placed by process, moved for another number, never over state."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from backscroll.flows.cli.main import main
from backscroll.flows.running.recovery import prepare_recovery
from backscroll.flows.settings.settings import Settings, SettingsError


def said(*arguments: object) -> str:
    """The command's output on success."""
    done = CliRunner().invoke(main, ["recovery", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output.strip()


def refused(*arguments: object) -> str:
    """The command's error output."""
    done = CliRunner().invoke(main, ["recovery", *map(str, arguments)])
    assert done.exit_code == 2, done.output
    return done.output.strip().splitlines()[-1]


def here(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def parts(*numbers: int) -> list[str]:
    return sorted(f"part-{number}.sqlite3" for number in numbers)


def use(directory: Path) -> None:
    """Write to every partition as a dataflow does: here, its own number."""
    for path in directory.glob("part-*"):
        with closing(sqlite3.connect(path)) as database:
            number = int(path.stem.removeprefix("part-"))
            database.execute("INSERT INTO commits (part_index, commit_epoch) VALUES (?, 7)", [number])
            database.commit()


def state(directory: Path) -> dict[str, int]:
    """What each partition holds."""
    found = {}
    for path in directory.glob("part-*"):
        with closing(sqlite3.connect(path)) as database:
            found[path.name] = database.execute("SELECT part_index FROM commits").fetchone()[0]
    return found


def test_init_makes_what_is_missing_and_leaves_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "recovery"
    assert said("init", folder, "--parts", 3) == f"{folder}: partitions 0, 1, 2 of 3 created"
    use(folder)
    before = state(folder)
    assert said("init", folder, "--parts", 3) == f"{folder}: partitions 0, 1, 2 of 3 found"
    assert (here(folder), state(folder)) == (parts(0, 1, 2), before)


def test_every_process_with_a_disk_of_its_own_gets_every_nth_partition(tmp_path: Path) -> None:
    for number in range(3):
        said("init", tmp_path / str(number), "--parts", 8, "--process-id", number, "--processes", 3)
    found = [here(tmp_path / str(number)) for number in range(3)]
    assert found == [parts(0, 3, 6), parts(1, 4, 7), parts(2, 5)]


def test_an_interrupted_init_starts_over(tmp_path: Path) -> None:
    said("init", tmp_path, "--parts", 4)
    (tmp_path / "part-0.sqlite3").unlink()
    assert said("init", tmp_path, "--parts", 4) == f"{tmp_path}: partitions 0, 1, 2, 3 of 4 created"


def test_init_never_replaces_state(tmp_path: Path) -> None:
    said("init", tmp_path, "--parts", 4)
    use(tmp_path)
    assert "was created with 4 partitions, not 8: the number cannot" in refused("init", tmp_path)
    says = refused("init", tmp_path, "--parts", 4, "--process-id", 1, "--processes", 2)
    assert "has partitions 0, 1, 2, 3 of 4, but process 1 of 2 needs partitions 1, 3: stop" in says
    (tmp_path / "part-2.sqlite3").unlink()
    assert "has partitions 0, 1, 3 of 4, but the directory needs" in refused("init", tmp_path, "--parts", 4)
    assert here(tmp_path) == parts(0, 1, 3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--processes", 2], "--process-id must be set and less than --processes, which is 2"),
        (
            ["--process-id", 2, "--processes", 2],
            "--process-id must be set and less than --processes, which is 2",
        ),
        (
            ["--parts", 2, "--process-id", 0, "--processes", 3],
            "3 processes need at least 3 partitions: 2 are",
        ),
    ],
)
def test_an_impossible_placement_is_refused(tmp_path: Path, options: list[object], says: str) -> None:
    assert says in refused("init", tmp_path, *options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_spread_moves_every_partition_to_its_place_with_its_state(tmp_path: Path, processes: int) -> None:
    """From two disks to one, two or three; the third was initialised before."""
    disks = [tmp_path / str(number) for number in range(3)]
    for number in range(2):
        said("init", disks[number], "--parts", 5, "--process-id", number, "--processes", 2)
        use(disks[number])
    said("init", disks[2], "--parts", 5, "--process-id", 2, "--processes", 3)
    moved = {1: 2, 2: 0, 3: 3}[processes]
    for times in (moved, 0):
        says = said("spread", *disks, "--processes", processes)
        assert says == f"5 partitions in {processes} directories, {times} of them moved"
    for number, disk in enumerate(disks):
        own = range(number, 5, processes) if number < processes else ()
        assert state(disk) == {f"part-{part}.sqlite3": part for part in own}
        assert here(disk) == parts(*own)


def test_spread_changes_nothing_if_partitions_are_missing_or_exist_twice(tmp_path: Path) -> None:
    first, second = tmp_path / "0", tmp_path / "1"
    said("init", first, "--parts", 4, "--process-id", 0, "--processes", 2)
    use(first)
    assert "partitions 1, 3 of 4 are in none of the directories: list all directories" in refused(
        "spread", first, second
    )
    said("init", second, "--parts", 4)
    use(second)
    assert f"partition 0 is in {first} and {second}" in refused("spread", first, second)
    assert "2 processes need at least 2 directories: 1 given" in refused("spread", first, "--processes", 2)
    assert (here(first), here(second)) == (parts(0, 2), parts(0, 1, 2, 3))


def test_a_directory_with_fewer_partitions_than_processes_is_refused(tmp_path: Path) -> None:
    said("init", tmp_path, "--parts", 2)
    settings = Settings(recovery=tmp_path)
    prepare_recovery(settings, 2)
    with pytest.raises(SettingsError, match="has 2 partitions, fewer than the 3 processes"):
        prepare_recovery(settings, 3)
